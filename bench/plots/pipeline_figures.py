"""The figures of week 24: pipelines."""

from results import by, load, load_csv
from style import COLOURS, HATCHES, abreast, doubling_axis, look, losses_figure, subplots

SCHEDULES = ("naive", "gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v")


def of_schedule(name):
    """The look of a schedule, the same in all figures."""
    return look(SCHEDULES.index(name))


def curve(rows, schedule, x, y):
    return [(r[x], r[y]) for r in by(rows, schedule=schedule) if r[y] is not None]


def pipeline_bubble(data):
    """Idle share over microbatches: formula as a line, simulated as markers, wall clock as stars."""
    results = load(data, "pipeline")
    if not results:
        return None
    figure, axes = subplots(3, 12, 4.2, sharey=True)
    for axis, p in zip(axes[0], (2, 4, 8)):
        rows = by(results["rows"], stages=p, transfer_seconds=0)
        for schedule in SCHEDULES:
            style = of_schedule(schedule)
            formula = curve(rows, schedule, "microbatches", "predicted_bubble_of_total")
            measured = curve(rows, schedule, "microbatches", "bubble_of_total")
            if formula:
                axis.plot([m for m, _ in formula], [100 * b for _, b in formula], **{**style, "marker": None})
            axis.plot(
                [m for m, _ in measured],
                [100 * b for _, b in measured],
                **{**style, "linestyle": "none" if formula else style["linestyle"]},
                label=schedule,
            )
        wall = load(data, f"pipeline_wall_{p}")
        if wall:
            axis.plot(
                [r["microbatches"] for r in wall["rows"]],
                [100 - 100 * r["utilisation"] for r in wall["rows"]],
                linestyle="none",
                marker="*",
                markersize=10,
                markerfacecolor="none",
                color="black",
                label="by wall clock",
            )
        doubling_axis(axis, sorted({r["microbatches"] for r in rows}), "microbatches")
        axis.set_title(f"{p} stages")
    axes[0][0].set_ylabel("idle / total, %")
    axes[0][0].set_ylim(0, 100)
    axes[0][1].legend(fontsize=7.5, ncols=2)
    return figure


def pipeline_memory(data):
    results = load(data, "pipeline")
    if not results:
        return None
    figure, axes = subplots(2, 10, 4.0)
    rows = by(results["rows"], stages=4, transfer_seconds=0)
    for schedule in SCHEDULES:
        mine = by(rows, schedule=schedule)
        axes[0][0].plot(
            [r["microbatches"] for r in mine],
            [r["activation_bytes_peak"] / 2**20 for r in mine],
            label=schedule,
            **of_schedule(schedule),
        )
        axes[0][0].plot(
            [r["microbatches"] for r in mine],
            [r["predicted_activation_bytes"] / 2**20 for r in mine],
            linestyle="none",
            marker="_",
            markersize=11,
            color="black",
        )
    doubling_axis(axes[0][0], [1, 2, 4, 8, 16, 32], "microbatches")
    axes[0][0].set_yscale("log", base=2)
    axes[0][0].set_yticks([64 << k for k in range(6)])
    axes[0][0].set_yticklabels([64 << k for k in range(6)])
    axes[0][0].set_ylabel("activations of the fullest stage, MiB")
    axes[0][0].set_title("4 stages, 64 MiB per microbatch and stage")
    axes[0][0].legend(fontsize=8, ncols=2)
    for k, schedule in enumerate(("gpipe", "1f1b", "zb-h1", "zb-h2")):
        (row,) = by(rows, schedule=schedule, microbatches=32)
        axes[0][1].bar(
            [s + 0.2 * (k - 1.5) for s in range(4)],
            row["stage_peak_in_flight"],
            0.19,
            color=COLOURS[SCHEDULES.index(schedule)],
            alpha=0.85,
            hatch=HATCHES[k],
            edgecolor="white",
            label=schedule,
        )
    axes[0][1].set_xticks(range(4))
    axes[0][1].set_xticklabels([f"stage {s}" for s in range(4)])
    axes[0][1].set_ylabel("microbatches in flight, at most")
    axes[0][1].set_title("32 microbatches: what each stage holds")
    axes[0][1].margins(y=0.15)
    axes[0][1].legend(fontsize=8, ncols=abreast(4), loc="upper center")
    return figure


def pipeline_hops(data):
    """Left: hops that take time part GPipe and 1F1B. Right: stages that are unequal."""
    hops, unequal = load(data, "pipeline_hops"), load(data, "pipeline_unequal")
    if not hops or not unequal:
        return None
    figure, axes = subplots(2, 10, 4.0)
    for schedule in ("gpipe", "1f1b", "interleaved", "zb-h1"):
        at = by(hops["rows"], schedule=schedule)
        axes[0][0].plot(
            [1e3 * r["transfer_seconds"] for r in at],
            [100 * r["bubble_of_total"] for r in at],
            label=schedule,
            **of_schedule(schedule),
        )
        rows = by(unequal["rows"], schedule=schedule)
        equal = rows[0]["makespan_seconds"]
        axes[0][1].plot(
            [r["last_stage"] for r in rows],
            [r["makespan_seconds"] / equal for r in rows],
            label=schedule,
            **of_schedule(schedule),
        )
    axes[0][0].set_ylim(0, None)
    axes[0][0].set_xlabel("a hop, ms (a forward takes 1, a backward 2)")
    axes[0][0].set_ylabel("idle / total, %")
    axes[0][0].set_title("4 stages, 32 microbatches, simulated")
    axes[0][1].set_xlabel("work of the last stage over that of the others")
    axes[0][1].set_ylabel("makespan over that of equal stages")
    axes[0][1].set_title("4 stages, 8 microbatches, the same work in all")
    for axis in axes[0]:
        axis.legend(fontsize=8)
    return figure


def pipeline_training(data):
    return losses_figure(
        load_csv(data, "train_pp_serial"),
        {name: load_csv(data, f"train_pp_{name}") for name in ("gpipe", "1f1b", "zb-h1")},
    )


ALL = (pipeline_bubble, pipeline_memory, pipeline_hops, pipeline_training)
