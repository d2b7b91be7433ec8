"""What nccl-tests measured, from what its programs print or from the JSON file that -J writes (NVIDIA/nccl-tests,
src/util.cu), beside what a machine file predicts. Standard library only."""

import json
import re

import prices
from sources import CONTRADICTS, Results, Unusable, counted

# busbw over algbw on p ranks (nccl-tests, doc/PERFORMANCE.md); of the others it is 1.
BUS = {
    "all_reduce": lambda p: 2 * (p - 1) / p,
    "all_gather": lambda p: (p - 1) / p,
    "reduce_scatter": lambda p: (p - 1) / p,
    "alltoall": lambda p: (p - 1) / p,
    "gather": lambda p: (p - 1) / p,
    "scatter": lambda p: (p - 1) / p,
    "hypercube": lambda p: (p - 1) / p,
}
PROGRAM = re.compile(
    r"\b(all_reduce|all_gather|reduce_scatter|alltoallv?|broadcast|reduce|gather|scatter|sendrecv|hypercube)_perf"
)
RANK = re.compile(r"^#\s+Rank\s+(\d+) .*?on\s+(\S+) device\s+\d+ \[\S+\]\s*(.*)$", re.M)
VERSION = re.compile(r"nccl-library=(\d+)")
ROW = re.compile(r"^\s*\d+\s+\d+\s+\w+\s+\w+\s+-?\d+\s+[\d.]")
ROUNDED, LAST_DIGIT = 0.02, 0.01  # what rounding to two digits after the point leaves of a bandwidth


def is_output(text):
    return "out-of-place" in text and "algbw" in text and "busbw" in text


def is_document(document):
    return isinstance(document, dict) and isinstance(document.get("results"), list) and "config" in document


def library(version):
    """'2.23.4' of the number that NCCL calls 22304."""
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"


def of_output(text, name, machine):
    """Results of what one of its programs printed. Raises Unusable."""
    program, version = PROGRAM.search(text) or PROGRAM.search(name), VERSION.search(text)
    ranks = {int(rank): (host, device.strip()) for rank, host, device in RANK.findall(text)}
    head = next((line.split() for line in text.splitlines() if re.match(r"#\s+size\s+count", line)), None)
    if head is None:
        raise Unusable("is output of nccl-tests without the line that names its columns (# size count type …)")
    names, half = head[1:], head[1:].index("redop") + 2
    per = (len([n for n in names if n != "timestamp"]) - half) // 2  # columns out of place, and as many in place
    rows = []
    for line in text.splitlines():
        if not ROW.match(line):
            continue
        cells = line.split()
        for place, at in (("out of place", half), ("in place", half + per)):
            if len(cells) >= at + 4:
                rows.append((place, int(cells[0]), *(number(cell) for cell in cells[at : at + 4])))
    return results_of(name, program and program[1], ranks, version and int(version[1]), rows, machine)


def number(cell):
    try:
        return float(cell)
    except ValueError:
        return None


def of_document(document, name, machine):
    """Results of its JSON file, of which the environment (env) is not kept: it may hold secrets. Raises Unusable."""
    program = PROGRAM.search(" ".join(map(str, document.get("args") or []))) or PROGRAM.search(name)
    devices = document.get("devices") or []
    ranks = {d.get("rank"): (d.get("hostname", ""), d.get("device_info", "")) for d in devices if isinstance(d, dict)}
    rows = []
    for result in document["results"]:
        for place, key in (("out of place", "out_of_place"), ("in place", "in_place")):
            seen = result.get(key) if isinstance(result, dict) else None
            if seen:
                values = (
                    seen.get("time", seen.get("cpu_time")),
                    *(seen.get(f) for f in ("alg_bw", "bus_bw", "nwrong")),
                )
                rows.append((place, result.get("size"), *(v if isinstance(v, (int, float)) else None for v in values)))
    return results_of(name, program and program[1], ranks, document.get("nccl_version"), rows, machine)


def results_of(name, collective, ranks, version, measured, machine):
    """ranks: {rank: (host, GPU)}; measured: (place, bytes, µs, algbw, busbw, wrong values)."""
    measured = [row for row in measured if row[1] and row[2]]
    lacks = [
        words
        for words, there in (
            ("a program's name (all_reduce_perf …), in the file or as its name", collective),
            ("the lines '#  Rank  0 …', which say on how many GPUs it ran", ranks),
            ("rows of sizes", measured),
        )
        if not there
    ]
    if lacks:
        raise Unusable(f"is output of nccl-tests that lacks {', and '.join(lacks)}")
    p, factor = len(ranks), BUS.get(collective, lambda p: 1.0)(len(ranks))
    hosts, gpus = {host for host, _ in ranks.values()}, {gpu for _, gpu in ranks.values() if gpu}
    context = {
        "machine": f"{p} × {' and '.join(sorted(gpus)) or 'GPU'}, {counted(len(hosts), 'host')}",
        "versions": {"nccl": library(version)} if version else {},
        "command": f"{collective}_perf",
    }
    price, why = prices.of_collective(machine, collective, p) if machine else (None, "")
    rows, wrong = [], 0
    for place, size, us, algbw, busbw, errors in measured:
        check(place, size, us, algbw, busbw, factor, p)
        wrong += int(errors or 0)
        rows.append(
            {
                "collective": collective,
                "algorithm": place,
                "ranks": p,
                "bytes": size,
                "seconds": us * 1e-6,
                "algbw_gb_per_s": size / us * 1e-3,
                "busbw_gb_per_s": size / us * 1e-3 * factor,
                "predicted_seconds": price(size) if price else None,
                "reported": True,
            }
        )
    remarks = [f"predicted on {machine['name']}: {why}"] if machine else []
    remarks += [f"{counted(wrong, 'value')} were wrong (the column #wrong)"] if wrong else []
    kept = json.dumps({"context": context, "rows": rows}, indent=1)
    return Results(name, context, rows, remarks=remarks, kept=kept)


def check(place, size, us, algbw, busbw, factor, p):
    """Raises Unusable where the columns of a row say different things."""
    where = f"{CONTRADICTS} at {size:,} bytes {place}"
    near = lambda a, b: abs(a - b) <= ROUNDED * max(a, b) + LAST_DIGIT
    if algbw is not None and not near(algbw, size / us * 1e-3):
        raise Unusable(f"{where}: algbw is {algbw:g} GB/s, and bytes / time {size / us * 1e-3:.3g}")
    if None not in (algbw, busbw) and not near(busbw, algbw * factor):
        raise Unusable(
            f"{where}: busbw is {busbw / algbw:.3g} times algbw, and on the {p} ranks that it names it is {factor:.3g}"
            " times"
        )
