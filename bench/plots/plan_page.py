"""./lab report --plan DIR: one sheet for who decides what to rent, from the plans that ./lab plan --page DIR kept in
DIR/data. Standard library only.

What a plan costs is its own; how far off it may be comes from the published runs that the same planner predicts
(./lab validate), not from the plan.
"""

import html
import statistics
import sys

from folder import chart_of
from folder_page import figure_of
from html_parts import cell, note, section, table
from reading import read
from results import amount, decimal_text, percent, seconds_text
from roofline import ROOFS
from roofline import chart as roofline_chart
from row_words import what_and_mesh
from sources import Unusable, counted, place

NEXT = {  # by the largest overhead: what to do about it
    "compute": "GPUs with a higher peak, or fewer FLOP. Little else in the step can be saved.",
    "recomputation": "GPUs with more memory, or more of them. Then less has to be computed twice.",
    "tensor parallelism": "a smaller tensor-parallel group, or faster links inside a node.",
    "bubble": "a larger global batch, whose microbatches fill the pipeline, or fewer stages.",
    "pipeline hops": "faster links between nodes, or fewer stages.",
    "data parallelism": "a larger global batch, or faster links between nodes. More nodes make this worse.",
    "optimizer": "ZeRO-1, which divides the update over the replicas.",
    "host": "a larger global batch, of which each update serves more, or GPUs whose memory holds everything.",
}
LIKELY = 0.8  # share of published runs that lie in the interval


def plans(out):
    """[(Results, its best row, made complete) …], cheapest or fastest first, and a sentence for each unused file."""
    found, lacks = [], []
    for path in sorted((out / "data").glob("plan_*.json")):
        try:
            results = read(path, path.name)
            rows = [r for r in results.rows if r.get("kind") == "plan" and r.get("gpu_hours")]
            if not rows:
                raise Unusable("has no plan with its GPU-hours")
        except Unusable as why:
            lacks.append(f"{path.name} {why}: ./lab plan … --page {out} writes it again.")
            continue
        best = dict(rows[0], file=path.name, price=results.context.get("price_per_gpu_hour"))
        best["seconds"] = best.get("simulated_seconds") or best["step_seconds"]
        best["whole_days"] = best["days"] * best["seconds"] / best["step_seconds"]
        best["whole_mfu"] = best["mfu"] * best["step_seconds"] / best["seconds"]
        best["tokens"] = best["whole_days"] * 86400 / best["seconds"] * best["global_batch"] * best["sequence_tokens"]
        found.append((results, best))
    priced = all(best.get("cost") for _, best in found)
    return sorted(found, key=lambda one: one[1]["cost" if priced else "whole_days"]), lacks


def errors(out, prices):
    """published / predicted of every published run's duration, by what the plan's prices are; [] where unknown."""
    try:
        rows = read(out / "data" / "validate.json", "validate.json").rows
    except Unusable:
        return []
    field = "by_libraries" if prices == "library" else "by_file"
    return sorted(
        r["published"] / r[field] for r in rows if r.get("unit") == "s" and r.get(field) and "GPUs" in r["point"]
    )


def likely(ratios):
    """The ends between which LIKELY of the published runs lie, in units of what was predicted."""
    ends = statistics.quantiles(ratios, n=20)
    at = round(20 * (1 - LIKELY) / 2) - 1
    return ends[at], ends[-1 - at]


def charts(found):
    every = [results for results, _ in found]
    chart = chart_of("breakdown", every, lambda r: r.get("place") == 1 and r.get("kind") == "plan")
    return [chart for chart in (chart, roofline(*found[0])) if chart]


def roofline(results, best):
    """Of the plan that is recommended: one GPU's operations for one microbatch."""
    operations = [row for row in results.rows if row.get("kind") == "operation"]
    roofs = {field: results.context.get(field) for field in ROOFS}
    return roofline_chart(results, operations, cluster=best["cluster"], **roofs)


def span_of(value, ratios):
    """'32.1 (28 to 41)': with the range in which LIKELY of the published runs lie."""
    if not ratios:
        return amount(value)
    low, high = likely(ratios)
    return f"{amount(value)} ({amount(low * value)} to {amount(high * value)})"


def cost(best, ratios):
    return f"{span_of(best['cost'], ratios)} at {best['price']:.2f} per GPU-hour" if best.get("cost") else ""


def lead(found, ratios):
    best = found[0][1]
    said = [
        f"<b>Rent {html.escape(best['cluster'])}</b>, {counted(best['gpus'], 'GPU')}. It trains"
        f" {html.escape(best['model'])} on {best['tokens'] / 1e9:,.0f} billion tokens (20 per parameter) in"
        f" <b>{span_of(best['whole_days'], ratios)} days</b>, which are {amount(best['gpu_hours'])} GPU-hours.",
        f"That costs <b>{cost(best, ratios)}</b>." if best.get("cost") else "./lab plan --price says what that costs.",
    ]
    for _, other in found[1:]:
        text = f"{html.escape(other['cluster'])} takes {other['whole_days'] / best['whole_days']:.2g} times as long"
        if other.get("cost") and best.get("cost"):
            text += f" and costs {other['cost'] / best['cost']:.2g} times as much"
        said.append(text + ".")
    overhead = best["largest_overhead"]
    said.append(
        f"The model’s FLOP are {percent(best['whole_mfu'], 0)} of the GPUs’ peak (MFU). Most of a step is"
        f" {html.escape(best['limited_by'])}, and the largest overhead is {html.escape(overhead)}."
    )
    if overhead in NEXT:
        said.append(f"What would help: {NEXT[overhead]}")
    return "".join(f'<p class="lead">{sentence}</p>' for sentence in said)


def sureness(ratios, prices):
    low, high = likely(ratios)
    off = statistics.median(abs(1 - 1 / ratio) for ratio in ratios)
    whose = "the vendor’s libraries" if prices == "library" else "this suite’s own kernels"
    return note(
        f"The same planner predicts {len(ratios)} published training runs. Half of them are predicted within"
        f" {percent(off, 0)}, and {percent(LIKELY, 0)} took {low:.2f} to {high:.2f} times as long as predicted."
        " Those are the ranges above. They hold no failures, restarts, evaluations or idle hours. The work of a GPU has"
        f" the prices of {whose}."
    )


def sections(report, out):
    found, lacks = plans(out)
    if not found:
        sys.exit(f"report: --plan {out}: its data has no plan_*.json, which ./lab plan … --page {out} writes")
    prices = found[0][0].context.get("prices", "lab")
    ratios = errors(out, prices)
    if not ratios:
        lacks.append("validate.json is missing, so the page cannot say how sure it is: ./lab plan … --page writes it.")
    if len({(best["model"], best["global_batch"], best["sequence_tokens"]) for _, best in found}) > 1:
        lacks.append("These plans are of different models or batches: their days and costs do not compare.")
    if any(best.get("offload") for _, best in found):
        lacks.append(
            "What is on the host has its bandwidths as prices. Software takes many times longer"
            " (docs/use/validation.md), and no run behind the ranges did that."
        )
    report.remarks += lacks
    facts = {
        "GPUs": "gpus",
        "how to train": what_and_mesh,
        "step": lambda r: seconds_text(r["seconds"]),
        "MFU": lambda r: percent(r["whole_mfu"]),
        "days": lambda r: span_of(r["whole_days"], ratios),
        "GPU-hours": lambda r: amount(r["gpu_hours"]),
        "price of a GPU-hour": lambda r: f"{r['price']:.2f}" if r["price"] else "–",
        "cost": lambda r: span_of(r["cost"], ratios) if r.get("cost") else "–",
        "cost of a billion tokens": lambda r: amount(r["cost"] / r["tokens"] * 1e9) if r.get("cost") else "–",
        "memory of a GPU": lambda r: decimal_text(r.get("simulated_memory_bytes") or r["memory_bytes"]),
        "largest overhead": "largest_overhead",
    }
    best = {row["file"]: row for _, row in found}
    rows = [{"": name} | {file: cell(row, fact) for file, row in best.items()} for name, fact in facts.items()]
    side_by_side = table(rows, {"": ""} | {html.escape(row["cluster"]): file for file, row in best.items()}, whole=True)
    rent = [lead(found, ratios), *(note(html.escape(said)) for said in lacks), side_by_side]
    drawn = {chart.name: figure_of(report, chart) for chart in charts(found)}
    operations = [note("The operations are those of one GPU for one microbatch, without the optimizer’s.")]
    operations = operations if "roofline" in drawn else []
    made = [note(html.escape(f"{results.name}: {place(results.context)}")) for results, _ in found]
    return [
        section("plan", "What to rent", rent),
        section("sure", "How sure this is", [sureness(ratios, prices)]) if ratios else "",
        section("made", "What it is made from", made),
        section("limits", "Where the time of a step goes", [*drawn.values(), *operations]),
    ]
