"""Which all-reduce for which size: crossovers predicted from a machine's prices, beside those that were seen. Standard
library only."""

from html_parts import note
from results import by, bytes_text, load, load_all, off
from row_words import MACHINE_NAMES

NAMES = {
    "recursive_doubling": "recursive doubling",
    "rabenseifner": "Rabenseifner",
    "ring": "ring",
    "hierarchical": "hierarchical",
}
TITLES = {
    "sim_dgx-a100-hdr": "on InfiniBand, a port for each GPU",
    "sim_dgx-a100-10gbe": "on 10 GbE, one port per node",
    "emulated": "by wall clock, emulated",
}


def studies(data):
    """By name: the rows of each crossover study, and how its times came about."""
    simulated = load_all(data, "crossover_sim")
    found = {f"sim_{machine}": ("simulated", simulated[machine]["rows"]) for machine in sorted(simulated, reverse=True)}
    emulated = load(data, "crossover_emulated")
    if emulated:
        found["emulated"] = ("emulated", emulated["rows"])
    return found


def curves(rows):
    """By algorithm: its rows, by size; `auto` apart, which is one of the others."""
    return {name: by(rows, algorithm=name) for name in NAMES if by(rows, algorithm=name)}


def changes(rows, field):
    """Where the fastest of the curves changes, by this field: (from, to, bytes). Between two sizes times are straight
    lines, as they are in the model."""
    drawn = curves(rows)
    sizes = [r["bytes"] for r in next(iter(drawn.values()))]
    least = [min(mine[i][field] for mine in drawn.values()) for i in range(len(sizes))]
    fastest = [
        next(name for name in drawn if drawn[name][i][field] <= least[i] * (1 + 1e-9)) for i in range(len(sizes))
    ]  # of equals the first
    found = []
    for i in range(1, len(sizes)):
        low, high = fastest[i - 1 : i + 1]
        if low != high:
            ahead, behind = (drawn[high][at][field] - drawn[low][at][field] for at in (i - 1, i))
            found.append((low, high, sizes[i - 1] + (sizes[i] - sizes[i - 1]) * ahead / (ahead - behind)))
    return found


def compared(rows):
    """A row for each predicted change: where it was predicted and where it was seen; `seen` is None where the same two
    never changed places."""
    seen = {(low, high): size for low, high, size in changes(rows, "seconds")}
    return [
        {
            "machine": rows[0]["machine"],
            "ranks": rows[0]["ranks"],
            "from": NAMES[low],
            "to": NAMES[high],
            "predicted": size,
            "seen": seen.get((low, high)),
        }
        for low, high, size in changes(rows, "predicted_seconds")
    ]


def part_of(report):
    found = studies(report.data)
    if not found:
        return ""
    rows = [dict(row, how=how) for how, results in found.values() for row in compared(results)]
    shown = {
        "machine": lambda r: MACHINE_NAMES.get(r["machine"], r["machine"]),
        "p": "ranks",
        "up to there": "from",
        "then": "to",
        "predicted": lambda r: bytes_text(r["predicted"]),
        "seen": lambda r: bytes_text(r["seen"]) if r["seen"] else "–",
        "error": lambda r: off(r["predicted"], r["seen"]),
        "how": "how",
    }
    hdr = by(found["sim_dgx-a100-hdr"][1], bytes=64 << 20) if "sim_dgx-a100-hdr" in found else []
    times = {r["algorithm"]: r["seconds"] for r in hdr}
    gain = (
        f" On two nodes with a port for each GPU, 64 MiB take the flat ring {times['ring'] / times['hierarchical']:.1f}"
        " times as long as the hierarchical all-reduce."
        if times
        else ""
    )
    clock = (
        ("", "")
        if "emulated" not in found
        else (
            ", and of processes by wall clock",
            ", and <b>emulated</b> by four processes that sleep through a PCIe box’s modelled times",
        )
    )
    return note(
        "<b>Which algorithm for which size.</b> On these machine files a prediction is a straight line in the bytes, so"
        " the file alone decides which algorithm is best; <i>auto</i> uses it." + gain
    ) + report.figure(
        "crossovers",
        "Panels of all-reduce time over array size relative to the flat ring, on a cluster with a network port for"
        f" each GPU, on one with a port for each node{clock[0]}: recursive doubling is lowest for small arrays,"
        " Rabenseifner's and the hierarchical algorithm for large ones; predictions lie on the measurements.",
        f"<b>Simulated</b>{clock[1]}. Marks are measurements, fine lines what exercise 21.5 predicts, the broad band is"
        " <i>auto</i>, which changes at the grey vertical lines. Where rails share a port they hide each other’s"
        " latency, and the formulas exceed the simulator’s times by up to a quarter.",
        rows,
        shown,
        [f"crossover_{name}.csv" for name in found],
        (found,),
    )
