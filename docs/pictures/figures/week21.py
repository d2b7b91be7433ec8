"""Week 21: messages, all-reduces and DDP."""
from figures import suite
from figures.canvas import Canvas


def ring_steps(values):
    """The ring all-reduce on whole numbers, one per rank and chunk: for each step the chunks that every rank sends and
    receives, the numbers that arrive, and what every rank holds afterwards."""
    p = len(values)
    held, steps = [list(row) for row in values], []
    for step in range(2 * (p - 1)):
        adds = step < p - 1
        sent = [(r - 1 - step if adds else r - step + p - 1) % p for r in range(p)]
        came = [held[r - 1][sent[r - 1]] for r in range(p)]
        for r in range(p):
            chunk = sent[r - 1]
            held[r][chunk] = held[r][chunk] + came[r] if adds else came[r]
        steps.append((sent, came, [list(row) for row in held]))
    return steps


def ring_row(canvas, y, cells, received, total):
    """Four chunks of one rank; what has just arrived is dotted, what is complete has a thick border."""
    for chunk, value in enumerate(cells):
        complete = value == total[chunk]
        kind = "comm" if chunk == received else "memory" if complete else "cell"
        canvas.box(250 + 74 * chunk, y, 70, 28, f"{kind} final" if complete else kind, value, "bold" if complete else "")


def ring_one_rank():
    p = 4
    values = [[10**r * (c + 1) for c in range(p)] for r in range(p)]
    total = [sum(column) for column in zip(*values)]
    c = Canvas("ring_one_rank", (720, 432), "In the ring, a rank passes on what it has just received and added",
               "Ring all-reduce of four ranks, seen by rank 0. In each of six steps it sends one chunk to rank 1 and "
               "receives another from rank 3: three times it adds what arrives, then three times it keeps it. The chunk "
               "that it sends is the one that arrived in the step before.")
    c.text(235, 62, "from rank 3", "end small soft")
    for chunk in range(p):
        c.text(285 + 74 * chunk, 62, f"chunk {chunk}", "mid small soft")
    c.text(552, 62, "to rank 1", "small soft")
    c.text(16, 91, "rank 0, at first")
    ring_row(c, 72, values[0], None, total)
    y = 106
    for step, (sent, came, held) in enumerate(ring_steps(values)):
        if step % (p - 1) == 0:
            c.text(16, y + 20, "reduce-scatter: add what arrives" if step == 0 else "all-gather: keep what arrives", "head")
            y += 32
        before = values[0] if step == 0 else ring_steps(values)[step - 1][2][0]
        c.text(16, y + 19, f"step {step}")
        c.text(202, y + 19, f"{came[0]}", "end")
        c.arrow(208, y + 14, 244, y + 14)
        ring_row(c, y, held[0], sent[-1], total)
        c.arrow(552, y + 14, 588, y + 14)
        c.text(596, y + 19, f"{before[sent[0]]}")
        c.text(636 if before[sent[0]] > 9 else 610, y + 19, f"chunk {sent[0]}", "small soft")
        y += 36
    c.legend(16, y + 26, [("comm", "just received"), ("memory final", "complete sum (thick border)"), ("cell", "rank 0's own, or partial")])
    return c


def spread(axis, seconds):
    """The place of a time on an axis (x of 0 s, pixels per second)."""
    return axis[0] + seconds * axis[1]


def time_axis(canvas, axis, y, until, step):
    """Ticks every `step` milliseconds, below the rows that end at y."""
    canvas.line(axis[0], y, spread(axis, until), y)
    for tick in range(0, int(until * 1e3) + 1, step):
        x = spread(axis, tick / 1e3)
        canvas.line(x, y, x, y + 5)
        canvas.text(x, y + 19, f"{tick} ms" if tick == 0 else tick, "mid small soft")


def bucket_rows(canvas, axis, y, layers, averages, step):
    """One step: the backward pass on main, the all-reduces on comm, and main's wait from the end of the one to the other."""
    canvas.text(16, y + 19, "main")
    canvas.text(16, y + 53, "comm")
    for k, (begin, end) in enumerate(layers):
        canvas.box(spread(axis, begin), y, axis[1] * (end - begin), 28, "compute", len(layers) - 1 - k)
    for k, (begin, end) in enumerate(averages):
        canvas.box(spread(axis, begin), y + 34, axis[1] * (end - begin), 28, "comm", k)
    waits = layers[-1][1]
    canvas.rect(spread(axis, waits), y, axis[1] * (step - waits), 28, "wait", 3)


def buckets():
    trace = suite.check_trace("21.7c", "CommunicationHidesBehindTheBackward", 4, 8)
    layers = [s[:2] for s in trace.spans(0, "main", "compute") if s[2]["name"] == "matmul"]
    averages = [s[:2] for s in trace.spans(0, "comm", "region") if s[2]["name"] == "ring_all_reduce"]
    origin, end = layers[0][0], trace.spans(0, "main", "wait")[-1][1]
    shown = [(a - origin, b - origin) for a, b in layers], [(a - origin, b - origin) for a, b in averages]
    apart = one_after_another([layer[2]["args"].get("own_seconds", layer[1] - layer[0]) for layer in
                               trace.spans(0, "main", "compute") if layer[2]["name"] == "matmul"],
                              [b - a for a, b in averages])
    communication, whole = sum(b - a for a, b in averages), apart[1][-1][1]
    c = Canvas("buckets", (720, 326), f"Overlap leaves {ms(end - layers[-1][1])} of {ms(communication)} of communication exposed",
               f"A backward pass of eight layers, each followed by the all-reduce of its bucket of 1 MiB on four ranks. Without "
               f"overlap the all-reduces follow the pass, and a step takes {ms(whole)}. With overlap each starts "
               f"when its layer's gradients are ready; only the last one is exposed, and a step takes {ms(end - origin)}.")
    axis = (70, 620 / whole)
    c.text(16, 62, f"Without overlap: {ms(whole)}, of which main waits {ms(communication)}", "head")
    bucket_rows(c, axis, 72, *apart, whole)
    c.text(16, 170, f"With overlap: {ms(end - origin)}, of which main waits {ms(end - layers[-1][1])}", "head")
    bucket_rows(c, axis, 180, *shown, end - origin)
    x = spread(axis, shown[0][-1][1])
    c.text(spread(axis, end - origin) + 10, 199, "exposed: the last bucket", "small")
    c.line(x, 180, x, 242, "ink dash")
    time_axis(c, axis, 254, whole, 5)
    c.legend(16, 312, [("compute", "backward of a layer"), ("comm", "all-reduce of a bucket"), ("wait", "main waits: exposed")])
    return c


def one_after_another(layers, averages):
    """The same work without overlap: spans of the layers, then of the averages."""
    spans, at = [], 0
    for seconds in [*layers, *averages]:
        spans.append((at, at + seconds))
        at += seconds
    return spans[:len(layers)], spans[len(layers):]


def ms(seconds):
    return f"{seconds * 1e3:.3g} ms"
