#!/usr/bin/env python3
"""What nvcc made of the kernels: .ci/kernels.py NVCC [ARCHITECTURE…]  (90)

No kernel spills registers to memory or keeps arrays there (ptxas -v); attention on tensor cores really has them (HMMA),
its asynchronous copies and ldmatrix; and where common/devices/cuda/kernels/elements.cuh promises accesses of 128 bits,
the machine code (SASS) has them. Prints a line; says each kernel that is otherwise, and ends with 1.

Instructions are 16 bytes from Volta on: the opcode in the lowest 12 bits, of loads and stores the width in bits 73 to
75,
as cuobjdump -sass shows beside its text. Toolkits that are only a compiler lack cuobjdump.
"""

import re
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ROOT / "common/devices/cuda/kernels"
OPCODES = {0x23C: "HMMA", 0x83B: "LDSM", 0x981: "LDG", 0x986: "STG", 0xFAE: "LDGSTS"}
WIDTHS = {5: ".64", 6: ".128"}
# The kernel's name, as far as it goes: what its machine code must have; one of those that a | separates.
PROMISES = {
    "attention_forward_kernel": ["HMMA", "LDSM", "LDGSTS.128", "STG.128"],
    "attention_key_gradient_kernel": ["HMMA", "LDSM", "LDGSTS.128", "STG.128"],
    "attention_query_gradient_kernel": ["HMMA", "LDSM", "LDGSTS.128", "STG.128"],
    "map_kernel": ["LDG.128|LDG.64", "STG.128|STG.64", "LDG.128|STG.128"],
    "map2_kernel": ["LDG.128", "STG.128"],
    "fill_kernel": ["STG.128"],
    "draw_kernel": ["STG.128"],
    "dropout_kernel": ["LDG.128", "STG.128"],
    "adamw_kernel": ["LDG.128", "STG.128"],
    "layer_norm_kernel": ["LDG.128", "STG.128"],
    "layer_norm_backward_kernel": ["LDG.128", "STG.128"],
    "cross_entropy_kernel<false": ["LDG.128"],
    "cross_entropy_kernel<true, false": ["LDG.128", "STG.128"],
    "cross_entropy_kernel<true, true": ["LDGSTS.128", "STG.128"],
    "statistics_kernel": ["LDG.128"],
    "shard_gradient_kernel": ["LDG.128", "STG.128"],
    "embedding_kernel": ["LDG.128", "STG.128"],
    "sum_runs_kernel": ["LDG.128", "STG.128"],
    "position_sums_kernel": ["LDG.128", "STG.128"],
    "column_sums_kernel": ["LDG.128"],
    "find_overflow_kernel": ["LDG.128"],
    "sum_kernel": ["LDG.128"],
    "quantise_kernel": ["LDG.128", "STG.64"],
    "add_dequantised_kernel": ["LDG.128", "STG.128"],
}


def sections(data):
    """(name, bytes) of each section of a 64-bit ELF file."""
    (start,) = struct.unpack_from("<Q", data, 40)
    count, names = struct.unpack_from("<HH", data, 60)
    headers = [struct.unpack_from("<IIQQQQ", data, start + 64 * i) for i in range(count)]
    for name, _, _, _, offset, size in headers:
        begin = headers[names][4] + name
        yield data[begin : data.index(b"\0", begin)].decode(), data[offset : offset + size]


def instructions(code):
    """How often each instruction is there that a promise speaks of."""
    found = Counter()
    for low, high in struct.iter_unpack("<QQ", code):
        name = OPCODES.get(low & 0xFFF)
        if name:
            found[name + ("" if name in ("HMMA", "LDSM") else WIDTHS.get(high >> 9 & 7, ""))] += 1
    return found


def short(mangled):
    """layer_norm_kernel<__half>"""
    text = subprocess.run(["c++filt", mangled], capture_output=True, text=True, check=True).stdout.strip()
    for part in ("(anonymous namespace)::", "lockstep::kernels::", "void "):
        text = text.replace(part, "")
    return text.split("(")[0]


def compile_one(nvcc, source, architecture, folder):
    """(cubin's bytes, ptxas's words)"""
    cubin = Path(folder) / (source.stem + ".cubin")
    extra = ["--fmad=false"] if source.name == "adamw.cu" else []
    made = subprocess.run(
        [
            nvcc,
            "-cubin",
            f"-arch=sm_{architecture}",
            "-O3",
            "-std=c++17",
            *extra,
            "-Xptxas",
            "-v",
            f"-I{ROOT}",
            f"-I{ROOT}/common/devices/cuda/language",
            str(source),
            "-o",
            str(cubin),
        ],
        capture_output=True,
        text=True,
    )
    if made.returncode != 0:
        sys.exit(made.stderr)
    return cubin.read_bytes(), made.stderr


def memory_of(words):
    """{mangled name: (stack, spill stores, spill loads)} in bytes"""
    pattern = (
        r"Function properties for (\S+)\s+(\d+) bytes stack frame, (\d+) bytes spill stores, "
        r"(\d+) bytes spill loads"
    )
    return {name: tuple(map(int, numbers)) for name, *numbers in re.findall(pattern, words)}


def broken(name, found, promises):
    for start, wanted in promises.items():
        if name != start and not name.startswith((start + "<", start + ",")):
            continue
        for one in wanted:
            if not any(found[each] for each in one.split("|")):
                yield f"{name} has no {one.replace('|', ' nor ')}"


def judge(nvcc, sources, architecture, promises):
    """(how many kernels, what is wrong)"""
    wrong, names = [], set()
    with tempfile.TemporaryDirectory() as folder:
        for source in sources:
            cubin, words = compile_one(nvcc, source, architecture, folder)
            memory = memory_of(words)
            for section, code in sections(cubin):
                if not section.startswith(".text."):
                    continue
                mangled = section[len(".text.") :]
                name = short(mangled)
                names.add(name)
                if mangled not in memory:
                    wrong.append(f"ptxas said nothing of {name}")
                elif any(memory[mangled]):
                    wrong.append(
                        "{}: {} bytes of stack, {} of spill stores, {} of spill loads".format(name, *memory[mangled])
                    )
                wrong += broken(name, instructions(code), promises)
    for start in promises:
        if not any(name == start or name.startswith((start + "<", start + ",")) for name in names):
            wrong.append(f"no kernel is called {start}")
    return len(names), [f"sm_{architecture}: {what}" for what in wrong]


def main():
    nvcc, *architectures = sys.argv[1:]
    everything = []
    for architecture in architectures or ["90"]:
        count, wrong = judge(nvcc, sorted(KERNELS.glob("*.cu")), architecture, PROMISES)
        everything += wrong
        print(f"sm_{architecture}: {count} kernels, {len(wrong)} without what they promise")
    print("\n".join(everything), end="\n" if everything else "")
    sys.exit(1 if everything else 0)


if __name__ == "__main__":
    main()
