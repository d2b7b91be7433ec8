"""The collectives beside all-reduce: their algorithms against each other, and against the library's own. Standard
library only."""

from results import by, load, load_all
from row_words import MACHINE_NAMES, columns

NAMES = {
    "reduce_scatter": "reduce-scatter",
    "all_gather": "all-gather",
    "broadcast": "broadcast",
    "all_to_all": "all-to-all",
}
PANELS = (("reduce_scatter", "all_gather"), ("broadcast",), ("all_to_all",))  # collectives that share one
SIZES = (4 << 10, 1 << 20, 64 << 20)  # of the table


def curves(rows, collectives):
    """By name: the rows of each algorithm of these collectives, by size."""
    found = {}
    for r in rows:
        if r["collective"] in collectives and r["algorithm"] != "memory_copy":
            found.setdefault(NAMES[r["collective"]] + ", " + r["algorithm"], []).append(r)
    return found


def beside_library(measured):
    """By collective: of each size in these rows, that of the fastest algorithm that is ours."""
    found = {}
    for collective in NAMES:
        mine = [r for r in by(measured, collective=collective) if r["algorithm"] not in ("library", "memory_copy")]
        if mine:
            found[collective] = [
                min(by(mine, bytes=size), key=lambda r: r["seconds"]) for size in sorted({r["bytes"] for r in mine})
            ]
    return found


def part_of(report):
    found = {machine: results["rows"] for machine, results in load_all(report.data, "collectives_sim").items()}
    measured = (load(report.data, "collectives_mpi") or {"rows": []})["rows"]
    if not found:
        return ""
    rows = [r for mine in found.values() for r in mine if r["bytes"] in SIZES]
    rows += [r for r in measured if r["algorithm"] != "memory_copy"]
    shown = {
        "machine": lambda r: (
            "this computer, measured" if r["backend"] == "mpi" else MACHINE_NAMES.get(r["machine"], r["machine"])
        ),
        "p": "ranks",
        "collective": lambda r: NAMES[r["collective"]],
        **columns("algorithm, array, time, predicted, busbw GB/s"),
        "times the library’s": lambda r: (
            f"{r['times_library']:.2f}" if r.get("times_library") and r["algorithm"] != "library" else "–"
        ),
    }
    drawn = max(found, key=lambda machine: max(r["ranks"] for r in found[machine]))
    here = (
        " Right: <b>measured</b> on this computer’s processes, how many times as fast as MPI’s own the fastest of ours"
        " is at each size, medians of quotients turn by turn with 95 % intervals."
        if measured
        else ""
    )
    return report.figure(
        "collectives",
        "Panels of bus bandwidth over array size on a simulated cluster: ring reduce-scatter and all-gather climb to"
        " the network port's rate; of the broadcasts the star is best for the smallest arrays, the tree above them, and"
        " the chain in segments for the largest; all messages of an all-to-all at once beat one step after the other."
        " Last: how many times as fast as MPI's own ours are.",
        "<b>Simulated.</b> Marks are simulated, lines predicted. busbw as nccl-tests defines it: bytes / time, times (p"
        " − 1)/p but for a broadcast. The chain uses the number of segments predicted to be fastest." + here,
        rows,
        shown,
        [f"collectives_sim_{machine}.csv" for machine in found] + (["collectives_mpi.csv"] if measured else []),
        (found[drawn], beside_library(measured)),
        drawn_from=[f"collectives_sim_{drawn}"] + (["collectives_mpi"] if measured else []),
    )
