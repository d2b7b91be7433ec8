"""The report's section on week 24: pipelines, their bubbles and their memory. Standard library only."""

import functools

from html_parts import note, table
from results import by, bytes_text, load, load_csv, losses
from results import percent as percent_of
from row_words import columns

percent = functools.partial(percent_of, digits=2)
CONVENTIONS = {
    "of the ideal, formula": lambda r: percent(r["predicted_bubble_of_ideal"]),
    "measured": lambda r: percent(r["bubble_of_ideal"]),
    "of the total, formula": lambda r: percent(r["predicted_bubble_of_total"]),
    "measured ": lambda r: percent(r["bubble_of_total"]),
}
SHAPE = {"p": "stages", "m": "microbatches", "schedule": "schedule"}
TIMES = columns("makespan, busy, before and after, waiting")
WIRE = {"on the wire": "wire_seconds"}


def bubbles(report):
    results = load(report.data, "pipeline")
    if not results:
        return ""
    rows = by(results["rows"], transfer_seconds=0)
    walls = [w for w in (load(report.data, f"pipeline_wall_{p}") for p in (2, 4)) if w]
    stars = " Stars: by wall clock, processes that sleep through the stages’ times." if walls else ""
    parts = [
        report.figure(
            "pipeline_bubble",
            "Idle share of the total over microbatches for 2, 4 and 8 stages: naive stays at (p−1)/p, GPipe and 1F1B"
            " fall on one curve, interleaved and zero-bubble schedules below it.",
            "<b>The bubble</b>, in virtual time: a stage’s forward takes 1 ms, its backward 2, a hop nothing. Curves"
            f" of GPipe, 1F1B, interleaved and naive are formulas, their markers runs.{stars} Both conventions are in"
            " the table: idle over the ideal is (p − 1)/(v·m), idle over the total (p − 1)/(v·m + p − 1).",
            rows,
            SHAPE
            | CONVENTIONS
            | {
                "of the span, formula": lambda r: percent(r["predicted_bubble_of_span"]),
                "measured  ": lambda r: percent(r["bubble_of_span"]),
            }
            | TIMES
            | WIRE,
            ["pipeline.csv"],
            (rows, {w["rows"][0]["stages"]: w["rows"] for w in walls}),
            drawn_from=("pipeline", "pipeline_wall_2", "pipeline_wall_4"),
        )
    ]
    if walls:
        shown = [r for w in walls for r in w["rows"]]
        parts.append(
            note(
                "<b>By wall clock</b>: real processes, real messages, stages that sleep through their 45 ms per"
                " microbatch. 50, 80 and 89 % with two stages and 1, 4 and 8 microbatches:"
            )
            + table(
                shown,
                SHAPE
                | {
                    "used, formula": lambda r: (
                        "–"
                        if r["predicted_bubble_of_total"] is None
                        else f"{100 - 100 * r['predicted_bubble_of_total']:.1f} %"
                    ),
                    "measured": lambda r: f"{100 * r['utilisation']:.1f} %",
                }
                | TIMES,
            )
        )
    return "".join(parts)


def memory(report):
    results = load(report.data, "pipeline")
    if not results:
        return ""
    rows = [r for r in by(results["rows"], transfer_seconds=0) if r["schedule"] in ("gpipe", "1f1b")]
    pairs = [
        (g, o)
        for g in by(rows, schedule="gpipe")
        for o in by(rows, schedule="1f1b", stages=g["stages"], microbatches=g["microbatches"])
    ]
    shown = [
        {
            "p": g["stages"],
            "m": g["microbatches"],
            "bubble": g["bubble_of_total"],
            "other": o["bubble_of_total"],
            "in": g["peak_in_flight"],
            "in1": o["peak_in_flight"],
            "stages": " ".join(f"{k:g}" for k in o["stage_peak_in_flight"]),
            "bytes": g["activation_bytes_peak"],
            "bytes1": o["activation_bytes_peak"],
            "formula": o["predicted_activation_bytes"],
        }
        for g, o in pairs
    ]
    return report.figure(
        "pipeline_memory",
        "Peak activation memory over microbatches with four stages: GPipe's grows with m, 1F1B's stops at four"
        " microbatches, zero-bubble H2's at seven.",
        "<b>What 1F1B saves is memory, not time.</b> Activations of the fullest stage from the memory ledger; dashes:"
        " microbatches in flight times 64 MiB. On the right each stage’s: GPipe holds m, 1F1B min(p − s, m).",
        shown,
        {
            "p": "p",
            "m": "m",
            "idle of total, GPipe": lambda r: percent(r["bubble"]),
            "1F1B": lambda r: percent(r["other"]),
            "in flight, GPipe": "in",
            "1F1B ": "in1",
            "1F1B by stage": "stages",
            "peak, GPipe": lambda r: bytes_text(r["bytes"]),
            "1F1B  ": lambda r: bytes_text(r["bytes1"]),
            "formula": lambda r: bytes_text(r["formula"]),
        },
        ["pipeline.csv"],
        (by(results["rows"], stages=4, transfer_seconds=0),),
    )


def hops(report):
    results, unequal = load(report.data, "pipeline_hops"), load(report.data, "pipeline_unequal")
    if not results or not unequal:
        return ""
    shown = (
        SHAPE
        | {"hop": "transfer_seconds", "last stage": lambda r: f"{r['last_stage']:g} ×"}
        | CONVENTIONS
        | {"used": lambda r: percent(r["utilisation"])}
        | TIMES
        | WIRE
    )
    return report.figure(
        "pipeline_hops",
        "Left: idle share over the time of a hop, rising steeply for 1F1B and hardly for GPipe. Right: makespan over"
        " how much more work the last stage has.",
        "<b>Where GPipe and 1F1B differ</b>: a hop of time c delays GPipe by 2(p − 1)·c once, but 1F1B, whose"
        " neighbours wait for each other in turn, by 2(p − 1)/p·c for each microbatch. <b>Unequal stages</b>: the last"
        " one has f times the work of each other, the whole model the same. All stages wait for it, m times. Measured"
        " against the slowest stage the bubble even <i>shrinks</i>; the stages’ utilisation shows the loss.",
        results["rows"] + unequal["rows"],
        shown,
        ["pipeline_hops.csv", "pipeline_unequal.csv"],
        (results["rows"], unequal["rows"]),
    )


WORDS = {
    "naive": "one microbatch after the other, each all the way forward and back",
    "gpipe": "all forwards, then all backwards",
    "1f1b": "a forward and a backward in turn, after a warm-up",
    "interleaved": "two chunks per stage: half the bubble for twice the messages",
    "zb-h1": "the backward split, so that weight gradients fill the bubble; 1F1B’s memory",
    "zb-h2": "the same with a longer warm-up: except for hops no stage waits, for nearly twice the memory",
    "zb-v": "two chunks per stage, placed in a V: no stage waits if F, B and W are equal, in 1F1B’s memory",
    "dualpipev": "the same V in DualPipe’s order, each forward beside a backward of the other chunk: half of ZB-H1’s"
    " bubble",
}


def charts(report):
    for name, words in WORDS.items():
        results = load(report.data, f"schedule_{name}")
        if results:
            row = results["rows"][0]
            yield report.figure(
                f"schedule_{name}",
                f"Gantt chart of {name} with 4 stages and 8 microbatches: {words}.",
                f"<b>{name}</b>: {words}. Idle {percent(row['bubble_of_total'])} of the total. Drawn from the run,"
                " hops of a tenth of a forward.",
                files=[f"schedule_{name}.trace"],
                data=(report.data / f"schedule_{name}.trace",),
                kind="timeline",
            )


def training(report):
    runs = {name: load_csv(report.data, f"train_pp_{name}") for name in ("serial", "gpipe", "1f1b", "zb-h1")}
    if not all(runs.values()):
        return ""
    shown, named, gap = losses(runs)
    peaks = ", ".join(
        f"{name} {bytes_text(results['rows'][0]['activation_bytes_peak'])}"
        for name in ("gpipe", "1f1b", "zb-h1")
        for results in [load(report.data, f"train_pp_{name}")]
        if results
    )
    return report.figure(
        "pipeline_training",
        "Losses of the serial program and of four stages under three schedules lie on each other.",
        "<b>Losses</b> of <code>./lab train --pp 4</code>, 8 layers, 8 microbatches, on the serial program’s: at most"
        f" {gap:.2g} nats apart in {len(runs['serial'])} steps. Peaks of activations on a rank: {peaks}.",
        shown,
        named,
        [f"train_pp_{name}.csv" for name in runs],
        (runs["serial"], {name: rows for name, rows in runs.items() if name != "serial"}),
        "losses",
        drawn_from=(),
    )


def parts(report):
    for make in (bubbles, memory, hops, training):
        yield make(report)
    yield from charts(report)
    yield report.later("pipeline", "train_pp_", "schedule_")
