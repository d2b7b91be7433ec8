#!/usr/bin/env python3
"""What machine code CUDA objects hold: .ci/gpu_code.py OBJECT…  prints "OBJECT: sm_80 sm_90 compute_90" for each that
holds any. As cuobjdump --list-elf and --list-ptx do; toolkits that are only a compiler lack those.

A section .nv_fatbin is a row of containers: a header (magic 0xba55ed50, version, header's bytes, payload's bytes), then
entries: kind (1 PTX, 2 machine code), version, header's bytes, payload's bytes, …, at byte 28 the architecture.
"""

import re
import struct
import subprocess
import sys
import tempfile

MAGIC = 0xBA55ED50


def fatbin(path):
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(
            [
                "objcopy",
                "-O",
                "binary",
                "--only-section=.nv_fatbin",
                "--set-section-flags",
                ".nv_fatbin=alloc",
                path,
                out.name,
            ],
            check=True,
        )
        return out.read()


def entries(data):
    """(kind, architecture) of each entry."""
    for start in (m.start() for m in re.finditer(struct.pack("<I", MAGIC), data)):
        _, _, header, size = struct.unpack_from("<IHHQ", data, start)
        at, end = start + header, start + header + size
        while at + 32 <= end:
            kind, _, entry_header, payload = struct.unpack_from("<HHIQ", data, at)
            yield kind, struct.unpack_from("<I", data, at + 28)[0]
            at += entry_header + payload


def main():
    for path in sys.argv[1:]:
        names = sorted(
            {
                ("compute_" if kind == 1 else "sm_") + str(architecture)
                for kind, architecture in entries(fatbin(path))
                if kind in (1, 2)
            }
        )
        if names:
            print(f"{path}: {' '.join(names)}")


if __name__ == "__main__":
    main()
