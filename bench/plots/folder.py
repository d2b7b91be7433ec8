"""./lab report --from DIR: which figures a folder of anybody's results gives. Standard library only.

A figure's curves come from one place each: the same computer, program and commit. To add a kind of figure: an entry in KINDS
here, its drawing in folder_figures.py.
"""

import re
from dataclasses import dataclass, field
from typing import Callable

from gradients import ring_is_one
from results import bytes_text, is_seconds, seconds_text
from sources import kind_of, same_place
from timeline import too_long


@dataclass(frozen=True)
class Kind:
    """A kind of figure: which rows it shows, and what is said of them."""
    name: str
    title: str
    mine: Callable  # of a row: belongs here
    caption: str
    columns: dict
    ascending: tuple = ()  # fields that order the rows


@dataclass
class Chart:
    kind: Kind
    name: str
    files: list = field(default_factory=list)  # the Results that have rows here
    rows: list = field(default_factory=list)   # each with "file", where it is from


def has(*fields):
    return lambda row: all(row.get(f) is not None for f in fields)


def millions(name):
    return lambda row: "–" if row.get(name) is None else f"{row[name] / 1e6:,.1f} MB"


def times(name):
    """A value with its interval, where there is one."""
    def text(row):
        value, low, high = (row.get(name + end) for end in ("", "_low", "_high"))
        if value is None:
            return "refused: no core each" if row.get("fits_cores") is False else "–"
        show = seconds_text if is_seconds(name) else (lambda v: f"{v:.3g}")
        return show(value) + (f" ({show(low)} to {show(high)})" if low is not None and high is not None else "")
    return text


# How a row names its replicas, its ranks of a layer, and its stages.
MESH = (("dp", "dp"), ("replicas", "dp"), ("tp", "tp"), ("tensor_parallel", "tp"), ("pp", "pp"), ("stages", "pp"))


def mesh(row):
    """{"dp": 2, "tp": 1, "pp": 4} of a row that says all three, as plans and training runs do; else {}."""
    found = {letters: row[field] for field, letters in MESH if row.get(field)}
    return found if len(found) == 3 else {}


def what_trains(row):
    """The name of a plan or training run: what it does beyond plain data parallelism. A run without stages has a schedule too, which says nothing."""
    on = mesh(row)
    parts = [row.get("schedule") if on["pp"] > 1 else "", f"ZeRO-{row['zero']}" if row.get("zero") else "", row.get("compress"),
             f"recompute {row['recompute']}" if row.get("recompute") not in (None, "", "none") else ""]
    return ", ".join(p for p in parts if p) or ("serial" if set(on.values()) == {1} else "tensor-parallel" if on["tp"] > 1 else "data-parallel")


def what(row):
    """The name of what a row measures: its algorithm, schedule, program or mesh."""
    if mesh(row) and not row.get("algorithm"):
        return what_trains(row)
    for name in ("algorithm", "schedule", "program", "stage", "recompute"):
        if row.get(name) not in (None, ""):
            return f"ZeRO-{row[name]}" if name == "stage" else str(row[name])
    return str(row.get("model") or row.get("cost") or "")


def what_and_mesh(row):
    parts = [what(row), *(f"{letters} {size}" for letters, size in mesh(row).items() if size > 1)]
    parts += [words.format(row[field]) for field, words in (("microbatches", "m = {}"), ("microbatch", "microbatches of {}"), ("chunks", "{} chunks")) if (row.get(field) or 1) > 1]
    return ", ".join(parts + ([f"hop {seconds_text(row['transfer_seconds'])}"] if row.get("transfer_seconds") else []))


def machine(row):
    return row.get("machine") or row.get("cluster") or "–"


def ranks(row):
    """A plan counts GPUs, a lone pipeline stages."""
    return row.get("ranks") or row.get("gpus") or ("makespan_seconds" in row and row.get("stages")) or "–"


def duration(row):
    """The time of a step with its interval, by whatever name."""
    return times(next((name for name in ("step_seconds", "makespan_seconds") if row.get("seconds") is None and row.get(name)), "seconds"))(row)


def on(row):
    """'dgx-a100, simulated': where and how a row came about."""
    return kind_of(row) if machine(row) in ("–", "host") else f"{machine(row)}, {kind_of(row)}"


def breakdown(row):
    """Where the time of a step went: {"compute", "exposed", "idle", "other"} in seconds, or None where the row does not say.

    exposed: communication that nothing hides. idle: waiting for a turn, bubbles and unequal work. other: launches, the optimizer, data.
    """
    get = lambda *names: sum(max(0.0, row.get(n) or 0.0) for n in names)
    total = row.get("seconds") or row.get("step_seconds") or row.get("makespan_seconds")
    if not total:
        return None
    if row.get("lost_seconds") is not None:  # lab scale: what a step would gain without each cost; such costs overlap
        left = max(0.0, total - row["ideal_seconds"])
        exposed = min(left, get("lost_to_communication_seconds"))
        idle = min(left - exposed, get("lost_to_bubble_seconds", "lost_to_imbalance_seconds"))
        return {"compute": total - left, "exposed": exposed, "idle": idle, "other": left - exposed - idle}
    if "idle_seconds" in row and "tensor_seconds" in row:  # a phantom step of a mesh
        return {"compute": get("compute_seconds"), "exposed": get("tensor_seconds", "data_seconds"), "idle": get("idle_seconds"), "other": get("update_seconds")}
    if "bubble_seconds" in row:  # a plan
        return {"compute": get("compute_seconds", "recompute_seconds"), "exposed": get("tensor_seconds", "data_seconds", "hop_seconds"),
                "idle": get("bubble_seconds"), "other": get("update_seconds")}
    if "busy_seconds" in row:  # a pipeline
        return {"compute": get("busy_seconds"), "exposed": 0.0, "idle": get("idle_seconds", "waiting_seconds"), "other": 0.0}
    if row.get("exposed_seconds") is not None and row.get("algorithm") not in ("communication",):
        exposed, update = min(total, get("exposed_seconds")), get("optimizer_seconds")
        return {"compute": max(0.0, total - exposed - update), "exposed": exposed, "idle": 0.0, "other": min(update, total - exposed)}
    return None


# Of the report's own results: steps by wall clock, each at its largest.
BY_WALL_CLOCK = ("ddp_mpi", "tp_mpi", "zero_mpi", "scale_mpi", "ddp_emulated", "tp_emulated_pcie-box_4", "zero_emulated", "pipeline_wall_4")


def by_wall_clock(found):
    """The Chart of where the time of measured and emulated steps goes, from the report's results."""
    chosen = [results for name in BY_WALL_CLOCK for results in found if results.name == f"{name}.json"]
    return chart_of("breakdown", chosen, lambda row: (row.get("d_model") or 256) == 256 and (row.get("microbatches") or 16) in (1, 16) and row.get("algorithm") != "compute")


BREAKDOWN = ("compute", "exposed", "idle", "other")
PLACE = {"from": "file", "how": lambda r: kind_of(r), "machine": machine, "p": ranks, "what": what_and_mesh}
TIMES = {"time": duration, "n": "samples"}

KINDS = [
    Kind("speedup", "Speedup and efficiency", lambda r: "speedup" in r,
         "Speedup T(1)/T(p), times p for weak scaling, and efficiency, that over p. T(1) is a serial program of the same run. Bars: 95 % intervals; n samples each. "
         "Where ranks have no core each there is no point. Dotted: the law that a study fitted to its points, s the serial part of the work, shaded its 95 % interval.",
         {**PLACE, "scaling": "scaling", **TIMES, "T(1)": "serial_seconds", "speedup": times("speedup"), "efficiency": times("efficiency"),
          "Karp–Flatt": times("karp_flatt"), "limit": "limit"}, ("scaling", "ranks")),
    Kind("breakdown", "Where a step's time goes", lambda r: breakdown(r) is not None,
         "Compute; exposed, communication that nothing hides; idle, waiting for a turn, bubbles and unequal work; other: launches, the optimizer, data. "
         "Bars end at the median of n samples, whiskers are its 95 % interval.",
         {**PLACE, **TIMES, **{part: (lambda r, part=part: seconds_text(breakdown(r)[part])) for part in BREAKDOWN}}, ("machine", "ranks")),
    Kind("bandwidth", "Bus bandwidth", lambda r: has("busbw_gb_per_s", "bytes", "ranks")(r) and "model" not in r and "link_gb_per_s" not in r,
         "Bus bandwidth by the definition of nccl-tests, and the time. Dotted lines, and dashes where a curve has one size, are predicted, never fitted on what they predict.",
         {**PLACE, "array": "bytes", **TIMES, "predicted": "predicted_seconds", "algbw": "algbw_gb_per_s", "busbw GB/s": "busbw_gb_per_s"}, ("ranks", "bytes")),
    Kind("compression", "Compressed gradients", has("relative_bytes", "relative_seconds", "algorithm", "bytes", "ranks"),
         "Bytes that a rank sends and time of compressed sums, those of the ring of fp32 on as many ranks = 1. An all-gather’s bytes grow with p, a ring’s do not.",
         {**PLACE, "array": "bytes", "sent by a rank": lambda r: bytes_text(r["bytes_sent_per_rank_max"]), "bytes, ring = 1": "relative_bytes", **TIMES,
          "predicted": "predicted_seconds", "time, ring = 1": "relative_seconds", "as many bytes from p": lambda r: f"{r['ranks_to_break_even']:,.1f}".removesuffix(".0") if r.get("ranks_to_break_even") else "never"},
         ("machine", "bytes", "ranks")),
    Kind("throughput", "Tokens a second", lambda r: has("tokens_per_second")(r) and "speedup" not in r and "best" not in r,
         "Tokens a second of the global batch.", {**PLACE, "model": "model", **TIMES, "tokens/s": lambda r: f"{r['tokens_per_second']:,.0f}", "MFU": "mfu"}, ("ranks",)),
    Kind("bubble", "The pipeline's bubble", lambda r: has("bubble_of_total", "schedule", "microbatches", "stages")(r),
         "Idle share of the total over microbatches.",
         {**PLACE, "stages": "stages", "m": "microbatches", "of the total": lambda r: f"{100 * r['bubble_of_total']:.2f} %",
          "by formula": lambda r: "–" if r.get("predicted_bubble_of_total") is None else f"{100 * r['predicted_bubble_of_total']:.2f} %"}, ("stages", "microbatches")),
    Kind("memory_by_stage", "Memory by ZeRO stage", lambda r: by_stage(r),
         "By formula: parameters, gradients and optimizer state, and the activations of one rank. Dashed lines: GPUs.",
         {"from": "file", "model": "model", "stage": "stage", "p": "ranks", **{part: (lambda r, part=part: bytes_text(memory_parts(r)[part])) for part in
          ("parameters", "gradients", "optimizer", "activations")}, "total": lambda r: bytes_text(r["total_bytes"]), "smallest that holds it": "fits"}, ("parameters", "stage", "ranks")),
    Kind("memory", "Memory", lambda r: bool(memory_parts(r)) and not by_stage(r),
         "Bytes of one rank, by category, of the rank that holds most.", {**PLACE, **{part: (lambda r, part=part: bytes_text(memory_parts(r).get(part, 0))) for part in
          ("parameters", "gradients", "optimizer", "activations")}}, ("ranks",)),
    Kind("bytes", "Bytes, by formula and by the ledger", lambda r: has("predicted_bytes", "measured_bytes")(r),
         "Bars: the memory ledger. Marks: the formula, with what it leaves out where the row says that.",
         {**PLACE, "part": lambda r: r.get("category") or r.get("attention") or "–", "when": "moment", "formula": lambda r: bytes_text(r["predicted_bytes"]),
          "ledger": lambda r: bytes_text(r["measured_bytes"])}, ("ranks",)),
    Kind("published", "Published times", has("published_seconds"), "Published times beside the predicted ones.",
         {"from": "file", "model": lambda r: r.get("model") or f"d_model {r.get('d_model')}", "p": "ranks", "machine": machine, "recompute": "recompute", "published": "published_seconds",
          "predicted": lambda r: seconds_text(r.get("step_seconds") or r.get("predicted_seconds"))}),
    Kind("gains", "What a run would gain without each of its costs", has("cost", "gained"),
         "A run replayed from its trace without one cost at a time; dependencies stay.",
         {"from": "file", "cost": "cost", "a step": "seconds", "without it": "seconds_without", "gained": lambda r: f"{100 * r['gained']:.1f} %", "the limit": "limit"}),
]
TIMELINE = Kind("timeline", "Timelines", lambda r: False, "What each queue of each rank did when, from the run’s trace: above its work phases and collectives, below it what it transfers.", {})
OTHER = Kind("other", "Results without a figure", lambda r: True, "Rows as they are.", {})


def memory_parts(row):
    """{"parameters": bytes, …} of a row that says all four."""
    for end in ("_bytes_peak", "_bytes"):
        values = {name: row.get(stem + end) for name, stem in (("parameters", "parameter"), ("gradients", "gradient"), ("optimizer", "optimizer"), ("activations", "activation"))}
        if all(isinstance(v, (int, float)) for v in values.values()):
            return values
    return {}


def by_stage(row):
    """Of ./lab memory."""
    return has("model", "parameters", "stage", "ranks", "total_bytes")(row) and bool(memory_parts(row))


def columns_of(chart):
    """Of its table; without a figure, all fields that the rows have."""
    if chart.kind.columns:
        return chart.kind.columns
    return {name: name for row in chart.rows for name in row}


def speedups(rows):
    """{label: rows} over ranks, of the rows that are points of a speedup: of several ranks, and not refused."""
    def name(row):
        more = what(row) if row.get("algorithm") not in (None, "overlap") else ""
        return ", ".join(p for p in (f"{row.get('scaling') or ''} {more}".strip(), on(row)) if p)

    return curves([r for r in rows if r["speedup"] is not None and r.get("algorithm") not in ("serial", "compute")], "ranks", name)


def bandwidths(rows):
    """{label: rows} over bytes."""
    return curves([r for r in rows if r["bytes"]], "bytes", lambda r: f"{what(r)}, p = {r['ranks']}, {on(r)}")


def bubbles(rows):
    """{label: rows} over microbatches."""
    hop = lambda r: f", hop {seconds_text(r['transfer_seconds'])}" if r.get("transfer_seconds") else ""
    return curves(rows, "microbatches", lambda r: f"{r['schedule']}, {r['stages']} stages{hop(r)}, {on(r)}") if len(rows) > 1 else {}


def compressed_sums(rows):
    """{where: rows} of compressed sums that have a ring beside them; where two files have the same point, the second one's stand apart."""
    name = lambda r: f"{on(r)}, {bytes_text(r['bytes'])}"
    found = curves([dict(r, point=(r["algorithm"], r["ranks"])) for r in rows], "point", name)
    return {where: mine for where, mine in found.items() if ring_is_one(mine, "seconds")}


def throughputs(rows):
    """{label: rows} of curves over ranks, of one model each, cut in one way; one that has a single point has its table alone."""
    def name(row):
        size = f"{row['parameters'] / 1e6:.4g} M parameters" if row.get("parameters") else ""
        cut = " ".join(f"{letters} {row[field]}" for field, letters in MESH if letters != "dp" and (row.get(field) or 1) > 1)
        more = what(row) if row.get("algorithm") else row.get("compress")
        return ", ".join(p for p in (str(row.get("model") or size), cut, more, on(row)) if p)

    return {label: mine for label, mine in curves([r for r in rows if r.get("ranks")], "ranks", name).items() if len(mine) > 1}


# What is drawn of the kinds whose figures are curves or panels: {label: rows}; and what is said where that is nothing.
DRAWN = {"speedup": (speedups, "no figure: no row has a speedup"), "bandwidth": (bandwidths, "no figure: no row has bytes"),
         "compression": (compressed_sums, "no figure: no ring to compare with"), "throughput": (throughputs, "no figure: a curve over ranks needs two sizes"),
         "memory_by_stage": (lambda rows: {model: [r for r in rows if r["model"] == model] for model in dict.fromkeys(r["model"] for r in rows)}, ""), "bubble": (bubbles, "no figure: a curve over microbatches needs two points")}
BARS = ("breakdown", "memory", "bytes", "published", "gains")
PANELS = {"compression": "sums", "memory_by_stage": "models"}  # kinds with a panel for each
MOST_BARS, MOST_CURVES, MOST_PANELS = 24, 14, 3


def most_of(found, most):
    """The entries of {label: rows} that one figure can hold: those of most points, in the order of `found`."""
    kept = sorted(found, key=lambda label: -len(found[label]))[:most]
    return {label: rows for label, rows in found.items() if label in kept}


def bars(chart):
    """The rows that its figure has room for."""
    return chart.rows[:MOST_BARS]


def curves_of(chart):
    """{label: rows} that its figure has room for: a panel each, or a curve."""
    find, _ = DRAWN[chart.kind.name]
    return most_of(find(chart.rows), MOST_PANELS if chart.kind.name in PANELS else MOST_CURVES)


def left_out(chart):
    """What the figure has no room for, in words; "" where it holds all."""
    if chart.kind.name in BARS:
        held, all_of_them, words = bars(chart), chart.rows, "bars, the first"
    elif chart.kind.name in DRAWN:
        held, all_of_them = curves_of(chart), DRAWN[chart.kind.name][0](chart.rows)
        words = PANELS.get(chart.kind.name, "curves") + ", those with most points"
    else:
        return ""
    return f"{len(held)} of {len(all_of_them)} {words}; the table has all" if len(held) < len(all_of_them) else ""


def caption(chart):
    """Under its figure."""
    words = left_out(chart)
    return (f"{chart.files[0].trace.name}: " if chart.kind is TIMELINE else "") + chart.kind.caption + (f" Drawn: {words}." if words else "")


def lacking(chart):
    """Why there is no figure of these rows; "" where there is one."""
    if chart.kind is TIMELINE:
        return too_long(chart.files[0].trace)
    find, words = DRAWN.get(chart.kind.name, (None, ""))
    return "" if find is None or find(chart.rows) else words


def chart_of(kind_name, all_results, keep=lambda row: True):
    """One Chart of this kind, of results that are known to be of one place; None where they have no such rows."""
    kind, = (kind for kind in KINDS if kind.name == kind_name)
    rows = [dict(row, file=results.name, command=results.context.get("command") or "") for results in all_results for row in results.rows if kind.mine(row) and keep(row)]
    return Chart(kind, kind_name, list(all_results), rows) if rows else None


def charts(all_results):
    """The Charts of these files: of each kind one for each place that results come from."""
    found = {}
    for results in all_results:
        kinds = [kind for kind in KINDS if any(kind.mine(row) for row in results.rows)] or [OTHER]
        for kind in kinds:
            # Bars of one command stand together; curves may take points of several.
            apart = results.name if kind is OTHER else results.context.get("command", "") if kind.name in BARS else ""
            key = kind.name, same_place(results.context), apart
            chart = found.setdefault(key, Chart(kind, ""))
            chart.files.append(results)
            chart.rows += [dict(row, file=results.name) for row in results.rows if kind.mine(row)]
        if results.trace:
            found[results.name] = Chart(TIMELINE, "", [results])
    order = [kind.name for kind in (*KINDS, TIMELINE, OTHER)]
    ordered = sorted(found.values(), key=lambda chart: order.index(chart.kind.name))
    seen = {}
    for chart in ordered:
        seen[chart.kind.name] = seen.get(chart.kind.name, 0) + 1
        chart.name = f"{chart.kind.name}_{seen[chart.kind.name]}"
        chart.rows.sort(key=lambda row: [(row.get(f) is None, str(row.get(f)) if isinstance(row.get(f), str) else "", row.get(f) if isinstance(row.get(f), (int, float)) else 0)
                                         for f in chart.kind.ascending])
    return ordered


def curves(rows, x, name):
    """{label: rows} of curves over field x: rows of one name, and where two files have the same point, a curve for each file."""
    found = {}
    for row in rows:
        label = name(row)
        if any(other[x] == row[x] for other in found.get(label, [])):
            label += f" [{re.sub(r'[.]json$', '', row['file'])}]"
        found.setdefault(label, []).append(row)
    return found
