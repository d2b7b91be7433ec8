"""Week 24: pipelines, as ./lab pipeline runs them."""

from figures import suite
from figures.axes import ms, spread, time_axis
from figures.canvas import Canvas

NAMES = {
    "gpipe": "GPipe",
    "1f1b": "1F1B",
    "interleaved": "Interleaved, 2 chunks",
    "zb-h1": "ZB-H1",
    "zb-v": "ZB-V, 2 chunks",
}
WORK = {"F": "compute", "B": "second", "I": "second", "W": "third"}


def gantt(canvas, axis, y, trace, row, height=18):
    """A schedule's stages, one below the other: each step with its microbatch, chunk 1's with a thick lower edge."""
    for stage in range(row["stages"]):
        top = y + (height + 2) * stage
        canvas.text(axis[0] - 8, top + 14, f"stage {stage}", "end small")
        canvas.rect(axis[0], top, axis[1] * row["makespan_seconds"], height, "wait")
        for begin, end, event in trace.spans(stage, "main", "compute"):
            microbatch, *chunk = event["name"][1:].split(".")
            x, width = spread(axis, begin), axis[1] * (end - begin)
            canvas.box(x, top, width, height, WORK[event["name"][0]], microbatch, "small", 0)
            if chunk == ["1"]:
                canvas.line(x + 1, top + height - 1.5, x + width - 1, top + height - 1.5, "work")


def facts(row):
    """A schedule's three numbers."""
    held = row["peak_in_flight"] / row["chunks"]
    idle = f"idle {100 * row['bubble_of_total']:.0f} %"
    return f"{ms(row['makespan_seconds'])}, {idle}, keeps up to {held:.3g} microbatches"


def schedules():
    stages, microbatches = 4, 8
    runs = [(name, *suite.schedule_trace(name, stages, microbatches)) for name in NAMES]
    longest = max(row["makespan_seconds"] for _, _, row in runs)
    c = Canvas(
        "schedules",
        (860, 714),
        "The same work in five schedules, which differ in what idles and in what is kept",
        "Four stages, eight microbatches, forward, input gradient and weight gradient of 1 ms each. "
        + ". ".join(f"{NAMES[name]}: {facts(row)}" for name, _, row in runs)
        + ".",
    )
    c.text(
        16,
        52,
        "4 stages, 8 microbatches; forward, input gradient and weight gradient of a microbatch 1 ms each",
        "small soft",
    )
    axis = (76, 768 / longest)
    for i, (name, trace, row) in enumerate(runs):
        y = 84 + 114 * i
        c.text(16, y, NAMES[name], "head")
        c.text(844, y, facts(row), "end")
        gantt(c, axis, y + 9, trace, row)
    time_axis(c, axis, 84 + 114 * len(runs) - 16, longest, 5)
    y = 84 + 114 * len(runs) + 38
    c.legend(
        16,
        y,
        [
            ("compute", "forward"),
            ("second", "backward, or its input gradient"),
            ("third", "weight gradient"),
            ("wait", "idle"),
        ],
    )
    c.rect(610, y - 11, 22, 13, "third")
    c.line(611, y + 0.5, 631, y + 0.5, "work")
    c.text(638, y, "chunk 1: thick lower edge", "small soft")
    return c
