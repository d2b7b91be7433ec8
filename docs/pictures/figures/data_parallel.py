"""Week 21: DDP."""

from figures import suite
from figures.axes import ms, spread, time_axis
from figures.canvas import Canvas


def one_after_another(layers, averages):
    """The same work without overlap: spans of the layers, then of the averages."""
    spans, at = [], 0
    for seconds in [*layers, *averages]:
        spans.append((at, at + seconds))
        at += seconds
    return spans[: len(layers)], spans[len(layers) :]


def bucket_rows(canvas, axis, y, layers, averages, step):
    """One step: the backward pass on main, the all-reduces on comm, and main's wait between their ends."""
    canvas.text(16, y + 19, "main")
    canvas.text(16, y + 53, "comm")
    for k, (begin, end) in enumerate(layers):
        canvas.box(spread(axis, begin), y, axis[1] * (end - begin), 28, "compute", len(layers) - 1 - k)
    for k, (begin, end) in enumerate(averages):
        canvas.box(spread(axis, begin), y + 34, axis[1] * (end - begin), 28, "comm", k)
    waits = layers[-1][1]
    canvas.rect(spread(axis, waits), y, axis[1] * (step - waits), 28, "wait", 3)


def buckets():
    trace = suite.check_trace("21.7c", "CommunicationHidesBehindTheBackward", 8, 8)
    layers = [s[:2] for s in trace.spans(0, "main", "compute") if s[2]["name"] == "matmul"]
    averages = [s[:2] for s in trace.spans(0, "comm", "region") if s[2]["name"] == "ring_all_reduce"]
    origin, end = layers[0][0], trace.spans(0, "main", "wait")[-1][1]
    shown = [(a - origin, b - origin) for a, b in layers], [(a - origin, b - origin) for a, b in averages]
    apart = one_after_another(
        [
            layer[2]["args"].get("own_seconds", layer[1] - layer[0])
            for layer in trace.spans(0, "main", "compute")
            if layer[2]["name"] == "matmul"
        ],
        [b - a for a, b in averages],
    )
    communication, whole = sum(b - a for a, b in averages), apart[1][-1][1]
    c = Canvas(
        "buckets",
        (720, 348),
        f"Overlap leaves {ms(end - layers[-1][1])} of {ms(communication)} of communication exposed",
        "A backward pass of eight layers, each followed by the all-reduce of its bucket of 1 MiB on eight "
        f"ranks. Without overlap the all-reduces follow the pass, and a step takes {ms(whole)}. With overlap "
        "each starts when its layer's gradients are ready; only the last one is exposed, and a step takes "
        f"{ms(end - origin)}.",
    )
    axis = (70, 620 / whole)
    c.text(
        16, 52, "backward pass of 8 layers, each with a bucket of 1 MiB, on 8 ranks with links of 1 GB/s", "small soft"
    )
    c.text(16, 84, f"Without overlap: {ms(whole)}, of which main waits {ms(communication)}", "head")
    bucket_rows(c, axis, 94, *apart, whole)
    c.text(16, 192, f"With overlap: {ms(end - origin)}, of which main waits {ms(end - layers[-1][1])}", "head")
    bucket_rows(c, axis, 202, *shown, end - origin)
    x = spread(axis, shown[0][-1][1])
    c.text(spread(axis, end - origin) + 10, 221, "exposed: the last bucket", "small")
    c.line(x, 202, x, 264, "ink dash")
    time_axis(c, axis, 276, whole, 5)
    c.legend(
        16,
        334,
        [("compute", "backward of a layer"), ("comm", "all-reduce of a bucket"), ("wait", "main waits: exposed")],
    )
    return c
