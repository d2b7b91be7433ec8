"""What a row of results is called and how its numbers are written: its machine, its mesh, its times, and where a step's
time went. Standard library only."""

from results import bytes_text, is_seconds, off, percent, seconds_text
from sources import kind_of, span


MACHINE_NAMES = {  # in the tables of the reference report
    "pcie-box": "PCIe (4 RTX 4090, two sockets)",
    "dgx-a100": "NVLink (8 A100)",
    "dgx-h100": "NVLink (8 H100)",
    "dgx-1v": "NVLink (8 V100, whose bf16 is slow)",
    "laptop": "laptop",
    "uniform": "uniform: 1 µs, 1 GB/s",
    "dgx-h200": "NVLink (8 H200)",
    "dgx-b200": "NVLink (8 B200)",
    "dgx-a100-hdr": "InfiniBand HDR (nodes of 8 A100)",
}


def has(*fields):
    return lambda row: all(row.get(f) is not None for f in fields)


def times(name):
    """A value with its interval, where there is one: not of a single sample, nor where virtual time gives the same
    again and again."""

    def text(row):
        value, low, high = (row.get(name + end) for end in ("", "_low", "_high"))
        if value is None:
            return "refused: no core each" if row.get("fits_cores") is False else "–"
        show = seconds_text if is_seconds(name) else (lambda v: f"{v:.3g}")
        return show(value) + (f" ({show(low)} to {show(high)})" if has_width(row, name) else "")

    return text


def has_width(row, name):
    """Whether a field of a row has an interval that says more than the field: not of one sample, and wider than
    rounding."""
    low, high = (row.get(name + end) for end in ("_low", "_high"))
    return low is not None and high is not None and row.get("samples") != 1 and high - low > 1e-9 * abs(high)


def n_of(rows):
    """', n = 31' of measured rows."""
    counts = [r["samples"] for r in rows if r.get("samples") and kind_of(r) != "simulated"]
    return f", n = {span(counts)}" if counts else ""


# Names in a row for its replicas, its ranks of a layer, and its stages.
MESH = (("dp", "dp"), ("replicas", "dp"), ("tp", "tp"), ("tensor_parallel", "tp"), ("pp", "pp"), ("stages", "pp"))


def mesh(row):
    """{"dp": 2, "tp": 1, "pp": 4} of a row that says all three, as plans and training runs do; else {}."""
    found = {letters: row[field] for field, letters in MESH if row.get(field)}
    return found if len(found) == 3 else {}


def what_trains(row):
    """The name of a plan or training run: what it does beyond plain data parallelism. A run without stages has a
    schedule too, which says nothing."""
    on = mesh(row)
    parts = [
        row.get("schedule") if on["pp"] > 1 else "",
        f"ZeRO-{row['zero']}" if row.get("zero") else "",
        row.get("compress"),
        f"recompute {row['recompute']}" if row.get("recompute") not in (None, "", "none") else "",
    ]
    return ", ".join(p for p in parts if p) or (
        "serial" if set(on.values()) == {1} else "tensor-parallel" if on["tp"] > 1 else "data-parallel"
    )


def what(row):
    """The name of what a row measures: its algorithm, schedule, program or mesh."""
    if mesh(row) and not row.get("algorithm"):
        return what_trains(row)
    if row.get("collective"):
        return f"{row['collective'].replace('_', '-')}, {row['algorithm']}"
    for name in ("algorithm", "schedule", "program", "stage", "recompute"):
        if row.get(name) not in (None, ""):
            return f"ZeRO-{row[name]}" if name == "stage" else str(row[name])
    return str(row.get("model") or row.get("cost") or "")


def what_and_mesh(row):
    parts = [what(row), *(f"{letters} {size}" for letters, size in mesh(row).items() if size > 1)]
    parts += [
        words.format(row[field])
        for field, words in (("microbatches", "m = {}"), ("microbatch", "microbatches of {}"), ("chunks", "{} chunks"))
        if (row.get(field) or 1) > 1
    ]
    parts += [f"{row['offload']} on the host"] if row.get("offload") else []
    return ", ".join(parts + ([f"hop {seconds_text(row['transfer_seconds'])}"] if row.get("transfer_seconds") else []))


def machine(row):
    return row.get("machine") or row.get("cluster") or "–"


def ranks(row):
    """A plan counts GPUs, a lone pipeline stages."""
    return row.get("ranks") or row.get("gpus") or ("makespan_seconds" in row and row.get("stages")) or "–"


def duration(row):
    """The time of a step with its interval, by whatever name."""
    return times(
        next(
            (name for name in ("step_seconds", "makespan_seconds") if row.get("seconds") is None and row.get(name)),
            "seconds",
        )
    )(row)


def on(row):
    """'dgx-a100, simulated': where and how a row came about."""
    return kind_of(row) if machine(row) in ("–", "host") else f"{machine(row)}, {kind_of(row)}"


def breakdown(row):
    """Where the time of a step went: {"compute", "exposed", "idle", "other"} in seconds, or None where the row does not
    say.

    exposed: communication that nothing hides. idle: waiting for a turn, bubbles and unequal work. other: launches, the
    optimizer, data.
    """
    get = lambda *names: sum(max(0.0, row.get(n) or 0.0) for n in names)
    total = row.get("seconds") or row.get("step_seconds") or row.get("makespan_seconds")
    if not total:
        return None
    if row.get("lost_seconds") is not None:  # lab scale: each cost beyond its share of the serial step
        left = max(0.0, total - row["ideal_seconds"])
        exposed = min(left, get("lost_to_communication_seconds"))
        idle = min(left - exposed, get("lost_to_bubble_seconds", "lost_to_imbalance_seconds"))
        return {"compute": total - left, "exposed": exposed, "idle": idle, "other": left - exposed - idle}
    if "idle_seconds" in row and "tensor_seconds" in row:  # a phantom step of a mesh
        return {
            "compute": get("compute_seconds"),
            "exposed": get("tensor_seconds", "data_seconds"),
            "idle": get("idle_seconds"),
            "other": get("update_seconds"),
        }
    if "bubble_seconds" in row:  # a plan
        return {
            "compute": get("compute_seconds", "recompute_seconds"),
            "exposed": get("tensor_seconds", "data_seconds", "hop_seconds"),
            "idle": get("bubble_seconds"),
            "other": get("update_seconds", "host_seconds"),
        }
    if "busy_seconds" in row:  # a pipeline
        return {
            "compute": get("busy_seconds"),
            "exposed": 0.0,
            "idle": get("idle_seconds", "waiting_seconds"),
            "other": 0.0,
        }
    if row.get("exposed_seconds") is not None and row.get("algorithm") not in ("communication",):
        exposed, update = min(total, get("exposed_seconds")), get("optimizer_seconds")
        return {
            "compute": max(0.0, total - exposed - update),
            "exposed": exposed,
            "idle": 0.0,
            "other": min(update, total - exposed),
        }
    return None


def efficiency(row):
    return "refused: no core each" if row["efficiency"] is None else percent(row["efficiency"])


def exposed(row):
    """A step by wall clock may be shorter than its computing alone, timed beside it: then nothing exposed is seen."""
    seconds = row.get("exposed_seconds")
    below = seconds is not None and seconds < 0 and kind_of(row) in ("measured", "emulated")
    return "below noise" if below else times("exposed_seconds")(row)


def karp_flatt(row):
    """None of a speedup above one per rank, of which no serial part can be told."""
    return "–" if (row.get("efficiency") or 0) > 1 else times("karp_flatt")(row)


# Columns of tables, by their titles: a field by name, or a function of the row.
COLUMNS = {
    "from": "file",
    "how": kind_of,
    "machine": machine,
    "p": ranks,
    "what": what_and_mesh,
    "variant": "algorithm",
    "kind": "category",
    "when": "moment",
    "array": "bytes",
    "bucket": "bucket_bytes",
    "m": "microbatches",
    "n": "samples",
    "time": "seconds",
    "step": "seconds",
    "a step": "seconds",
    "T(1)": "serial_seconds",
    "without it": "seconds_without",
    "predicted": "predicted_seconds",
    "simulated": "simulated_seconds",
    "computing": "compute_seconds",
    "communication": "communication_seconds",
    "exposed": exposed,
    "makespan": "makespan_seconds",
    "busy": "busy_seconds",
    "before and after": "idle_seconds",
    "waiting": "waiting_seconds",
    "error": lambda r: off(r.get("predicted_seconds") or None, r["seconds"]),
    "hidden": lambda r: percent(r["hidden_fraction"], 0),
    "share": lambda r: percent(r["communication_share"]),
    "gained": lambda r: percent(r["gained"]),
    "MFU": lambda r: percent(r["mfu"]),
    "algbw": "algbw_gb_per_s",
    "algbw GB/s": "algbw_gb_per_s",
    "busbw GB/s": "busbw_gb_per_s",
    "efficiency": efficiency,
    "Karp–Flatt": karp_flatt,
    "the limit": "limit",
    "sent by a rank": lambda r: bytes_text(r["bytes_sent_per_rank_max"]),
}


def columns(names):
    """The columns of a table, "p, time, …", by what they are called; those that COLUMNS lacks are called as their
    fields."""
    return {name: COLUMNS.get(name, name.replace(" ", "_")) for name in names.split(", ")}
