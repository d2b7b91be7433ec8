"""Reads what the benchmarks wrote: JSON with a context and rows, and CSV files. Standard library only."""

import csv
import json
import pathlib
import re


def load(data, name):
    """{"context": …, "rows": […]} of data/NAME.json, or None where that step did not run."""
    path = pathlib.Path(data) / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def load_all(data, prefix):
    """By machine: {"dgx-a100": results, …} of all data/PREFIX_MACHINE.json."""
    found = {}
    for path in sorted(pathlib.Path(data).glob(f"{prefix}_*.json")):
        found[path.stem[len(prefix) + 1 :]] = json.loads(path.read_text())
    return found


def load_csv(data, name):
    path = pathlib.Path(data) / f"{name}.csv"
    if not path.exists():
        return None
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def losses(runs):
    """Some rows and columns for a table of several runs' losses, by name, the serial one's first; and the largest
    distance
    of any from the first at one step."""
    names = list(runs)
    rows = [dict(zip(["step", *names], [at[0]["step"], *(float(r["loss"]) for r in at)])) for at in zip(*runs.values())]
    columns = {"step": "step"} | {name: lambda r, name=name: f"{r[name]:.6f}" for name in names}
    gap = max(abs(r[name] - r[names[0]]) for r in rows for name in names)
    return rows[:: max(1, len(rows) // 12)] + [rows[-1]], columns, gap


def by(rows, **wanted):
    """The rows that have all these values."""
    return [r for r in rows if all(r.get(k) == v for k, v in wanted.items())]


def bytes_text(count):
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:g} B"


def amount(value):
    """Of money or hours: three digits, and all of a larger number's."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def decimal_text(count):
    """Bytes in units of a thousand, as memories of GPUs are counted; "–" for none."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:g} B" if count else "–"


def percent(value, digits=1):
    return "–" if value is None else f"{rounded(100 * value, digits):.{digits}f} %"


def rounded(value, digits):
    """Without the sign of a zero."""
    return round(value, digits) + 0.0


def miss(predicted, seen):
    """How far a prediction is off, the same in both directions: 1 where it is twice or half of what was seen."""
    return max(predicted / seen, seen / predicted) - 1


def off(predicted, seen):
    """How far a prediction lies from what was seen: "+3.4 %", "0.0 %"; "–" where one of them is missing."""
    if predicted is None or not seen:
        return "–"
    error = rounded(100 * (predicted / seen - 1), 1)
    return f"{error:+.1f} %" if error else "0.0 %"


def is_seconds(field):
    """Whether a field of a row is a time; relative_seconds is a ratio."""
    return bool(re.search(r"(^|_)seconds(_low|_high|_without|_a|_b)?$", field)) and not field.startswith("relative_")


def seconds_text(seconds):
    """In the unit that it needs, three digits; what is left below 10⁻¹³ s when times are subtracted is 0."""
    if seconds is None:
        return "–"
    rounded = float(f"{seconds:.3g}")
    for unit, size in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(rounded) >= size:
            return f"{rounded / size:.3g} {unit}"
    return f"{rounded / 1e-9:.3g} ns" if abs(rounded) >= 1e-13 else "0 ns"


# All-reduce on 8 A100 SXM with NCCL: bytes, busbw in GB/s (stas00/ml-engineering, network/README.md).
NCCL_8_A100 = [
    (32 << 10, 1.31),
    (128 << 10, 4.43),
    (512 << 10, 11.41),
    (2 << 20, 36.18),
    (8 << 20, 109.93),
    (32 << 20, 138.49),
    (128 << 20, 176.92),
    (512 << 20, 222.72),
]
