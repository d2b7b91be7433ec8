"""The figures of week 25: everything together."""

import statistics

from combined import PLANTED
from folder import PARTS
from folder_figures import gains
from results import by
from style import COLOURS, HATCHES, Drawing, figure_legend, look, marks, stacked_bars, subplots, title

COSTS = {
    "compute": ("compute_seconds",),
    "recomputation": ("recompute_seconds",),
    "TP all-reduces": ("tensor_seconds",),
    "bubble and hops": ("bubble_seconds", "hop_seconds"),
    "DP all-reduces": ("data_seconds",),
    "optimizer": ("update_seconds",),
}
MODELS = {"1t": "1T", "530b": "530B", "175b": "GPT-3 175B"}


GPU_GB = 80  # of an A100


def plan_name(row):
    """'32 × 4 × 8, interleaved × 6, ZeRO-1': a plan's mesh and what else it does."""
    schedule = f"{row['schedule']} × {row['chunks']}" if row["chunks"] > 1 else row["schedule"]
    more = [f"ZeRO-{row['zero']}"] if row["zero"] else []
    more += ["recomputed"] if row["recompute"] == "full" else []
    more += ["sequence parallel"] if row["sequence_parallel"] else []
    return f"{row['dp']} × {row['tp']} × {row['pp']}\n{', '.join([schedule, *more])}"


def plans(rows):
    """The best plans: where a step goes, and the memory of the fullest GPU; marks: the simulator."""
    figure, axes = subplots(2, 8, bars=14)
    labels = [plan_name(r) for r in rows]
    ends = stacked_bars(
        axes[0][0], labels, {part: [sum(r[f] for f in fields) for r in rows] for part, fields in COSTS.items()}
    )
    stacked_bars(axes[0][1], labels, {part: [r[stem + "_bytes"] for r in rows] for part, stem in PARTS.items()}, 1e9)
    for axis, field, unit in ((axes[0][0], "simulated_seconds", 1), (axes[0][1], "simulated_memory_bytes", 1e9)):
        marks(axis, [(r[field] / unit, i) for i, r in enumerate(rows) if r.get(field)], "|", 20, markeredgewidth=2)
    best = rows[0]
    title(
        figure,
        f"The fastest plan of {best['model']} on {best['gpus']:,} GPUs takes {best['step_seconds']:.1f} s a step; of"
        f" the best {len(rows)}"
        f" the last takes {100 * (rows[-1]['step_seconds'] / best['step_seconds'] - 1):.0f} % longer",
    )
    axes[0][0].set_xlim(0, 1.02 * max([*ends, *(row.get("simulated_seconds") or 0 for row in rows)]))
    axes[0][0].set_xlabel("a step, s (black: simulated)")
    axes[0][1].axvline(GPU_GB, color="#555555", linestyle=(0, (2, 2)), linewidth=1)
    axes[0][1].set_xlim(0, 1.02 * GPU_GB)
    axes[0][1].annotate(
        f"an A100’s {GPU_GB} GB",
        (GPU_GB, 1.01),
        xycoords=("data", "axes fraction"),
        ha="right",
        va="bottom",
        fontsize=10,
    )
    axes[0][1].set_xlabel("GB on the fullest GPU")
    if not Drawing.layout.stacked:
        axes[0][1].set_yticklabels([""] * len(rows))
    figure_legend(figure, axes[0][0], 4)
    axes[0][1].legend(loc="upper right", bbox_to_anchor=(1, -0.14), ncols=2, borderaxespad=0)
    return figure


def stage_areas(axis, parts):
    """{part: a value for each stage}, one flat area above the other, a step wide for each stage."""
    stages = len(next(iter(parts.values())))
    edges = [k - 0.5 for k in range(stages + 1)]
    below = [0.0] * (stages + 1)
    for k, (part, values) in enumerate(parts.items()):
        above = [b + v for b, v in zip(below, [*values, values[-1]])]
        fill = {"facecolor": COLOURS[k], "hatch": HATCHES[k], "edgecolor": "white", "linewidth": 0, "alpha": 0.85}
        axis.fill_between(edges, below, above, step="post", label=part, **fill)
        axis.step(edges, above, where="post", color="white", linewidth=0.8)
        below = above
    axis.set_xlim(-0.5, stages - 0.5)
    axis.set_xticks(range(0, stages, max(1, stages // 4)))
    axis.set_xlabel("stage")


def stage_memory(runs):
    """Memory by category over the stages of a phantom step."""
    names, words = [name for name in MODELS if name in runs], []
    figure, axes = subplots(len(names), 4 * len(names), 3.8, sharey=True)
    for axis, name in zip(axes[0], names):
        (row,) = runs[name]["rows"]
        stage_areas(axis, {kind: [v / 1e9 for v in row[f"stage_{stem}_bytes_peak"]] for kind, stem in PARTS.items()})
        axis.axhline(GPU_GB, color="#555555", linestyle=(0, (2, 2)), linewidth=1)
        axis.set_title(f"{MODELS[name]}: {row['replicas']} × {row['tensor_parallel']} × {row['stages']}")
        first, last = (sum(row[f"stage_{stem}_bytes_peak"][at] / 1e9 for stem in PARTS.values()) for at in (0, -1))
        words.append(f"{first:.0f} and {last:.0f} GB ({MODELS[name]})")
    axes[0][0].annotate(f"an A100’s {GPU_GB} GB", (0.03, GPU_GB + 1), xycoords=("axes fraction", "data"), fontsize=10)
    title(figure, f"The first stage holds more than the last, since it holds more microbatches: {', '.join(words)}")
    axes[0][0].set_ylim(0, 1.1 * GPU_GB)
    axes[0][0].set_ylabel("GB on a rank, peaks")
    figure_legend(figure, axes[0][0], 4)
    return figure


def stage_time(runs):
    """Where the time of the same steps goes, stage by stage."""
    names, words = [name for name in MODELS if name in runs], []
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
        stage_areas(axis, {label: row[f"stage_{stem}_seconds"] for label, stem in parts.items()})
        axis.set_title(f"{MODELS[name]}, m = {row['accumulate']}")
        axis.set_ylim(0, None)
        words.append(f"{MODELS[name]} {100 * row['mfu']:.0f} %")
    title(figure, f"Most of a step is computing on every stage; of the GPUs’ peak it reaches: {', '.join(words)}")
    axes[0][0].set_ylabel("a step, s")
    figure_legend(figure, axes[0][0], 5)
    return figure


def validated(rows):
    """A row a published source: signed errors of the prediction, and of the machine file alone."""
    tables = list(dict.fromkeys(r["table"] for r in rows if r["unit"] == "s"))[::-1]
    figure, ((axis,),) = subplots(1, 8, bars=0.6 * len(tables))
    for k, (field, label, lift) in enumerate(
        (
            ("relative_error", "predicted with what libraries reach", 0.12),
            ("file_relative_error", "by the machine file alone", -0.18),
        )
    ):
        points = [(100 * min(max(r[field], -1), 1), i + lift) for i, t in enumerate(tables) for r in by(rows, table=t)]
        axis.plot(*zip(*points), **{**look(k), "linestyle": "none", "markersize": 4}, alpha=0.6, label=label)
    axis.axvspan(-10, 10, color="#888888", alpha=0.15, linewidth=0)
    axis.axvline(0, color="#555555", linewidth=1)
    axis.set_yticks(range(len(tables)))
    axis.set_yticklabels(tables)
    axis.set_xlim(-102, 102)
    axis.set_xlabel("predicted / published − 1, %\ngrey: within 10; right edge: over 100")
    errors = [abs(r["relative_error"]) for t in tables for r in by(rows, table=t)]
    title(
        figure,
        f"{sum(e <= 0.1 for e in errors)} of {len(errors)} published times are predicted within 10 %, the median within"
        f" {100 * statistics.median(errors):.0f} %",
    )
    figure_legend(figure, axis, 2)
    return figure


def why_gains(runs):
    """The speedup of four runs if each cost were removed; each has a different planted bottleneck. runs: {what was
    planted: results}."""
    figure, axes = subplots(len(runs), 3 * len(runs), 2.5, sharey=True)
    found = 0
    for axis, (name, results) in zip(axes[0], runs.items()):
        rows = {r["cost"]: r for r in results["rows"] if "gained" in r}
        gains(axis, [rows[cost] for cost in PLANTED])
        found += bool(rows[name]["limit"])
        axis.set_title(f"planted: {name}")
    title(figure, f"./lab why finds the planted limit in {found} of {len(runs)} runs")
    for axis in axes[0]:
        axis.set_yticks(range(len(PLANTED)))
        axis.set_yticklabels(PLANTED)
    axes[0][0].invert_yaxis()
    return figure


def scaling_losses(bars):
    """What each step of ./lab scale loses beyond its ideal. bars: {name: row}."""
    figure, axes = subplots(1, 8, bars=len(bars))
    losses = {
        "ideal": "ideal_seconds",
        "communication": "lost_to_communication_seconds",
        "bubble": "lost_to_bubble_seconds",
        "imbalance": "lost_to_imbalance_seconds",
        "launches": "lost_to_launch_seconds",
        "arithmetic not divided": "lost_to_arithmetic_seconds",
    }
    parts = {part: [max(0.0, r.get(field) or 0.0) for r in bars.values()] for part, field in losses.items()}
    stacked_bars(axes[0][0], list(bars), parts, 1e-3)
    steps = [(1e3 * r["seconds"], i) for i, r in enumerate(bars.values())]
    marks(axes[0][0], steps, "|", 9, markeredgewidth=1.5, label="the step")
    axes[0][0].set_xlabel("a step, ms")
    share, part, ranks = max(
        ((r.get(field) or 0.0) / r["seconds"], part, r["ranks"])
        for r in bars.values()
        for part, field in losses.items()
        if part != "ideal"
    )
    title(figure, f"The largest loss of these studies is {part}: {100 * share:.0f} % of a step on {ranks} ranks")
    figure_legend(figure, axes[0][0], 4)
    return figure


ALL = (plans, stage_memory, stage_time, validated, why_gains, scaling_losses)
