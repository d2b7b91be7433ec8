"""The small figures beside the findings that the report opens with."""

import findings
from results import by
from scaling_figures import law_line
from style import (
    doubling_axis,
    figure_legend,
    label_ends,
    lines,
    look,
    over,
    plain_log_axis,
    size_axis,
    speedup_axis,
    subplots,
)

WIDE, TALL = 3.9, 2.5  # inches: on paper two stand side by side


def finding_scaling(machines):
    figure, ((axis,),) = subplots(1, WIDE, TALL)
    most = max(r["ranks"] for results in machines.values() for r in results["rows"])
    ends = [(most, most, "ideal", "#666666")]
    for i, (machine, results) in enumerate(machines.items()):
        points = over(by(results["rows"], scaling="strong"), "ranks", "speedup")
        lines(axis, {machine: points}, first=i, linestyle="none")
        serial = results["context"].get("amdahl_serial_fraction")
        colour = look(i)["color"]
        end = points[-1] if serial is None else law_line(axis, serial, points[-1][0], most, colour)
        ends.append((*end, machine, colour))
    axis.plot([1, most], [1, most], color="#cccccc", linewidth=1)
    doubling_axis(axis, [2**k for k in range(most.bit_length())], "ranks (dashed: beyond the points)")
    speedup_axis(axis, most, "speedup")
    label_ends(axis, ends)
    return figure


def finding_ring(rows):
    figure, ((axis,),) = subplots(1, WIDE, TALL)
    found = {name: over(by(rows, algorithm=name), "bytes", "seconds", 1e3) for name in ("ring", "naive")}
    ends = lines(axis, found)
    size_axis(axis, [x for x, _ in found["naive"]], 4)
    axis.set_yscale("log")
    plain_log_axis(axis.yaxis)
    axis.set_ylabel("time, ms")
    label_ends(axis, ends)
    return figure


def finding_overlap(machines):
    figure, ((axis,),) = subplots(1, WIDE, TALL)
    found = {machine: over(rows, "bucket_bytes", "hidden_fraction", 100) for machine, rows in machines.items()}
    ends = lines(axis, {machine: points for machine, points in found.items() if points})
    size_axis(axis, [r["bucket_bytes"] for r in list(machines.values())[-1]])
    axis.set_xlabel("bucket")
    axis.set_ylim(0, 100)
    axis.set_ylabel("hidden, %")
    label_ends(axis, ends)
    return figure


def finding_memory(stages):
    figure, ((axis,),) = subplots(1, WIDE, TALL)
    name = lambda stage: "DDP" if stage == 0 else f"ZeRO-{stage}"
    found = {name(stage): [(ranks, value / 1e6) for ranks, value in stages[stage].items()] for stage in sorted(stages)}
    ends = lines(axis, found)
    doubling_axis(axis, sorted({ranks for sizes in stages.values() for ranks in sizes}), "ranks")
    axis.set_ylim(0, None)
    axis.set_ylabel("MB per rank")
    label_ends(axis, ends)
    return figure


def finding_bubble(gpipe, other):
    figure, axes = subplots(2, WIDE, TALL)
    for axis, field, scale, words in (
        (axes[0][0], "bubble_of_total", 100, "idle, %"),
        (axes[0][1], "peak_in_flight", 1, "microbatches held"),
    ):
        for i, (name, rows) in enumerate((("GPipe", gpipe), ("1F1B", other))):
            axis.plot(*zip(*over(rows, "microbatches", field, scale)), label=name, **look(i))
        axis.set_xlabel("microbatches")
        axis.set_ylabel(words)
        axis.set_ylim(0, None)
    axes[0][1].legend()
    return figure


def finding_predictions(points):
    figure, ((axis,),) = subplots(1, WIDE, TALL - 0.4)
    for i, (kind, of_kind) in enumerate(points.items()):
        style = {**look(i), "linestyle": "none", "markersize": 2.5}
        quiet, other = ([point[:2] for point in of_kind if point[2] == is_quiet] for is_quiet in (True, False))
        label = findings.spread_of(kind, of_kind)
        for mine, fill in ((quiet, {}), (other, {"markerfacecolor": "none", "markeredgewidth": 0.7})):
            if mine:
                axis.plot(*zip(*mine), label=label, **style, **fill)
                label = None
    every = [value for of_kind in points.values() for point in of_kind for value in point[:2]]
    axis.plot([min(every), max(every)], [min(every), max(every)], color="#999999", linewidth=0.8, zorder=0)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("predicted, s")
    axis.set_ylabel("by clock, s")
    figure_legend(figure, axis, 1, "quiet rows off: half within, nine in ten, the worst")
    return figure


ALL = (finding_scaling, finding_ring, finding_overlap, finding_memory, finding_bubble, finding_predictions)
