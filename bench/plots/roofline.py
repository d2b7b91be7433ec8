"""The roofline of a step: what its operations compute for each byte that they move, beside what the machine reaches
(Williams, Waterman and Patterson, Communications of the ACM 52(4), 2009). Standard library only.

Of a run the operations are in its trace; of a plan they are rows of its results.
"""

import json
import math

from folder import Chart, Kind
from results import decimal_text, percent, seconds_text

ROOFS = ("peak_flop_per_second", "memory_bytes_per_second")
NAMES = {  # what several operations are called together
    "matmul": "matmuls",
    "attention": "attention",
    "attention_block": "attention",
    "layer_norm": "normalisation",
    "rms_norm": "normalisation",
    "add": "additions",
    "add_rows": "additions",
    "adamw": "AdamW",
    "gelu": "GELU",
    "swiglu": "SwiGLU",
}


def decimal(value, unit):
    """'312 TFLOP/s'"""
    for letter, size in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if value >= size:
            return f"{value / size:.3g} {letter}{unit}"
    return f"{value:.3g} {unit}"


def intensity(row):
    return row["flop"] / row["moved_bytes"]


def bound(row):
    """What limits an operation of this intensity, where both roofs are known."""
    return "–" if not ridge([row]) else "compute" if intensity(row) >= ridge([row]) else "memory"


def ridge(rows):
    """FLOP per byte from which on the peak limits, not the memory; None where a roof is not known."""
    peak, memory = (rows[0].get(field) for field in ROOFS)
    return peak / memory if peak and memory and math.isfinite(peak / memory) else None


def more(rows):
    """After the caption: where the machine's ridge is, and what of the time lies left of it."""
    if not ridge(rows):
        return " What this computer reaches at most is not known. ./lab calibrate measures it."
    whole = sum(row["seconds"] for row in rows)
    slow = sum(row["seconds"] for row in rows if bound(row) == "memory")
    return (
        f" The machine does {ridge(rows):.3g} FLOP while a byte moves. Operations with fewer take"
        f" {percent(slow / whole, 0)} of the arithmetic’s {seconds_text(whole)}. Points below both lines are short"
        " operations, which take longer to launch. Points above the slanted one find their data in caches."
    )


KIND = Kind(
    "roofline",
    "Roofline",
    lambda r: "moved_bytes" in r and "operation" in r,
    "Operations at the FLOP that they do for each byte read or written, each element counted once, and at the FLOP/s"
    " that they reach. A point’s area is its share of the arithmetic’s time.",
    {
        "operation": "operation",
        "calls": "calls",
        "time": "seconds",
        "FLOP": lambda r: decimal(r["flop"], "FLOP"),
        "moved": lambda r: decimal_text(r["moved_bytes"]),
        "FLOP per byte": lambda r: f"{intensity(r):.3g}",
        "reached": lambda r: decimal(r["flop"] / r["seconds"], "FLOP/s"),
        "limited by": bound,
    },
    more=more,
)


def operations_of_trace(path):
    """Rank 0's operations in a step, the longest first: [{"operation", "calls", "seconds", "flop", "moved_bytes"}, …].
    Means over its steps but the first, which warms up; [] where the trace does not say what operations do."""
    steps, events = [], []
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if '"pid": 0,' not in line or ('"moved_bytes"' not in line and '"name": "step"' not in line):
                continue
            event = json.loads(line.rstrip().rstrip(","))
            (events if event.get("cat") == "compute" else steps).append(event)
    ends = [(s["ts"], s["ts"] + s["dur"]) for s in steps if s.get("cat") == "region" and not s["args"].get("cut")]
    ends = ends[1:] or ends
    totals = {}
    for event in events:
        if not any(begin <= event["ts"] < end for begin, end in ends):
            continue
        work = event["args"]
        seconds = work.get("own_seconds", 1e-6 * event["dur"])
        values = (1, seconds, work["flop"], work["moved_bytes"])
        total = totals.setdefault(event["name"], [0, 0, 0, 0])
        totals[event["name"]] = [a + b / len(ends) for a, b in zip(total, values)]
    rows = [
        {"operation": name, "calls": round(calls, 2), "seconds": seconds, "flop": flop, "moved_bytes": moved}
        for name, (calls, seconds, flop, moved) in totals.items()
    ]
    return sorted(rows, key=lambda row: -row["seconds"])


def chart(results, rows, name="roofline", **more):
    """The Chart of these operations with the roofs in `more`; None where none of them computes."""
    rows = [{**row, **more, "file": results.name} for row in rows if row["flop"] and row["seconds"]]
    return Chart(KIND, name, [results], rows) if rows else None


def groups(rows):
    """Operations that one word names, added up, forward and backward together; the longest first."""
    found = {}
    for row in rows:
        stem = row["operation"].removesuffix("_backward")
        name = NAMES.get(stem, stem.replace("_", " "))
        group = found.setdefault(
            name, {**row, "operation": name, "calls": 0, "seconds": 0, "flop": 0, "moved_bytes": 0}
        )
        for field in ("calls", "seconds", "flop", "moved_bytes"):
            group[field] += row[field]
    return sorted(found.values(), key=lambda row: -row["seconds"])


LEAST = 0.005  # of the arithmetic's time: shorter operations are in the table only


def drawn(rows):
    """The groups that take some time."""
    whole = sum(row["seconds"] for row in rows)
    return [row for row in groups(rows) if row["seconds"] >= LEAST * whole]


def plain(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def said(rows):
    """What the figure shows, in a sentence: of the matmuls, and of the normalisation or what else takes longest."""
    found = groups(rows)
    first = next((row for row in found if row["operation"] == "matmuls"), found[0])
    others = [row for row in found if row is not first and row["operation"] != "attention"]
    other = next((row for row in others if row["operation"] == "normalisation"), next(iter(others), None))
    name = lambda row: row["operation"][0].upper() + row["operation"][1:] if row is first else row["operation"]
    known = ridge(rows) is not None
    apart = known and (not other or bound(first) != bound(other))
    limits = lambda row: f" ({bound(row)}-bound)" if apart else ""
    sentence = f"{name(first)} do {plain(intensity(first))} FLOP/byte{limits(first)}"
    if other:
        sentence += f", {name(other)} {plain(intensity(other))}{limits(other)}"
    return sentence + (f": both are {bound(first)}-bound" if known and not apart else "")
