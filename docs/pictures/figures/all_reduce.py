"""Week 21: the ring, and all-reduces beyond it."""

import math

from figures import suite
from figures.axes import log_axes, log_place, size_text, time_text
from figures.canvas import Canvas

ROW = 32  # between two ranks of a butterfly


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
        look = (f"{kind} final", value, "bold") if complete else (kind, value)
        canvas.box(250 + 74 * chunk, y, 70, 28, *look)


def ring_one_rank():
    p = 4
    values = [[10**r * (c + 1) for c in range(p)] for r in range(p)]
    total = [sum(column) for column in zip(*values)]
    c = Canvas(
        "ring_one_rank",
        (720, 432),
        "In the ring, a rank passes on what it has just received and added",
        "Ring all-reduce of four ranks, seen by rank 0. In each of six steps it sends one chunk to rank 1 "
        "and receives another from rank 3: three times it adds what arrives, then three times it keeps it. "
        "The chunk that it sends is the one that arrived in the step before.",
    )
    c.text(235, 62, "from rank 3", "end small soft")
    for chunk in range(p):
        c.text(285 + 74 * chunk, 62, f"chunk {chunk}", "mid small soft")
    c.text(552, 62, "to rank 1", "small soft")
    c.text(16, 91, "rank 0, at first")
    ring_row(c, 72, values[0], None, total)
    y = 106
    for step, (sent, came, held) in enumerate(ring_steps(values)):
        if step % (p - 1) == 0:
            words = "reduce-scatter: add what arrives" if step == 0 else "all-gather: keep what arrives"
            c.text(16, y + 20, words, "head")
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
    c.legend(
        16,
        y + 26,
        [
            ("comm", "just received"),
            ("memory final", "complete sum (thick border)"),
            ("cell", "rank 0's own, or partial"),
        ],
    )
    return c


PLACES = ((24, 84), (464, 84), (464, 216), (24, 216))  # of four ranks, in a circle
TURN, STILL = 1.8, 2  # seconds per step; and for how many steps' time the result is shown


def ring_of_four(canvas, cells, total, look=""):
    """What all ranks hold, chunk by chunk; what is complete has a thick border."""
    canvas.add(f'<g class="{look}">')
    for (x, y), row in zip(PLACES, cells):
        for chunk, value in enumerate(row):
            complete = value == total[chunk]
            kind, style = ("memory final", "bold") if complete else ("cell", "")
            canvas.box(x + 58 * chunk, y, 54, 30, kind, value, style)
    canvas.add("</g>")


def ring_animation(steps):
    """Shows every frame in its part of one cycle, while its messages move from rank to rank. Without animation the last
    frame is shown."""
    part = 100 / (steps + STILL)
    cycle = f"{TURN * (steps + STILL):.1f}s infinite"
    lines = [f".frame{{visibility:hidden;animation:{cycle} step-end}}"]
    for frame in range(steps + 1):
        begin, end = part * frame, part * (frame + 1) if frame < steps else 100
        hidden = "0%{visibility:hidden}" if frame else ""
        after = f"{end:.2f}%{{visibility:hidden}}" if frame < steps else ""
        lines.append(f"@keyframes frame{frame}{{{hidden}{begin:.2f}%{{visibility:visible}}{after}}}")
        lines.append(f".frame{frame}{{animation-name:frame{frame}}}")
    for rank, (x, y) in enumerate(PLACES):
        dx, dy = PLACES[(rank + 1) % 4][0] - x, PLACES[(rank + 1) % 4][1] - y
        lines.append(f"@keyframes go{rank}{{15%{{transform:none}}80%,100%{{transform:translate({dx}px,{dy}px)}}}}")
        lines.append(f".go{rank}{{animation:go{rank} {TURN}s infinite ease-in-out}}")
    lines.append(
        f".frame{steps}{{visibility:visible}}@media (prefers-reduced-motion:reduce){{.frame{{animation:none}}}}"
    )
    return "\n".join(lines)


def ring_animated():
    p = 4
    values = [[10**r * (c + 1) for c in range(p)] for r in range(p)]
    total = [sum(column) for column in zip(*values)]
    steps = ring_steps(values)
    c = Canvas(
        "ring_animated",
        (720, 292),
        f"In a ring all-reduce every link is busy in each of the {len(steps)} steps",
        f"Animated. Four ranks in a circle each hold four numbers. In each of {p - 1} steps every rank sends one chunk "
        f"to the next rank, which adds it. In {p - 1} more steps the complete sums go round, and in the end all ranks "
        f"hold {', '.join(map(str, total))}.",
    )
    c.add(f"<style>{ring_animation(len(steps))}</style>")
    for rank, (x, y) in enumerate(PLACES):
        c.text(x, y + (-8 if rank < 2 else 48), f"rank {rank}", "small soft")
    for a, b in (((262, 99), (456, 99)), ((579, 122), (579, 208)), ((456, 231), (262, 231)), ((139, 208), (139, 122))):
        c.arrow(*a, *b, "go thin")
    before = values
    for frame, (sent, _, held) in enumerate([*steps, ([], [], steps[-1][2])]):
        ring_of_four(c, before, total, f"frame frame{frame}")
        c.add(f'<g class="frame frame{frame}">')
        words = "add what arrives" if frame < p - 1 else "keep what arrives"
        c.text(360, 170, f"step {frame}: {words}" if sent else "every rank holds the sum", "mid head")
        for rank, chunk in enumerate(sent):
            x, y = PLACES[rank]
            c.add(f'<g class="go{rank}">')
            c.box(x + 58 * chunk, y, 54, 30, "comm", before[rank][chunk])
            c.add("</g>")
        c.add("</g>")
        before = held
    return c


def butterfly_rounds(ranks):
    """Recursive doubling with spare ranks: for each round its name, the messages (from, to), and afterwards whose
    numbers every rank's sum contains."""
    size = 2 ** int(math.log2(ranks))
    spare = list(range(size, ranks))
    held, rounds = [{r} for r in range(ranks)], []
    plan = [("fold", [(s, s - size) for s in spare])] if spare else []
    plan += [(f"step {k}", [(r, r ^ 1 << k) for r in range(size)]) for k in range(int(math.log2(size)))]
    plan += [("unfold", [(s - size, s) for s in spare])] if spare else []
    for name, messages in plan:
        after = [set(h) for h in held]
        for source, target in messages:
            after[target] |= held[source]
        held = after
        rounds.append((name, messages, held))
    return rounds


def sums_column(canvas, x, y, held):
    """Of how many ranks each rank holds the sum."""
    for rank, numbers in enumerate(held):
        kind = "memory final" if len(numbers) == len(held) else "cell"
        canvas.box(x - 13, y + ROW * rank - 11, 26, 22, kind, len(numbers), "small")


def butterfly_of(canvas, x, y, ranks, gap):
    for rank in range(ranks):
        canvas.text(x - 22, y + ROW * rank + 5, f"rank {rank}", "end small")
    sums_column(canvas, x, y, [{r} for r in range(ranks)])
    for name, messages, held in butterfly_rounds(ranks):
        canvas.text(x + gap / 2, y - 24, name, "mid small bold")
        for source, target in messages:
            canvas.arrow(x + 17, y + ROW * source, x + gap - 17, y + ROW * target, "go thin")
        x += gap
        sums_column(canvas, x, y, held)


def butterfly():
    c = Canvas(
        "butterfly",
        (860, 380),
        "Recursive doubling: the ranks in a sum double with every step",
        "Left, eight ranks exchange their sums with partners 1, 2 and 4 away, and after three steps each "
        "holds the sum of eight. Right, six ranks: 4 and 5 first give their numbers to 0 and 1, four ranks "
        "make a butterfly of two steps, and 4 and 5 get the result back.",
    )
    c.text(16, 56, "p = 8: a power of two", "head")
    butterfly_of(c, 86, 106, 8, 96)
    c.text(440, 56, "p = 6: ranks 4 and 5 are spare", "head")
    butterfly_of(c, 510, 106, 6, 82)
    c.legend(16, 364, [("cell", "sum of so many ranks"), ("memory final", "sum of all (thick border)")])
    return c


def flat_ring(ranks, node):
    """The links that leave a node, (from, to): arrays' worth that go over each; and in how many steps."""
    steps = 2 * (ranks - 1)
    return {(r, (r + 1) % ranks): steps / ranks for r in range(ranks) if r // node != (r + 1) % ranks // node}, steps


def on_rails(ranks, node):
    """Likewise of the hierarchical all-reduce: each rail has its own ring, for one rank's part of its node's sum."""
    nodes = ranks // node
    steps = 2 * (nodes - 1)
    return {(r, (r + node) % ranks): steps / nodes / node for r in range(ranks)}, steps


def place(x, y, rank, node):
    return x + 50 + 76 * (rank % node), y + 35 + 140 * (rank // node)


def two_nodes(canvas, x, y, node):
    """Two nodes whose ranks are joined by fast links."""
    for k in range(2):
        canvas.rect(x, y + 140 * k, 332, 70, "cell", 10)
        canvas.text(x + 322, y + 140 * k + (16 if k == 0 else 63), f"node {k}", "end small soft")
    for rank in range(2 * node):
        at = place(x, y, rank, node)
        if rank % node:
            canvas.line(at[0] - 58, at[1], at[0] - 18, at[1], "faint")
        canvas.box(at[0] - 18, at[1] - 14, 36, 28, "paper", rank, "head", 14)


def crossing(canvas, x, y, links, node):
    """The messages between the nodes."""
    for source, target in links:
        (x1, y1), (x2, y2) = place(x, y, source, node), place(x, y, target, node)
        down = 1 if y2 > y1 else -1
        aside = -8 * down if x1 == x2 else 0
        canvas.arrow(x1 + aside, y1 + 15 * down, x2 + aside, y2 - 16 * down)


def rails():
    ranks, node = 8, 4
    found = [flat_ring(ranks, node), on_rails(ranks, node)]
    c = Canvas(
        "rails",
        (720, 352),
        "A flat ring leaves a node through one port, rails use them all",
        "Two nodes of four ranks, each rank with a port of its own. In the flat ring only rank 3 sends to "
        "the other node from node 0, and only rank 7 from node 1. In the hierarchical all-reduce every rank "
        "exchanges with the rank of the same place on the other node.",
    )
    for x, name, (links, steps) in zip((16, 372), ("Flat ring", "Hierarchical: one rail per rank"), found):
        leaving = [amount for (source, _), amount in links.items() if source < node]
        c.text(x, 62, name, "head")
        two_nodes(c, x, 78, node)
        crossing(c, x, 78, links, node)
        each = "each of 4 ports" if len(leaving) > 1 else "one port"
        c.text(x, 314, f"node 0 sends {leaving[0]:.3g} n through {each}")
        c.text(x, 336, f"{steps} steps over the slow links")
    return c


def crossover(sizes, first, second):
    """The size at which two curves meet; their formulas are straight lines between two sizes."""
    for i in range(len(sizes) - 1):
        here, there = first[i] - second[i], first[i + 1] - second[i + 1]
        if here > 0 >= there:
            share = here / (here - there)
            return sizes[i] + share * (sizes[i + 1] - sizes[i]), first[i] + share * (first[i + 1] - first[i])
    raise ValueError("the curves do not meet")


def regimes():
    names, ranks = ["ring", "recursive_doubling"], 16
    found = suite.rows(
        "bench",
        "all_reduce",
        "--machine",
        "uniform",
        "--ranks",
        str(ranks),
        "--bytes",
        "64:16MiB",
        "--algorithm",
        ",".join(names),
        "--phantom",
    )
    sizes = sorted({r["bytes"] for r in found})
    seconds_of = {(r["algorithm"], r["bytes"]): r["predicted_seconds"] for r in found}
    ring, doubling = ([seconds_of[name, size] for size in sizes] for name in names)
    meet, seconds = crossover(sizes, ring, doubling)
    c = Canvas(
        "regimes",
        (720, 452),
        "Small arrays pay for messages, large ones for bytes",
        f"Predicted time of an all-reduce on {ranks} ranks of the machine uniform against the array's size, "
        f"both axes logarithmic. The ring is flat at {time_text(ring[0])} while messages dominate, and then "
        f"grows with the bytes. Recursive doubling begins lower, is equal at {size_text(meet)}, and ends "
        "higher.",
    )
    c.text(
        16,
        52,
        f"{ranks} ranks of uniform: α = 1 µs, links of 1 GB/s, γ = 0.1 ns per byte; time by 21.5's formulas",
        "small soft",
    )
    x, y = log_place(sizes[0], sizes[-1], 78, 600), log_place(1e-6, 0.1, 406, -330)
    log_axes(c, x, y, [64 * 8**k for k in range(7)], [10**k * 1e-6 for k in range(6)])
    c.path([(x(s), y(t)) for s, t in zip(sizes, ring)], "go")
    c.path([(x(s), y(t)) for s, t in zip(sizes, doubling)], "ink dash")
    c.rect(x(meet) - 5, y(seconds) - 5, 10, 10, "paper final-ink", 5)
    c.text(x(meet) + 12, y(seconds) + 20, f"equal at {size_text(meet)}: {time_text(seconds)}", "small bold halo")
    c.text(x(80), y(ring[0]) - 10, f"ring: {2 * (ranks - 1)} α", "small bold halo")
    c.text(x(80), y(doubling[0]) + 18, f"recursive doubling: {ranks.bit_length() - 1} α", "small bold halo")
    c.text(x(2**24) - 6, y(0.5e-3), f"ring: {ranks - 1}/{ranks} n (2β + γ)", "small bold end halo")
    c.text(x(2.4e6), y(1.1e-2) - 14, f"{ranks.bit_length() - 1} n (β + γ)", "small bold end halo")
    c.text(x(700), 96, "messages dominate", "mid head soft halo")
    c.text(x(150e3), 96, "bytes dominate", "mid head soft halo")
    return c
