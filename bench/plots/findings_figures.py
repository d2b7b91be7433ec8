"""The small figures beside the findings that the report opens with."""

import findings
import laws
import reading
from results import by, load_all
from style import (
    COLOURS,
    doubling_axis,
    figure_legend,
    label_ends,
    look,
    plain_log_axis,
    size_axis,
    speedup_axis,
    subplots,
)

WIDE, TALL = 3.9, 2.5  # inches: on paper two stand beside each other


def finding_scaling(data):
    machines = load_all(data, "scaling_sim")
    if not machines:
        return None
    figure, axes = subplots(1, WIDE, TALL)
    axis, most = axes[0][0], max(r["ranks"] for results in machines.values() for r in results["rows"])
    along = lambda low, high: [low * (high / low) ** (k / 40) for k in range(41)]
    ends = [(most, most, "ideal", "#666666")]
    for i, (machine, results) in enumerate(machines.items()):
        strong = [r for r in by(results["rows"], scaling="strong") if r["speedup"] is not None]
        x, y = [r["ranks"] for r in strong], [r["speedup"] for r in strong]
        axis.plot(x, y, **{**look(i), "linestyle": "none"})
        serial = results["context"].get("amdahl_serial_fraction")
        end = x[-1], y[-1]
        if serial is not None:
            for span, line in ((along(1, x[-1]), "-"), (along(x[-1], most), (0, (4, 3)))):
                law = [laws.amdahl(serial, p) for p in span]
                axis.plot(span, law, color=COLOURS[i], linewidth=1, linestyle=line)
            end = most, laws.amdahl(serial, most)
        ends.append((*end, machine, COLOURS[i]))
    axis.plot([1, most], [1, most], color="#cccccc", linewidth=1)
    doubling_axis(axis, [2**k for k in range(most.bit_length())], "ranks (dashed: beyond the points)")
    speedup_axis(axis, most, "speedup")
    label_ends(axis, ends)
    return figure


def finding_ring(data):
    best = findings.best_ring(data)
    if not best:
        return None
    results = load_all(data, "all_reduce_sim")[best[2]]
    figure, axes = subplots(1, WIDE, TALL)
    ends = []
    for i, algorithm in enumerate(("ring", "naive")):
        rows = by(results["rows"], algorithm=algorithm)
        x, y = [r["bytes"] for r in rows], [r["seconds"] * 1e3 for r in rows]
        axes[0][0].plot(x, y, **look(i))
        ends.append((x[-1], y[-1], algorithm, COLOURS[i]))
    size_axis(axes[0][0], x, 4)
    axes[0][0].set_yscale("log")
    plain_log_axis(axes[0][0].yaxis)
    axes[0][0].set_ylabel("ms")
    label_ends(axes[0][0], ends)
    return figure


def finding_overlap(data):
    machines = {machine: rows for machine, rows in findings.overlaps(data).items() if rows}
    if not machines:
        return None
    figure, axes = subplots(1, WIDE, TALL)
    ends = []
    for i, (machine, rows) in enumerate(machines.items()):
        known = [(r["bucket_bytes"], 100 * r["hidden_fraction"]) for r in rows if r["hidden_fraction"] is not None]
        if known:
            axes[0][0].plot(*zip(*known), **look(i))
            ends.append((*known[-1], machine, COLOURS[i]))
    size_axis(axes[0][0], [r["bucket_bytes"] for r in rows])
    axes[0][0].set_xlabel("bucket")
    axes[0][0].set_ylim(0, 100)
    axes[0][0].set_ylabel("hidden, %")
    label_ends(axes[0][0], ends)
    return figure


def finding_memory(data):
    stages, _ = findings.resident(data)
    if not stages:
        return None
    figure, axes = subplots(1, WIDE, TALL)
    ends = []
    for i, (stage, sizes) in enumerate(sorted(stages.items())):
        points = [(ranks, value / 1e6) for ranks, value in sizes.items()]
        axes[0][0].plot(*zip(*points), **look(i))
        ends.append((*points[-1], "DDP" if stage == 0 else f"ZeRO-{stage}", COLOURS[i]))
    doubling_axis(axes[0][0], sorted({ranks for sizes in stages.values() for ranks in sizes}), "ranks")
    axes[0][0].set_ylim(0, None)
    axes[0][0].set_ylabel("MB per rank")
    label_ends(axes[0][0], ends)
    return figure


def finding_bubble(data):
    gpipe, other = findings.pipelines(data)
    if not gpipe or not other:
        return None
    figure, axes = subplots(2, WIDE, TALL)
    for i, (name, rows) in enumerate((("GPipe", gpipe), ("1F1B", other))):
        for axis, values in zip(
            axes[0], ([100 * r["bubble_of_total"] for r in rows], [r["peak_in_flight"] for r in rows])
        ):
            axis.plot([r["microbatches"] for r in rows], values, label=name, **look(i))
    for axis, label in zip(axes[0], ("idle, %", "held")):
        axis.set_xlabel("microbatches")
        axis.set_ylabel(label)
        axis.set_ylim(0, None)
    axes[0][1].legend()
    return figure


def finding_predictions(data):
    points = findings.predictions(reading.read_folder(data)[0])
    if not points:
        return None
    figure, axes = subplots(1, WIDE, TALL - 0.4)
    axis = axes[0][0]
    for i, (kind, of_kind) in enumerate(points.items()):
        axis.plot(
            [p for p, _, _ in of_kind],
            [s for _, s, _ in of_kind],
            label=findings.spread_of(kind, of_kind),
            **{**look(i), "linestyle": "none", "markersize": 2.5},
        )
    every = [value for of_kind in points.values() for point in of_kind for value in point[:2]]
    axis.plot([min(every), max(every)], [min(every), max(every)], color="#999999", linewidth=0.8, zorder=0)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("predicted, s")
    axis.set_ylabel("by clock, s")
    figure_legend(figure, axis, 1, "off: half within, nine in ten, the worst")
    return figure


ALL = (finding_scaling, finding_ring, finding_overlap, finding_memory, finding_bubble, finding_predictions)
