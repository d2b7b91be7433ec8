"""The figures of week 24: pipelines."""

from results import by, load, load_csv
from style import HATCHES, doubling_axis, figure_legend, label_ends, look, losses_figure, subplots, title

SCHEDULES = ("naive", "gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "dualpipev")


def of_schedule(name):
    """The look of a schedule, the same in all figures."""
    return look(SCHEDULES.index(name))


def curve(rows, schedule, x, y):
    return [(r[x], r[y]) for r in by(rows, schedule=schedule) if r[y] is not None]


def ends_of(axis, curves):
    """Names curves, {name: (x, y, colour)} of their last points; those that end at one point in one label."""
    found = {}
    for name, (x, y, colour) in curves.items():
        found.setdefault((x, round(y, 6)), []).append((name, colour))
    label_ends(axis, [(x, y, ", ".join(name for name, _ in named), named[0][1]) for (x, y), named in found.items()])


def pipeline_bubble(data):
    """Idle share over microbatches: formula as a line, simulated as markers, wall clock as stars."""
    results = load(data, "pipeline")
    if not results:
        return None
    figure, axes = subplots(3, 12, 4.4, sharey=True)
    most = max(r["stages"] for r in results["rows"])
    m = max(r["microbatches"] for r in results["rows"])
    idle = {
        r["schedule"]: 100 * r["bubble_of_total"]
        for r in by(results["rows"], stages=most, microbatches=m, transfer_seconds=0)
    }
    best = min(idle, key=idle.get)
    title(
        figure,
        f"More microbatches shrink every bubble but the naive one: {m} on {most} stages leave 1F1B"
        f" {idle['1f1b']:.0f} % idle, {best} {idle[best]:.0f} %",
    )
    for axis, p in zip(axes[0], (2, 4, 8)):
        rows = by(results["rows"], stages=p, transfer_seconds=0)
        ends = {}
        for schedule in SCHEDULES:
            style = of_schedule(schedule)
            formula = curve(rows, schedule, "microbatches", "predicted_bubble_of_total")
            measured = [(m, 100 * b) for m, b in curve(rows, schedule, "microbatches", "bubble_of_total")]
            if not measured:
                continue
            if formula:
                axis.plot([m for m, _ in formula], [100 * b for _, b in formula], **{**style, "marker": None})
            axis.plot(*zip(*measured), **{**style, "linestyle": "none" if formula else style["linestyle"]})
            ends[schedule] = (*measured[-1], style["color"])
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
                label="emulated,\nby wall clock",
            )
            axis.legend(loc="upper right", bbox_to_anchor=(1, 0.88 if p == 4 else 1))
        doubling_axis(axis, sorted({r["microbatches"] for r in rows}), "microbatches")
        axis.set_title(f"{p} stages")
    axes[0][0].set_ylabel("idle / total, %")
    axes[0][0].set_ylim(0, 100)
    ends_of(axes[0][2], ends)
    return figure


def pipeline_memory(data):
    results = load(data, "pipeline")
    if not results:
        return None
    figure, axes = subplots(2, 10, 4.0)
    rows = by(results["rows"], stages=4, transfer_seconds=0)
    held = {r["schedule"]: r["peak_in_flight"] for r in by(rows, microbatches=32)}
    title(
        figure,
        f"Of 32 microbatches GPipe’s fullest stage holds {held['gpipe']:g}, 1F1B’s {held['1f1b']:g}, ZB-H2’s"
        f" {held['zb-h2']:g}",
    )
    ends = {}
    for schedule in SCHEDULES:
        mine = by(rows, schedule=schedule)
        if not mine:
            continue
        x, y = [r["microbatches"] for r in mine], [r["activation_bytes_peak"] / 2**20 for r in mine]
        axes[0][0].plot(x, y, **of_schedule(schedule))
        axes[0][0].plot(
            x,
            [r["predicted_activation_bytes"] / 2**20 for r in mine],
            linestyle="none",
            marker="_",
            markersize=11,
            color="black",
        )
        ends[schedule] = (x[-1], y[-1], of_schedule(schedule)["color"])
    doubling_axis(axes[0][0], [1, 2, 4, 8, 16, 32], "microbatches (dashes: formula)")
    axes[0][0].set_yscale("log", base=2)
    axes[0][0].set_yticks([64 << k for k in range(6)])
    axes[0][0].set_yticklabels([64 << k for k in range(6)])
    axes[0][0].minorticks_off()
    axes[0][0].set_ylabel("activations, MiB")
    axes[0][0].set_title("fullest of 4 stages, 64 MiB a microbatch")
    for k, schedule in enumerate(("gpipe", "1f1b", "zb-h1", "zb-h2")):
        (row,) = by(rows, schedule=schedule, microbatches=32)
        axes[0][1].bar(
            [s + 0.2 * (k - 1.5) for s in range(4)],
            row["stage_peak_in_flight"],
            0.19,
            color=of_schedule(schedule)["color"],
            hatch=HATCHES[k],
            edgecolor="white",
            alpha=0.85,
            label=schedule,
        )
    axes[0][1].set_xticks(range(4))
    axes[0][1].set_xticklabels([f"stage {s}" for s in range(4)])
    axes[0][1].set_ylabel("microbatches held, at most")
    axes[0][1].set_title("every stage, 32 microbatches")
    figure_legend(figure, axes[0][1], 4)
    ends_of(axes[0][0], ends)
    return figure


def pipeline_hops(data):
    """Left: hops that take time part GPipe and 1F1B. Right: stages that are unequal."""
    hops, unequal = load(data, "pipeline_hops"), load(data, "pipeline_unequal")
    if not hops or not unequal:
        return None
    figure, axes = subplots(2, 10, 4.0)
    ends = ({}, {})
    for schedule in ("gpipe", "1f1b", "interleaved", "zb-h1"):
        rows = by(unequal["rows"], schedule=schedule)
        equal = rows[0]["makespan_seconds"]
        for axis, named, points in (
            (
                axes[0][0],
                ends[0],
                [
                    (1e3 * r["transfer_seconds"], 100 * r["bubble_of_total"])
                    for r in by(hops["rows"], schedule=schedule)
                ],
            ),
            (axes[0][1], ends[1], [(r["last_stage"], r["makespan_seconds"] / equal) for r in rows]),
        ):
            axis.plot(*zip(*points), **of_schedule(schedule))
            named[schedule] = (*points[-1], of_schedule(schedule)["color"])
    (hop, slow, _), (_, fast, _) = ends[0]["1f1b"], ends[0]["gpipe"]
    title(
        figure,
        f"Hops of {hop:g} ms leave 1F1B {slow:.0f} % idle and GPipe {fast:.0f} %; a last stage of"
        f" {ends[1]['1f1b'][0]:g} times the work makes a step {ends[1]['1f1b'][1]:.2f} times as long",
    )
    axes[0][0].set_ylim(0, None)
    axes[0][0].set_xlabel("a hop, ms (forward 1, backward 2)")
    axes[0][0].set_ylabel("idle / total, %")
    axes[0][0].set_title("4 stages, 32 microbatches")
    axes[0][1].set_xlabel("last stage’s work over the others’")
    axes[0][1].set_ylabel("makespan, equal stages = 1")
    axes[0][1].set_title("4 stages, 8 microbatches")
    for axis, named in zip(axes[0], ends):
        ends_of(axis, named)
    return figure


def pipeline_training(data):
    return losses_figure(
        load_csv(data, "train_pp_serial"),
        {name: load_csv(data, f"train_pp_{name}") for name in ("gpipe", "1f1b", "zb-h1")},
    )


ALL = (pipeline_bubble, pipeline_memory, pipeline_hops, pipeline_training)
