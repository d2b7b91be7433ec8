"""./lab report --from DIR: which figures a folder of anybody's results gives. Standard library only.

A figure's curves come from one place each: the same computer, program and commit. To add a kind of figure: an entry in
KINDS
here, its drawing in folder_figures.py.
"""

from dataclasses import dataclass, field
from typing import Callable

from curves import bandwidths, bubbles, compressed_sums, in_all, speedups, throughputs
from html_parts import cell
from laws import fit_of_context
from results import bytes_text, decimal_text, percent, seconds_text
from row_words import breakdown, columns, duration, has, has_width, times
from sources import same_place
from timeline import drawable


@dataclass(frozen=True)
class Kind:
    """A kind of figure: which rows it shows, and what is said of them."""

    name: str
    title: str
    mine: Callable  # of a row: belongs here
    caption: str
    columns: dict
    ascending: tuple = ()  # fields that order the rows
    more: Callable = lambda rows: ""  # of its rows, said after the caption
    drawn: bool = True  # else its table is all
    holds: str = ""  # what a figure has room for so many of: "bars", one for each row, or what is found in its rows
    find: Callable = None  # {label: rows}, a curve or a panel each
    nothing: str = ""  # said where it finds none
    # Says, for rows from somebody's file, how their numbers came about, and what the figure shows.
    reported: tuple = ("as in the file, which does not say how it was measured.", "")


@dataclass
class Chart:
    kind: Kind
    name: str
    files: list = field(default_factory=list)  # the Results that have rows here
    rows: list = field(default_factory=list)  # each with "file", where it is from


# The report's own results: steps by wall clock, each at its largest.
BY_WALL_CLOCK = (
    "ddp_mpi tp_mpi zero_mpi scale_mpi ddp_emulated tp_emulated_pcie-box_4 zero_emulated pipeline_wall_4".split()
)


def by_wall_clock(found):
    """The Chart of where the time of measured and emulated steps goes, from the report's results."""
    chosen = [results for name in BY_WALL_CLOCK for results in found if results.name == f"{name}.json"]
    return chart_of(
        "breakdown",
        chosen,
        lambda row: (
            (row.get("d_model") or 256) == 256
            and (row.get("microbatches") or 16) in (1, 16)
            and row.get("algorithm") != "compute"
        ),
    )


BREAKDOWN = ("compute", "exposed", "idle", "other")
RATES = ("samples", "tokens", "sequences", "examples", "images", "throughput")


def rate(row):
    """'190 samples/s (185 to 194)' of a row that was read from a file that is not ours."""
    what = next((what for what in RATES if row.get(f"{what}_per_second") is not None), None)
    if what is None or not row.get("reported"):
        return "–"
    low, high = (row.get(f"{what}_per_second{end}") for end in ("_low", "_high"))
    ends = f" ({low:,.4g} to {high:,.4g})" if low is not None and high is not None else ""
    return f"{row[f'{what}_per_second']:,.4g}{'' if what == 'throughput' else f' {what}/s'}{ends}"


PLACE = columns("from, how, machine, p, what")
TIMES = {"time": duration, "n": "samples"}
PARTS = {"parameters": "parameter", "gradients": "gradient", "optimizer": "optimizer", "activations": "activation"}

KINDS = [
    Kind(
        "speedup",
        "Speedup and efficiency",
        lambda r: "speedup" in r,
        "Speedup T(1)/T(p), times p for weak scaling, and efficiency, that over p. T(1) is a serial program of the same"
        " run. Bars: 95 % intervals; n samples each. Where ranks have no core each there is no point. Dotted: the law"
        " that a study fitted to its points, s the serial part of the work, shaded its 95 % interval.",
        {
            **PLACE,
            **columns("scaling"),
            **TIMES,
            "rate": rate,
            **columns("T(1)"),
            "speedup": times("speedup"),
            "efficiency": times("efficiency"),
            **columns("Karp–Flatt, limit"),
        },
        ("scaling", "ranks"),
        holds="curves",
        find=speedups,
        nothing="no figure: no row has a speedup",
        reported=(
            "as the file has it, or computed from its rates or times; how those were measured is not known.",
            "Efficiency is speedup over p. Lines are laws fitted to the points.",
        ),
    ),
    Kind(
        "breakdown",
        "Where a step's time goes",
        lambda r: breakdown(r) is not None,
        "Compute; exposed, communication that nothing hides; idle, waiting for other ranks, bubbles and unequal work;"
        " other: launches, the optimizer, data. Bars end at the median of n samples, whiskers are its 95 % interval.",
        {**PLACE, **TIMES, **{part: lambda r, part=part: seconds_text(breakdown(r)[part]) for part in BREAKDOWN}},
        ("machine", "ranks"),
        holds="bars",
    ),
    Kind(
        "bandwidth",
        "Bus bandwidth",
        lambda r: has("busbw_gb_per_s", "bytes", "ranks")(r) and "model" not in r and "link_gb_per_s" not in r,
        "Bus bandwidth by the definition of nccl-tests, and the time. Dotted lines, and dashes where a curve has one"
        " size, are predicted, never fitted on what they predict.",
        {**PLACE, **columns("array"), **TIMES, **columns("predicted, algbw GB/s, busbw GB/s")},
        ("ranks", "bytes"),
        in_all,
        holds="curves",
        find=bandwidths,
        nothing="no figure: no row has bytes",
        reported=("as the file has them; how they were measured is not known.", ""),
    ),
    Kind(
        "compression",
        "Compressed gradients",
        has("relative_bytes", "relative_seconds", "algorithm", "bytes", "ranks"),
        "Bytes that a rank sends and time of compressed sums, those of the ring of fp32 on as many ranks = 1. An"
        " all-gather’s bytes grow with p, a ring’s do not.",
        {
            **PLACE,
            **columns("array, sent by a rank"),
            "bytes, ring = 1": "relative_bytes",
            **TIMES,
            **columns("predicted"),
            "time, ring = 1": "relative_seconds",
            "break-even at p =": lambda r: (
                f"{r['ranks_to_break_even']:,.1f}".removesuffix(".0") if r.get("ranks_to_break_even") else "never"
            ),
        },
        ("machine", "bytes", "ranks"),
        holds="sums",
        find=compressed_sums,
        nothing="no figure: no ring to compare with",
    ),
    Kind(
        "throughput",
        "Tokens a second",
        lambda r: has("tokens_per_second")(r) and "speedup" not in r and "best" not in r,
        "Tokens per second of the global batch.",
        {**PLACE, "model": "model", **TIMES, "tokens/s": lambda r: f"{r['tokens_per_second']:,.0f}", "MFU": "mfu"},
        ("ranks",),
        holds="curves",
        find=throughputs,
        nothing="no figure: a curve over ranks needs two sizes",
    ),
    Kind(
        "bubble",
        "The pipeline's bubble",
        lambda r: has("bubble_of_total", "schedule", "microbatches", "stages")(r),
        "Idle share of the total over microbatches.",
        {
            **PLACE,
            **columns("stages, m"),
            "of the total": lambda r: percent(r["bubble_of_total"], 2),
            "by formula": lambda r: percent(r.get("predicted_bubble_of_total"), 2),
        },
        ("stages", "microbatches"),
        holds="curves",
        find=bubbles,
        nothing="no figure: a curve over microbatches needs two points",
    ),
    Kind(
        "memory_by_stage",
        "Memory by ZeRO stage",
        lambda r: by_stage(r),
        "By formula: parameters, gradients and optimizer state of one rank; 1 GB is 10⁹ bytes. Dashed lines: GPUs.",
        {
            **columns("from, model, stage, p"),
            **{part: lambda r, part=part: decimal_text(memory_parts(r)[part]) for part in PARTS},
            "total": lambda r: decimal_text(r["total_bytes"]),
            "smallest GPU that fits": "fits",
        },
        ("parameters", "stage", "ranks"),
        lambda rows: (
            " Activations of one rank are in it."
            if any(r["activation_bytes"] for r in rows)
            else " Activations are not in it."
        ),
        holds="models",
        find=lambda rows: {r["model"]: [other for other in rows if other["model"] == r["model"]] for r in rows},
    ),
    Kind(
        "memory",
        "Memory",
        lambda r: bool(memory_parts(r)) and not by_stage(r),
        "Bytes of one rank, by category, of the rank that holds most.",
        {**PLACE, **{part: lambda r, part=part: decimal_text(memory_parts(r).get(part, 0)) for part in PARTS}},
        ("ranks",),
        holds="bars",
    ),
    Kind(
        "bytes",
        "Bytes, by formula and by the ledger",
        lambda r: has("predicted_bytes", "measured_bytes")(r),
        "Bars: the memory ledger. Marks: the formula, with what it leaves out where the row says that.",
        {
            **PLACE,
            "part": lambda r: r.get("category") or r.get("attention") or "–",
            "when": "moment",
            "formula": lambda r: bytes_text(r["predicted_bytes"]),
            "ledger": lambda r: bytes_text(r["measured_bytes"]),
        },
        ("ranks",),
        holds="bars",
    ),
    Kind(
        "gains",
        "The speedup if each cost were removed",
        has("cost", "gained"),
        "A run replayed from its trace without one cost at a time; dependencies stay.",
        columns("from, cost, a step, without it, gained, the limit"),
        holds="bars",
    ),
    Kind(
        "calibration",
        "What a machine file was fitted to",
        lambda r: is_calibrated(r),
        "Points that ./lab calibrate measured, beside what the machine file gives for them. Messages that both ranks"
        " send at once, copies and square products were fitted; messages while nothing comes back, and products of"
        " other shapes, were not: there the difference is the file’s error.",
        {
            "from": "file",
            "what": lambda r: CALIBRATED.get(r["kind"], r["kind"]),
            "of": "point",
            "measured": "seconds",
            "by the file": "predicted_seconds",
            "difference": lambda r: f"{round(100 * r['residual'], 1) + 0.0:+.1f} %",
        },
        drawn=False,
    ),
]
TIMELINE = Kind(
    "timeline",
    "Timelines",
    lambda r: False,
    "What each queue of each rank did when, from the run’s trace: above its work phases and collectives, below it what"
    " it transfers.",
    {},
)
OTHER = Kind("other", "Results without a figure", lambda r: True, "Rows as they are.", {}, drawn=False)


def memory_parts(row):
    """{"parameters": bytes, …} of a row that says all four."""
    for end in ("_bytes_peak", "_bytes"):
        values = {name: row.get(stem + end) for name, stem in PARTS.items()}
        if all(isinstance(v, (int, float)) for v in values.values()):
            return values
    return {}


def by_stage(row):
    """Of ./lab memory."""
    return has("model", "parameters", "stage", "ranks", "total_bytes")(row) and bool(memory_parts(row))


# The measurements of ./lab calibrate, in words.
CALIBRATED = {
    "message": "message, both ways at once",
    "copy": "copy",
    "product": "product, square",
    "one way": "message, nothing comes back: not fitted",
    "other product": "product, other shapes: not fitted",
}


def is_calibrated(row):
    return has("kind", "point", "residual")(row)


def columns_of(chart):
    """Of its table: those of its kind in which some row says something; without a figure, all fields that the rows
    have."""
    if chart.kind.columns:
        said = lambda column: any(cell(row, column) not in ("–", "") for row in chart.rows)
        return {name: column for name, column in chart.kind.columns.items() if said(column)}
    return {name: name for row in chart.rows for name in row if name != "reported"}


def fits_of(chart, rows):
    """The laws of one curve: those that its study fitted, or that were fitted to what somebody reported."""
    files = {results.name: results for results in chart.files}
    if len({row["file"] for row in rows}) > 1:
        return []
    results, row = files[rows[0]["file"]], rows[0]
    if results.reported():
        return results.fits.get(row.get("model"), [])
    fit = fit_of_context(results.context, rows)
    return [fit] if fit else []


MOST = {"bars": 24, "curves": 14, "sums": 3, "models": 3}  # in one figure


def held(chart):
    """What its figure has room for: the first rows, or those of {label: rows} that have most points, as they stand
    there."""
    kind, most = chart.kind, MOST.get(chart.kind.holds)
    if not kind.find:
        return chart.rows[:most]
    found = kind.find(chart.rows)
    kept = sorted(found, key=lambda label: -len(found[label]))[:most]
    return {label: rows for label, rows in found.items() if label in kept}


def left_out(chart):
    """What the figure has no room for, in words; "" where it holds all."""
    shown, find = len(held(chart)), chart.kind.find
    every, which = (len(find(chart.rows)), "those with most points") if find else (len(chart.rows), "the first")
    return f"{shown} of {every} {chart.kind.holds}, {which}; the table has all" if shown < every else ""


BARS_HOLD = "Bars hold low and high, those of the row on the fewest ranks as well."


def sentences(fits):
    """What is said of the laws of one curve; where there are two, nothing says which of them is meant."""
    when = ("If the batch was one for all ranks: ", "If it grew with them: ") if len(fits) > 1 else ("",)
    return [start + fit.sentence() for start, fit in zip(when, fits)]


def laws_said(chart):
    """A sentence for each curve's laws."""
    found = {
        label: sentences(fits_of(chart, rows))
        for label, rows in (held(chart) if chart.kind.name == "speedup" else {}).items()
    }
    return [f"{label}: {' '.join(said)}" if len(found) > 1 else " ".join(said) for label, said in found.items() if said]


def caption(chart, printed=False):
    """Under its figure. printed: in a paper, whose author knows where the numbers come from."""
    words = left_out(chart)
    drawn = [f"Drawn: {words}."] if words else []
    if any(results.reported() for results in chart.files):  # whose columns may mean something else
        how, shows = chart.kind.reported
        title = f"{chart.kind.title}." if printed else f"{chart.kind.title}, reported by you: {how}"
        bars = BARS_HOLD if any(has_width(row, chart.kind.name) for row in chart.rows) else ""
        remarks = sorted({remark for r in chart.files for remark in r.remarks if remark.startswith("predicted")})
        said = [title, shows, bars, *laws_said(chart), *(f"Dotted: {remark}." for remark in remarks), *drawn]
        return " ".join(part for part in said if part)
    return (
        (f"{chart.files[0].trace.name}: " if chart.kind is TIMELINE else "")
        + " ".join([chart.kind.caption, *laws_said(chart)])
        + " ".join([chart.kind.more(chart.rows), *drawn])
    )


def lacking(chart):
    """Why there is no figure of these rows; "" where there is one."""
    if chart.kind is TIMELINE:
        return drawable(chart.files[0].trace)[1]
    return chart.kind.nothing if chart.kind.find and not chart.kind.find(chart.rows) else ""


def of_model(results):
    """{"model": …} where a file's rows are of one model that the context names."""
    return (
        {"model": results.context["model"]}
        if isinstance(results.context.get("model"), str) and not any("model" in row for row in results.rows)
        else {}
    )


def chart_of(kind_name, all_results, keep=lambda row: True):
    """One Chart of this kind, of results that are known to be of one place; None where they have no such rows."""
    (kind,) = (kind for kind in KINDS if kind.name == kind_name)
    rows = [
        dict(of_model(results), **row, file=results.name, command=results.context.get("command") or "")
        for results in all_results
        for row in results.rows
        if kind.mine(row) and keep(row)
    ]
    return Chart(kind, kind_name, list(all_results), rows) if rows else None


def charts(all_results):
    """The Charts of these files: of each kind one for each place that results come from."""
    found = {}
    for results in all_results:
        kinds = [kind for kind in KINDS if any(kind.mine(row) for row in results.rows)] or [OTHER]
        for kind in kinds:
            # Bars of one command stand together; curves may take points of several.
            command = results.context.get("command", "") if kind.holds == "bars" else ""
            apart = results.name if kind is OTHER else command
            key = kind.name, same_place(results.context), apart
            chart = found.setdefault(key, Chart(kind, ""))
            chart.files.append(results)
            chart.rows += [dict(of_model(results), **row, file=results.name) for row in results.rows if kind.mine(row)]
        if results.trace:
            found[results.name] = Chart(TIMELINE, "", [results])
    order = [kind.name for kind in (*KINDS, TIMELINE, OTHER)]
    ordered = sorted(found.values(), key=lambda chart: order.index(chart.kind.name))
    seen = {}
    for chart in ordered:
        seen[chart.kind.name] = seen.get(chart.kind.name, 0) + 1
        chart.name = f"{chart.kind.name}_{seen[chart.kind.name]}"
        chart.rows.sort(
            key=lambda row: [
                (
                    row.get(f) is None,
                    str(row.get(f)) if isinstance(row.get(f), str) else "",
                    row.get(f) if isinstance(row.get(f), (int, float)) else 0,
                )
                for f in chart.kind.ascending
            ]
        )
    return ordered
