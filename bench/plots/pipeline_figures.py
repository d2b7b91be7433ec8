"""The figures of week 24: pipelines."""

from results import by
from style import doubling_axis, figure_legend, filled, label_ends, lines, look, marks, over, subplots, title

SCHEDULES = ("naive", "gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "dualpipev")


def line(axis, schedule, points, **more):
    """A schedule's curve, which looks the same in all figures. Returns its end, for label_ends."""
    return lines(axis, {schedule: points}, first=SCHEDULES.index(schedule), **more)


def label_curves(axis, ends):
    """Names curves; those that end at one point in one label."""
    found = {}
    for x, y, name, colour in ends:
        found.setdefault((x, round(y, 6)), []).append((name, colour))
    label_ends(axis, [(x, y, ", ".join(name for name, _ in named), named[0][1]) for (x, y), named in found.items()])


def pipeline_bubble(rows, walls):
    """Idle share over microbatches: formula as a line, simulated as markers, wall clock as stars. walls: {stages:
    rows}."""
    figure, axes = subplots(3, 12, 4.4, sharey=True)
    most, m = max(r["stages"] for r in rows), max(r["microbatches"] for r in rows)
    idle = {r["schedule"]: 100 * r["bubble_of_total"] for r in by(rows, stages=most, microbatches=m)}
    best = min(idle, key=idle.get)
    title(
        figure,
        f"More microbatches shrink every bubble but the naive one: {m} on {most} stages leave 1F1B"
        f" {idle['1f1b']:.0f} % idle, {best} {idle[best]:.0f} %",
    )
    for axis, p in zip(axes[0], (2, 4, 8)):
        ends = []
        for schedule in SCHEDULES:
            mine = by(rows, stages=p, schedule=schedule)
            formula = over(mine, "microbatches", "predicted_bubble_of_total", 100)
            seen = over(mine, "microbatches", "bubble_of_total", 100)
            if formula and seen:
                line(axis, schedule, formula, marker=None)
            if seen:
                ends += line(axis, schedule, seen, **({"linestyle": "none"} if formula else {}))
        if p in walls:
            by_clock = [(r["microbatches"], 100 - 100 * r["utilisation"]) for r in walls[p]]
            marks(axis, by_clock, "*", 10, markerfacecolor="none", label="emulated,\nby wall clock")
            axis.legend(loc="upper right")
        doubling_axis(axis, sorted({r["microbatches"] for r in by(rows, stages=p)}), "microbatches")
        axis.set_title(f"{p} stages")
    axes[0][0].set_ylabel("idle / total, %")
    axes[0][0].set_ylim(0, 100)
    label_curves(axes[0][2], ends)
    return figure


def pipeline_memory(rows):
    """Left: peaks over microbatches, on the fullest of four stages. Right: microbatches that each stage holds."""
    figure, ((peaks, held),) = subplots(2, 10, 4.0)
    most = {r["schedule"]: r for r in by(rows, microbatches=32)}
    title(
        figure,
        f"Of 32 microbatches GPipe’s fullest stage holds {most['gpipe']['peak_in_flight']:g}, 1F1B’s"
        f" {most['1f1b']['peak_in_flight']:g}, ZB-H2’s {most['zb-h2']['peak_in_flight']:g}",
    )
    ends = []
    for schedule in SCHEDULES:
        mine = by(rows, schedule=schedule)
        if mine:
            ends += line(peaks, schedule, over(mine, "microbatches", "activation_bytes_peak", 2**-20))
            marks(peaks, over(mine, "microbatches", "predicted_activation_bytes", 2**-20), "_", 11)
    doubling_axis(peaks, [1, 2, 4, 8, 16, 32], "microbatches (dashes: formula)")
    peaks.set_yscale("log", base=2)
    peaks.set_yticks([64 << k for k in range(6)])
    peaks.set_yticklabels([64 << k for k in range(6)])
    peaks.minorticks_off()
    peaks.set_ylabel("activations, MiB")
    peaks.set_title("fullest of 4 stages, 64 MiB a microbatch")
    for k, schedule in enumerate(("gpipe", "1f1b", "zb-h1", "zb-h2")):
        style = filled(k) | {"color": look(SCHEDULES.index(schedule))["color"], "alpha": 0.85, "label": schedule}
        held.bar([s + 0.2 * (k - 1.5) for s in range(4)], most[schedule]["stage_peak_in_flight"], 0.19, **style)
    held.set_xticks(range(4))
    held.set_xticklabels([f"stage {s}" for s in range(4)])
    held.set_ylabel("microbatches held, at most")
    held.set_title("every stage, 32 microbatches")
    figure_legend(figure, held, 4)
    label_curves(peaks, ends)
    return figure


def pipeline_hops(hops, unequal):
    """Left: hops that take time part GPipe and 1F1B. Right: stages that are unequal."""
    figure, ((idle, longer),) = subplots(2, 10, 4.0)
    ends = ([], [])
    for schedule in ("gpipe", "1f1b", "interleaved", "zb-h1"):
        mine = by(unequal, schedule=schedule)
        points = [(1e3 * r["transfer_seconds"], 100 * r["bubble_of_total"]) for r in by(hops, schedule=schedule)]
        ends[0].extend(line(idle, schedule, points))
        points = [(r["last_stage"], r["makespan_seconds"] / mine[0]["makespan_seconds"]) for r in mine]
        ends[1].extend(line(longer, schedule, points))
    gpipe, slow = ends[0][:2]
    most = ends[1][1]
    title(
        figure,
        f"Hops of {slow[0]:g} ms leave 1F1B {slow[1]:.0f} % idle and GPipe {gpipe[1]:.0f} %; a last stage of"
        f" {most[0]:g} times the work makes a step {most[1]:.2f} times as long",
    )
    idle.set_ylim(0, None)
    idle.set_xlabel("a hop, ms (forward 1, backward 2)")
    idle.set_ylabel("idle / total, %")
    idle.set_title("4 stages, 32 microbatches")
    longer.set_xlabel("last stage’s work over the others’")
    longer.set_ylabel("makespan, equal stages = 1")
    longer.set_title("4 stages, 8 microbatches")
    for axis, named in zip((idle, longer), ends):
        label_curves(axis, named)
    return figure


ALL = (pipeline_bubble, pipeline_memory, pipeline_hops)
