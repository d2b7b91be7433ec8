"""The small figures beside the findings that the report opens with."""

import findings
import laws
import reading
from results import by, load_all
from style import COLOURS, doubling_axis, look, plain_log_axis, size_axis, speedup_axis, subplots

WIDE, TALL = 4.2, 2.5


def finding_scaling(data):
    machines = load_all(data, "scaling_sim")
    if not machines:
        return None
    figure, axes = subplots(1, WIDE, TALL)
    axis, most = axes[0][0], max(r["ranks"] for results in machines.values() for r in results["rows"])
    ranks = [most ** (k / 40) for k in range(41)]
    for i, (machine, results) in enumerate(machines.items()):
        strong = [r for r in by(results["rows"], scaling="strong") if r["speedup"] is not None]
        axis.plot(
            [r["ranks"] for r in strong],
            [r["speedup"] for r in strong],
            label=machine,
            **{**look(i), "linestyle": "none"},
        )
        serial = results["context"].get("amdahl_serial_fraction")
        if serial is not None:
            axis.plot(ranks, [laws.amdahl(serial, p) for p in ranks], color=COLOURS[i], linewidth=1)
    axis.plot([1, most], [1, most], color="#cccccc", linewidth=1)
    doubling_axis(axis, [2**k for k in range(most.bit_length())], "ranks")
    speedup_axis(axis, most, "speedup")
    axis.legend(fontsize=7)
    return figure


def finding_ring(data):
    best = findings.best_ring(data)
    if not best:
        return None
    results = load_all(data, "all_reduce_sim")[best[2]]
    figure, axes = subplots(1, WIDE, TALL)
    for i, algorithm in enumerate(("ring", "naive")):
        rows = by(results["rows"], algorithm=algorithm)
        axes[0][0].plot([r["bytes"] for r in rows], [r["seconds"] * 1e3 for r in rows], label=algorithm, **look(i))
    size_axis(axes[0][0], [r["bytes"] for r in rows])
    axes[0][0].set_yscale("log")
    plain_log_axis(axes[0][0].yaxis)
    axes[0][0].set_ylabel("ms")
    axes[0][0].legend(fontsize=7)
    return figure


def finding_overlap(data):
    machines = {machine: rows for machine, rows in findings.overlaps(data).items() if rows}
    if not machines:
        return None
    figure, axes = subplots(1, WIDE, TALL)
    for i, (machine, rows) in enumerate(machines.items()):
        axes[0][0].plot(
            [r["bucket_bytes"] for r in rows],
            [100 * r["hidden_fraction"] if r["hidden_fraction"] is not None else float("nan") for r in rows],
            label=machine,
            **look(i),
        )
    size_axis(axes[0][0], [r["bucket_bytes"] for r in rows])
    axes[0][0].set_xlabel("bucket")
    axes[0][0].set_ylim(0, 100)
    axes[0][0].set_ylabel("hidden, %")
    axes[0][0].legend(fontsize=7)
    return figure


def finding_memory(data):
    stages, _ = findings.resident(data)
    if not stages:
        return None
    figure, axes = subplots(1, WIDE, TALL)
    for i, (stage, sizes) in enumerate(sorted(stages.items())):
        axes[0][0].plot(
            list(sizes),
            [value / 1e6 for value in sizes.values()],
            label="DDP" if stage == 0 else f"ZeRO-{stage}",
            **look(i),
        )
    doubling_axis(axes[0][0], sorted({ranks for sizes in stages.values() for ranks in sizes}), "ranks")
    axes[0][0].set_ylim(0, None)
    axes[0][0].set_ylabel("MB per rank")
    axes[0][0].legend(fontsize=7)
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
    for axis, label in zip(axes[0], ("idle, %", "microbatches held")):
        axis.set_xlabel("microbatches", fontsize=8)
        axis.set_ylabel(label, fontsize=8)
        axis.set_ylim(0, None)
    axes[0][1].legend(fontsize=7)
    return figure


def finding_predictions(data):
    points = findings.predictions(reading.read_folder(data)[0])
    if not points:
        return None
    figure, axes = subplots(1, WIDE, TALL)
    axis = axes[0][0]
    for i, (kind, of_kind) in enumerate(points.items()):
        error = findings.median_error(findings.quiet_ones(of_kind))
        axis.plot(
            [p for p, _, _ in of_kind],
            [s for _, s, _ in of_kind],
            label=f"{kind}: {'not quiet' if error is None else f'{100 * error:.1f} %'}",
            **{**look(i), "linestyle": "none", "markersize": 2.5},
        )
    every = [value for of_kind in points.values() for point in of_kind for value in point[:2]]
    axis.plot([min(every), max(every)], [min(every), max(every)], color="#999999", linewidth=0.8, zorder=0)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("predicted, s")
    axis.set_ylabel("by clock, s")
    axis.legend(fontsize=7)
    return figure


ALL = (finding_scaling, finding_ring, finding_overlap, finding_memory, finding_bubble, finding_predictions)
