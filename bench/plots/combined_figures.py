"""The figures of week 25: everything together."""

import folder_figures
import reading
from combined_parts import STUDIES, mesh_gaps, meshes, scaling_chart
from results import by, load, load_all
from style import (
    COLOURS,
    HATCHES,
    Drawing,
    doubling_axis,
    figure_legend,
    look,
    plain_legend,
    plain_log_axis,
    speedup_axis,
    stacked_bars,
    stacked_columns,
    subplots,
)

COSTS = {
    "compute": ("compute_seconds",),
    "recomputation": ("recompute_seconds",),
    "TP all-reduces": ("tensor_seconds",),
    "bubble and hops": ("bubble_seconds", "hop_seconds"),
    "DP all-reduces": ("data_seconds",),
    "optimizer": ("update_seconds",),
}
KINDS = {"parameters": "parameter", "gradients": "gradient", "optimizer": "optimizer", "activations": "activation"}
MODELS = {"1t": "1T", "530b": "530B", "175b": "GPT-3 175B"}


def plan_name(row):
    """'32 × 4 × 8, interleaved × 6, ZeRO-1': a plan's mesh and what else it does."""
    schedule = f"{row['schedule']} × {row['chunks']}" if row["chunks"] > 1 else row["schedule"]
    more = [f"ZeRO-{row['zero']}"] if row["zero"] else []
    more += ["recomputed"] if row["recompute"] == "full" else []
    more += ["sequence parallel"] if row["sequence_parallel"] else []
    return f"{row['dp']} × {row['tp']} × {row['pp']}\n{', '.join([schedule, *more])}"


def plans(data):
    """The best plans: where a step goes, and the memory of the fullest GPU; marks: the simulator."""
    results = load(data, "plan_gpt3")
    if not results:
        return None
    rows = by(results["rows"], kind="plan")[:8]
    figure, axes = subplots(2, 11, bars=14)
    labels = [plan_name(r) for r in rows]
    ends = stacked_bars(
        axes[0][0], labels, {part: [sum(r[f] for f in fields) for r in rows] for part, fields in COSTS.items()}
    )
    stacked_bars(axes[0][1], labels, {part: [r[stem + "_bytes"] for r in rows] for part, stem in KINDS.items()}, 1e9)
    for axis, field, unit in ((axes[0][0], "simulated_seconds", 1), (axes[0][1], "simulated_memory_bytes", 1e9)):
        marks = [(r[field] / unit, i) for i, r in enumerate(rows) if r.get(field)]
        if marks:
            axis.plot(
                *zip(*marks),
                linestyle="none",
                marker="|",
                markersize=20,
                markeredgewidth=2,
                color="black",
                label="simulated",
            )
    for i, row in enumerate(rows):
        axes[0][0].annotate(
            f"largest overhead: {row['largest_overhead']}",
            (max(ends[i], row.get("simulated_seconds") or 0), i),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=7,
        )
    axes[0][0].set_xlim(0, 1.45 * max(ends))
    axes[0][0].set_xlabel("a step, s")
    axes[0][1].axvline(80, color="#555555", linestyle=(0, (2, 2)), linewidth=1)
    axes[0][1].set_xlabel("GB on the fullest GPU (dashed line: 80)")
    if not Drawing.layout.stacked:
        axes[0][1].set_yticklabels([""] * len(rows))
    for axis in axes[0]:
        plain_legend(axis, 3)
    return figure


def stage_bars(axis, parts):
    stacked_columns(axis, parts, 1.0, linewidth=0.2)
    stages = len(next(iter(parts.values())))
    axis.set_xticks(range(0, stages, max(1, stages // 4)))
    axis.set_xlabel("stage")


def stage_memory(data):
    """Memory by category over the stages of a phantom step."""
    runs = {name: r for name, r in load_all(data, "phantom").items() if "stage_memory_bytes_peak" in r["rows"][0]}
    if not runs:
        return None
    names = [name for name in MODELS if name in runs]
    figure, axes = subplots(len(names), 4 * len(names), 3.8, sharey=True)
    for axis, name in zip(axes[0], names):
        (row,) = runs[name]["rows"]
        stage_bars(axis, {kind: [v / 1e9 for v in row[f"stage_{stem}_bytes_peak"]] for kind, stem in KINDS.items()})
        axis.axhline(80, color="#555555", linestyle=(0, (2, 2)), linewidth=1)
        axis.set_title(f"{MODELS[name]}: {row['replicas']} × {row['tensor_parallel']} × {row['stages']}", fontsize=10)
    axes[0][0].set_ylim(0, 100)
    axes[0][0].set_ylabel("GB on a rank, peaks (dashed line: 80)")
    figure_legend(figure, axes[0][0], 4)
    return figure


def stage_time(data):
    """Where the time of the same steps goes, stage by stage."""
    runs = {name: r for name, r in load_all(data, "phantom").items() if "stage_compute_seconds" in r["rows"][0]}
    if not runs:
        return None
    names = [name for name in MODELS if name in runs]
    figure, axes = subplots(len(names), 4 * len(names), 3.8)
    parts = {
        "compute": "compute",
        "TP all-reduces": "tensor",
        "idle: bubble and hops": "idle",
        "DP all-reduces, tied embedding": "data",
        "optimizer, and waiting to clip": "update",
    }
    for axis, name in zip(axes[0], names):
        (row,) = runs[name]["rows"]
        stage_bars(axis, {label: row[f"stage_{stem}_seconds"] for label, stem in parts.items()})
        axis.set_title(f"{MODELS[name]}, m = {row['accumulate']}, MFU {100 * row['mfu']:.0f} %", fontsize=10)
    axes[0][0].set_ylabel("a step, s")
    figure_legend(figure, axes[0][0], 5)
    return figure


def validated(data):
    """A row a published source: signed errors of the prediction, and of the machine file alone."""
    results = load(data, "validate")
    if not results:
        return None
    tables = list(dict.fromkeys(r["table"] for r in results["rows"] if r["unit"] == "s"))[::-1]
    figure, axes = subplots(1, 9, 5.0)
    axis = axes[0][0]
    for k, (field, label, lift) in enumerate(
        (
            ("relative_error", "predicted with what libraries reach", 0.12),
            ("file_relative_error", "by the machine file alone", -0.18),
        )
    ):
        points = [
            (100 * min(max(r[field], -1), 1), i + lift)
            for i, t in enumerate(tables)
            for r in by(results["rows"], table=t)
        ]
        axis.plot(*zip(*points), **{**look(k), "linestyle": "none", "markersize": 4}, alpha=0.6, label=label)
    axis.axvspan(-10, 10, color="#888888", alpha=0.15, linewidth=0)
    axis.axvline(0, color="#555555", linewidth=1)
    axis.set_yticks(range(len(tables)))
    axis.set_yticklabels(tables, fontsize=8)
    axis.set_xlim(-105, 105)
    axis.set_xlabel("predicted / published − 1, % (grey: 10; beyond 100 drawn at 100)")
    figure_legend(figure, axis, 2)
    return figure


def mesh_losses(data):
    """Left: losses of all meshes on the serial program's. Right: the largest distance of each."""
    runs = meshes(data)
    if (1, 1, 1) not in runs or len(runs) < 2:
        return None
    figure, axes = subplots(2, 10, 4.4)
    loss = lambda rows: [float(r["loss"]) for r in rows]
    steps = range(1, len(runs[1, 1, 1]) + 1)
    axes[0][0].plot(steps, loss(runs[1, 1, 1]), color=COLOURS[5], linewidth=5, alpha=0.5, label="serial")
    for i, mesh in enumerate(m for m in runs if m != (1, 1, 1)):
        axes[0][0].plot(
            steps,
            loss(runs[mesh]),
            color=COLOURS[i % 7],
            linewidth=0.9,
            linestyle=("--", ":", "-.")[i % 3],
            label=f"{len(runs) - 1} meshes" if i == 0 else None,
        )
    axes[0][0].set_xlabel("step")
    axes[0][0].set_ylabel("loss, nats per token")
    axes[0][0].legend()
    gaps = mesh_gaps(runs)
    largest = [max(g) for g in gaps.values()]
    for k, ranks in enumerate(sorted({m[0] * m[1] * m[2] for m in gaps})):
        mine = [i for i, m in enumerate(gaps) if m[0] * m[1] * m[2] == ranks]
        axes[0][1].barh(
            mine,
            [max(largest[i], 1e-9) for i in mine],
            0.72,
            color=COLOURS[k],
            hatch=HATCHES[k],
            edgecolor="white",
            alpha=0.85,
            label=f"{ranks} ranks",
        )
    plain_legend(axes[0][1], 3)
    axes[0][1].set_yticks(range(len(gaps)))
    axes[0][1].set_yticklabels([f"{m[0]} × {m[1]} × {m[2]}" for m in gaps], fontsize=7)
    axes[0][1].invert_yaxis()
    axes[0][1].set_xscale("log")
    axes[0][1].set_xlim(1e-9, 1.5 * max(1e-8, *largest))
    axes[0][1].set_xlabel("largest difference from serial, nats (10⁻⁹: none)")
    axes[0][1].set_ylabel("dp × tp × pp")
    return figure


PLANTED = ("communication", "bubble", "imbalance", "launch")


def why_gains(data):
    """The speedup of four runs if each cost were removed; each has a different planted bottleneck."""
    runs = {name: by_cost for name in PLANTED for by_cost in [load(data, f"why_{name}")] if by_cost}
    if not runs:
        return None
    figure, axes = subplots(len(runs), 3 * len(runs), 2.8, sharey=True, sharex=True)
    for axis, (name, results) in zip(axes[0], runs.items()):
        rows = {r["cost"]: r for r in results["rows"] if "gained" in r}
        for i, cost in enumerate(PLANTED):
            row = rows[cost]
            axis.barh(
                i,
                max(0, 100 * row["gained"]),
                0.7,
                color=COLOURS[1 if row["limit"] else 0],
                hatch="//" if row["limit"] else "",
                edgecolor="white",
                alpha=0.85,
            )
            axis.annotate(
                f"{max(0, 100 * row['gained']):.0f} %" + (", the limit" if row["limit"] else ""),
                (max(0, 100 * row["gained"]), i),
                xytext=(3, 0),
                textcoords="offset points",
                va="center",
                fontsize=7,
            )
        axis.set_title(f"planted: {name}", fontsize=10)
        axis.set_xlim(0, 130)
        axis.set_xticks([0, 50, 100])
        axis.set_xlabel("shorter without it, %")
    axes[0][0].set_yticks(range(len(PLANTED)))
    axes[0][0].set_yticklabels(PLANTED)
    axes[0][0].invert_yaxis()
    return figure


def scaling_fits(data):
    """Points of ./lab scale, and the laws fitted to them with their intervals."""
    chart = scaling_chart(reading.read_folder(data)[0])
    return folder_figures.draw(chart) if chart else None


def scaling_losses(data):
    """What each step of the same studies loses beyond its ideal."""
    studies = {name: results for name in STUDIES for results in [load(data, f"scale_{name}")] if results}
    if not studies:
        return None
    bars = {
        f"{STUDIES[name]}, p = {r['ranks']}": r
        for name, results in studies.items()
        for r in results["rows"]
        if r.get("speedup") is not None
    }
    figure, axes = subplots(1, 8, bars=len(bars))
    losses = {
        "ideal": "ideal_seconds",
        "communication": "lost_to_communication_seconds",
        "bubble": "lost_to_bubble_seconds",
        "imbalance": "lost_to_imbalance_seconds",
        "launches": "lost_to_launch_seconds",
        "arithmetic not divided": "lost_to_arithmetic_seconds",
    }
    stacked_bars(
        axes[0][0],
        list(bars),
        {part: [max(0.0, r.get(field) or 0.0) for r in bars.values()] for part, field in losses.items()},
        1e-3,
    )
    axes[0][0].plot(
        [1e3 * r["seconds"] for r in bars.values()],
        range(len(bars)),
        linestyle="none",
        marker="|",
        markersize=9,
        markeredgewidth=1.5,
        color="black",
        label="the step",
    )
    axes[0][0].set_xlabel("a step, ms")
    plain_legend(axes[0][0], 3)
    return figure


ALL = (plans, stage_memory, stage_time, validated, mesh_losses, why_gains, scaling_fits, scaling_losses)
