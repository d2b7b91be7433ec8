"""What the report opens with: six findings, each one sentence with a small figure. Standard library only.

A finding whose results are missing is left out; what its sentence says is worked out from the rows, here and nowhere
else.
"""

import html
import math
import statistics
from dataclasses import dataclass

from html_parts import inline_svg, section
from prices import has_nodes
from results import by, bytes_text, decimal_text, load, load_all, miss, percent, seconds_text
from sources import codes_of, counted, is_quiet, number


@dataclass(frozen=True)
class Finding:
    name: str  # of its figure
    title: str
    sentence: str
    how: str  # simulated, measured, …
    alt: str
    further: str  # the section that has more
    shown: tuple  # what its figure draws


def whole(value):
    return f"{value:,.0f}"


def laws(machines):
    """Of each machine (name, ranks, speedup at most ranks, serial fraction or None), by falling speedup."""
    found = []
    for machine, results in machines.items():
        strong = [r for r in by(results["rows"], scaling="strong") if r["speedup"] is not None]
        if strong:
            last = max(strong, key=lambda r: r["ranks"])
            found.append((machine, last["ranks"], last["speedup"], results["context"].get("amdahl_serial_fraction")))
    return sorted(found, key=lambda law: -law[2] / law[1])


def scaling(data):
    machines = load_all(data, "scaling_sim")
    found = laws(machines)
    if not found:
        return None
    model = next(iter(machines.values()))["rows"][0]["model"]
    words = []
    for machine, ranks, speedup, serial in found:
        limit = (
            f" (serial part {percent(serial)}, so never beyond {whole(1 / serial)})" if serial and serial > 1e-3 else ""
        )
        words.append(f"{speedup:.1f} times as fast on {ranks} ranks of {machine}{limit}")
    return Finding(
        "finding_scaling",
        "A fixed batch stops scaling",
        f"One step of {model} is {'; '.join(words)}.",
        "simulated, with Amdahl’s law fitted to the points",
        "Speedup over ranks of each machine, and Amdahl's curves.",
        "scaling",
        (machines,),
    )


def best_ring(machines):
    """(the ring's row, the naive one's, machine) at 64 MiB on the machine of one node where the ring gains most; None
    without any. Between nodes a flat ring uses one port of each, not every link."""
    best = None
    for machine, results in machines.items():
        if has_nodes(machine):
            continue
        for r in by(results["rows"], algorithm="ring", bytes=64 << 20):
            (naive,) = by(results["rows"], algorithm="naive", bytes=64 << 20)
            if best is None or naive["seconds"] / r["seconds"] > best[1]["seconds"] / best[0]["seconds"]:
                best = (r, naive, machine)
    return best


def ring(data):
    machines = load_all(data, "all_reduce_sim")
    best = best_ring(machines)
    if best is None:
        return None
    r, naive, machine = best
    return Finding(
        "finding_ring",
        "A ring uses every link",
        f"Summing 64 MiB over {r['ranks']} ranks of {machine} takes a ring {seconds_text(r['seconds'])} and the naive"
        f" way {seconds_text(naive['seconds'])}, {naive['seconds'] / r['seconds']:.0f} times as long: its"
        f" busiest rank sends {bytes_text(r['bytes_sent_per_rank_max'])}, not"
        f" {bytes_text(naive['bytes_sent_per_rank_max'])}.",
        "simulated",
        "Time over array size of the ring and the naive all-reduce.",
        "bandwidth",
        (machines[machine]["rows"],),
    )


def overlaps(data):
    """{machine: rows of overlapped steps without accumulation, by bucket size}."""
    return {
        machine: sorted(by(results["rows"], algorithm="overlap", microbatches=1), key=lambda r: r["bucket_bytes"])
        for machine, results in load_all(data, "ddp_sim").items()
    }


def overlap(data):
    words, machines = [], {machine: rows for machine, rows in overlaps(data).items() if rows}
    for machine, rows in machines.items():
        known = [r for r in rows if r["hidden_fraction"] is not None]
        if known:
            best, worst = max(known, key=lambda r: r["hidden_fraction"]), min(known, key=lambda r: r["hidden_fraction"])
            words.append(
                f"{100 * best['hidden_fraction']:.0f} % of the averaging on {machine} with buckets of"
                f" {bytes_text(best['bucket_bytes'])} ({100 * worst['hidden_fraction']:.0f} % with"
                f" {bytes_text(worst['bucket_bytes'])})"
            )
    if not words:
        return None
    return Finding(
        "finding_overlap",
        "The bucket size decides what overlap hides",
        f"The backward pass hides {' and '.join(words)}.",
        "simulated",
        "Share of the averaging that is hidden, over bucket size.",
        "ddp",
        (machines,),
    )


def resident(data):
    """{stage: {ranks: bytes at rest of one rank}} by the ledger, and how far the formula is from it at worst."""
    results = load(data, "zero_memory")
    stages, worst = {}, 0.0
    for r in results["rows"] if results else []:
        if r.get("moment") == "resident" and r["category"] in ("parameters", "gradients", "optimizer"):
            of_stage = stages.setdefault(r["stage"], {})
            of_stage[r["ranks"]] = of_stage.get(r["ranks"], 0) + r["measured_bytes"]
            worst = max(worst, abs(r["measured_bytes"] - r["predicted_bytes"]) / r["measured_bytes"])
    return stages, worst


def memory(data):
    stages, worst = resident(data)
    if not stages:
        return None
    first, last = min(stages), max(stages)
    most = max(stages[last])
    return Finding(
        "finding_memory",
        "ZeRO divides what DDP repeats",
        f"On {most} ranks ZeRO-{last} keeps {decimal_text(stages[last][most])} of model state on each and DDP"
        f" {decimal_text(stages[first][most])}, {stages[first][most] / stages[last][most]:.1f} times as much; "
        + (
            "the ledger holds what the formulas say, to the byte."
            if worst == 0
            else f"the formulas are at most {percent(worst)} off the ledger."
        ),
        "measured in the simulator, with real allocations",
        "Bytes of model state of one rank over ranks, a curve for each ZeRO stage.",
        "zero",
        (stages,),
    )


def pipelines(data):
    """Rows of GPipe and of 1F1B with the most stages of at most 4, hops taking nothing, by microbatches."""
    results = load(data, "pipeline")
    rows = by(results["rows"], transfer_seconds=0) if results else []
    stages = max((r["stages"] for r in rows if r["stages"] <= 4), default=0)
    return tuple(
        sorted(by(rows, schedule=name, stages=stages), key=lambda r: r["microbatches"]) for name in ("gpipe", "1f1b")
    )


def bubble(data):
    gpipe, other = pipelines(data)
    pairs = [(g, o) for g in gpipe for o in other if g["microbatches"] == o["microbatches"]]
    if not pairs:
        return None
    g, o = pairs[-1]
    same = max(abs(a["bubble_of_total"] - b["bubble_of_total"]) for a, b in pairs)
    return Finding(
        "finding_bubble",
        "1F1B saves memory, not time",
        f"With {g['stages']} stages and {g['microbatches']} microbatches both schedules idle"
        f" {percent(o['bubble_of_total'])} of the time"
        + ("" if same < 5e-4 else f" (elsewhere they differ by up to {percent(same)})")
        + f", but GPipe’s fullest stage holds the activations of {g['peak_in_flight']:g} microbatches and 1F1B’s of"
        f" {o['peak_in_flight']:g}.",
        "simulated",
        "Idle share and microbatches in flight over microbatches, GPipe and 1F1B.",
        "pipeline",
        (gpipe, other),
    )


KINDS = ("simulated", "measured", "emulated")


def predicted_rows(found):
    """Every row of every result that has both times, and is no fit's."""
    return [
        r
        for results in found
        for r in results.rows
        if "backend" in r and "kind" not in r and number(r, "predicted_seconds") and number(r, "seconds")
    ]


def holds_waiting(row):
    """Whether a measured time is of a collective inside a step (bench tp): of one pass, and until the last rank came,
    for which no formula of a collective can account. Emulated ranks come when the model says."""
    return row["backend"] != "sim" and not row.get("emulated") and row.get("place", "everything") != "everything"


def predictions(found):
    """{kind: [(predicted, seconds, quiet)]} of every row that has both times, and no waiting in them."""
    points = {kind: [] for kind in KINDS}
    for r in predicted_rows(found):
        if not holds_waiting(r):
            kind = "emulated" if r.get("emulated") else "simulated" if r["backend"] == "sim" else "measured"
            points[kind].append((r["predicted_seconds"], r["seconds"], is_quiet(r)))
    return {kind: of_kind for kind, of_kind in points.items() if of_kind}


def median_error(points):
    """None where there are no points."""
    return statistics.median(miss(p, s) for p, s, _ in points) if points else None


def spread_of(kind, points):
    """'simulated: 0.0 %, 1.2 %, 120 %': what half, nine in ten and all rows of a quiet computer are within."""
    errors = sorted(miss(p, s) for p, s, _ in quiet_ones(points))
    if not errors:
        return f"{kind}: no quiet row"
    most = errors[min(len(errors) - 1, math.ceil(0.9 * len(errors)) - 1)]
    return f"{kind}: {percent(median_error(quiet_ones(points)))}, {percent(most)}, {percent(errors[-1], 0)}"


def quiet_ones(points):
    return [point for point in points if point[2]]


def accuracy_of(kind, points):
    """How far predictions of one kind are off, on a quiet computer; then, where they are not the same, of all rows."""
    quiet = quiet_ones(points)
    if len(quiet) == len(points):
        return f"{kind} ones by {percent(median_error(points))} ({counted(len(points), 'row')})"
    every = f"{percent(median_error(points))} over all {counted(len(points), 'row')}"
    if not quiet:
        return f"{kind} ones by an unknown amount, because the computer was not quiet in any row ({every})"
    return f"{kind} ones by {percent(median_error(quiet))} ({counted(len(quiet), 'row')} on a quiet computer; {every})"


def truth(found):
    points = predictions(found)
    if not points:
        return None
    words = [accuracy_of(kind, of_kind) for kind, of_kind in points.items()]
    waiting = sum(holds_waiting(r) for r in predicted_rows(found))
    left_out = (
        f" Left out: {counted(waiting, 'time')} of collectives inside TP steps, measured in one pass, which also hold"
        " the wait for the last rank."
        if waiting
        else ""
    )
    return Finding(
        "finding_predictions",
        "Predicted against measured",
        f"Over all results of this report, predictions miss {', '.join(words)}: medians of max(p/s, s/p) − 1 for p"
        " predicted and s seen. The figure also says how far nine in ten quiet rows are off, and the worst; rows that"
        f" are not quiet are hollow.{left_out}",
        "formulas and machine files, none fitted to what it predicts",
        "Predicted over measured seconds of every row, both axes logarithmic, beside the diagonal; hollow where the"
        " computer was not quiet.",
        "bandwidth",
        (points,),
    )


def all_of(data, found):
    return [
        finding
        for finding in (scaling(data), ring(data), overlap(data), memory(data), bubble(data), truth(found))
        if finding
    ]


def how_it_came_about(found):
    """Who ran what: one paragraph."""
    context = found[0].context
    backends = {r.get("backend") for results in found for r in results.rows}
    where = ["simulated in virtual time on machine files"] * ("sim" in backends) + [
        f"measured on this computer ({context['machine']}, {context['cores']} cores)"
    ] * bool(backends & {"mpi", "cuda", "nccl"})
    return (
        f"{len(found)} benchmarks of commit {html.escape(context['commit'])}, {' and '.join(where)}. Code:"
        f" {html.escape('; '.join(codes_of(found)))}. {html.escape(context['date'][:10])}."
    )


def opening(report):
    """The first section."""
    found = list(report.found.values())
    findings = all_of(report.data, found) if found else []
    if not findings:
        return ""
    cards = []
    for f in findings:
        report.draw(f.name, f.name, f.shown)
        path = report.out / "figures" / f"{f.name}.svg"
        drawing = inline_svg(path, f.name, f.alt) if path.exists() else ""
        cards.append(
            f"<article><h3>{html.escape(f.title)}</h3><p>{html.escape(f.sentence)} <span"
            f' class="how">{html.escape(f.how)}; <a href="#{f.further}">more</a></span></p>{drawing}</article>'
        )
    return section(
        "findings",
        "What was found",
        [f'<p class="note">{how_it_came_about(found)}</p>', f'<div class="findings">{"".join(cards)}</div>'],
    )
