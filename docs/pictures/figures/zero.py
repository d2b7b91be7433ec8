"""Week 22: ZeRO, FSDP and activations, whose memory is what the calculator computes or a run's trace holds."""

from figures import suite
from figures.axes import gb, ms, size_text, spread, time_axis
from figures.canvas import Canvas

STATE = [
    ("parameter_bytes", "memory", "parameters"),
    ("gradient_bytes", "second-memory", "gradients"),
    ("optimizer_bytes", "third-memory", "optimizer state"),
]
ZERO = ["nothing sharded", "optimizer state", "+ gradients", "+ parameters"]


def zero_bars():
    found = suite.rows("memory", "--params", "7.5e9", "--ranks", "64")
    most, limit = max(r["total_bytes"] for r in found), 80e9
    fits = next(r["stage"] for r in found if r["total_bytes"] <= limit)
    c = Canvas(
        "zero_bars",
        (720, 326),
        "Each ZeRO stage shards one more kind of state over the ranks",
        "Bytes on each of 64 GPUs for a model of 7.5 B parameters in bf16: "
        + ", ".join(f"stage {r['stage']} {gb(r['total_bytes'])}" for r in found)
        + f". A GPU of {gb(limit)} holds a rank's state from stage {fits} on. Stages 0 to 2 send as many bytes in a "
        "step, stage 3 half as many again.",
    )
    c.text(16, 52, "7.5 B parameters in bf16 on 64 GPUs: what each GPU holds between two steps", "small soft")
    left, scale = 150, 380 / most
    c.text(704, 78, "sent per step", "end small soft")
    for i, row in enumerate(found):
        y = 92 + 46 * i
        c.text(16, y + 14, f"stage {row['stage']}", "head")
        c.text(16, y + 30, ZERO[i], "small soft")
        x = left
        for field, kind, _ in STATE:
            width = scale * row[field]
            c.rect(x, y, width, 32, kind)
            x += width
        c.text(x + 8, y + 21, gb(row["total_bytes"]), "head")
        c.text(704, y + 21, gb(row["bytes_sent_per_rank"]), "end")
    x = left + scale * limit
    c.line(x, 84, x, 276, "limit")
    c.text(x, 78, f"a GPU of {gb(limit)}", "mid small stop")
    c.legend(16, 308, [(kind, words) for _, kind, words in STATE])
    return c


def held_at(blocks, time):
    return sum(count for since, until, count in blocks if since <= time < until)


def held(blocks, begin, end):
    """Bytes over time of blocks (from, until, bytes), as [(from, until, bytes)] without gaps between begin and end."""
    times = sorted({begin, end, *(t for b in blocks for t in b[:2] if begin < t < end)})
    return [(a, b, held_at(blocks, a)) for a, b in zip(times, times[1:])]


def area(canvas, axis, steps, heights, kind):
    """What is held, as a filled curve: `heights` is its own (below, above) of each step, in places on the page."""
    edges = [(spread(axis, t) for t in step[:2]) for step in steps]
    sides = [list(edge) for edge in edges]
    upper = [(x, above) for side, (_, above) in zip(sides, heights) for x in side]
    lower = [(x, below) for side, (below, _) in zip(sides, heights) for x in side]
    canvas.region(upper + lower[::-1], kind)


def fsdp_names(layers):
    """The layers in the order in which main uses them, then that in which comm gathers and reduces them."""
    return [*range(layers), *reversed(range(layers))]


def fsdp_main(canvas, axis, y, trace, origin, layers):
    """Main: each layer forward, backward twice as long, and its waits."""
    work = [s for s in trace.spans(0, "main", "compute") if s[2]["name"] == "matmul"]
    joined = work[:layers] + [(work[i][0], work[i + 1][1], None) for i in range(layers, 3 * layers, 2)]
    for (begin, end, _), layer in zip(joined, fsdp_names(layers)):
        canvas.box(spread(axis, begin - origin), y, axis[1] * (end - begin), 26, "compute", layer, "small")
    waits = [(b, e) for b, e, _ in trace.spans(0, "main", "wait") if b >= origin - 1e-9 and e - b > 1e-4]
    for begin, end in waits:
        canvas.rect(spread(axis, begin - origin), y, axis[1] * (end - begin), 26, "wait")
    return joined, waits


def fsdp_comm(canvas, axis, y, trace, origin, layers):
    """Comm: gathers in the order of use in the first row, reductions in the second."""
    orders = {"all_gather": iter(fsdp_names(layers)), "reduce_scatter": reversed(range(layers))}
    for begin, end, event in trace.spans(0, "comm", "region"):
        if event["name"] in orders:
            row = y if event["name"] == "all_gather" else y + 30
            layer = next(orders[event["name"]])
            canvas.box(spread(axis, begin - origin), row, axis[1] * (end - begin), 26, "comm", layer, "small")


def fsdp_memory(canvas, axis, base, per_byte, trace, span):
    """Parameters and on top of them gradients, over time. Returns the most that they hold, and the shards alone."""
    blocks = [trace.blocks(0, category) for category in ("parameters", "gradients")]
    both = held(blocks[0] + blocks[1], *span)
    steps = [(a - span[0], b - span[0], 0) for a, b, _ in both]
    of = [[held_at(kind, a) for a, _, _ in both] for kind in blocks]
    lower = [(base, base - per_byte * p) for p in of[0]]
    upper = [(base - per_byte * p, base - per_byte * (p + g)) for p, g in zip(*of)]
    area(canvas, axis, steps, lower, "memory")
    area(canvas, axis, steps, upper, "second-memory")
    return max(p + g for p, g in zip(*of)), min(p for p in of[0])


def fsdp_timeline():
    layers, unit = 8, 2**20
    trace = suite.check_trace("22.9b", "GatheringHidesBehindTheModel", 4, 8)
    origin, end = trace.spans(0, "comm", "region")[0][0], max(e for _, e, _ in trace.spans(0, "main", "wait"))
    axis, base, per_byte = (92, 740 / (end - origin)), 356, 9 / unit
    c = Canvas(
        "fsdp_timeline",
        (860, 436),
        "FSDP gathers a unit just before its use and releases it just after",
        "A step of eight layers of 1 MiB on four ranks, gathered two ahead. Of main's time only the first "
        "gather of each pass and the last reduction are exposed. Below, what a rank holds: its shards, the "
        "gathered units, and gradients until they are reduced; never the whole model.",
    )
    c.text(16, 52, "8 layers of 1 MiB on 4 ranks, prefetch 2: rank 0, with the layers' numbers", "small soft")
    for y, words in ((86, "main"), (116, "all-gather"), (146, "reduce")):
        c.text(16, y, words)
    joined, waits = fsdp_main(c, axis, 68, trace, origin, layers)
    fsdp_comm(c, axis, 98, trace, origin, layers)
    most, shards = fsdp_memory(c, axis, base, per_byte, trace, (origin, end))
    for words, y in (("memory", 256), ("of a rank", 274)):
        c.text(16, y, words)
    whole = base - per_byte * 2 * layers * unit
    c.line(axis[0], whole, axis[0] + 740, whole, "limit")
    c.text(axis[0] + 740, whole - 7, f"not sharded: {2 * layers} MiB of parameters and gradients", "end small stop")
    c.line(axis[0], base - per_byte * shards, axis[0] + 740, base - per_byte * shards, "ink dot")
    c.text(axis[0] + 6, base - 5, f"own shard of the parameters: {shards // unit} MiB", "small")
    c.text(axis[0] + 250, base - per_byte * most - 8, f"at most {most // unit} MiB", "small bold")
    time_axis(c, axis, base + 8, end - origin, 5)
    exposed = sum(b - a for a, b in waits)
    c.legend(
        16,
        424,
        [
            ("compute", "forward, backward"),
            ("comm", "on queue comm"),
            ("wait", f"exposed: {ms(exposed)}"),
            ("memory", "parameters"),
            ("second-memory", "gradients"),
        ],
    )
    return c


def block_times(trace, layers):
    """When the forward and the backward of each block begin and end, its recomputation with the backward."""
    work = trace.spans(0, "main", "compute")
    forward = next(s for s in trace.spans(0, "main", "region") if s[2]["name"] == "forward")
    ends = [end for _, end, e in work if e["name"] == "add" and end <= forward[1]][1::2]  # the second residual of each
    norms = [end for _, end, e in work if e["name"] == "layer_norm_backward"][::2]  # the head's, then each block's
    first = next(end for _, end, e in work if e["name"] == "embedding")
    there = list(zip([first, *ends], ends))
    back = list(zip(norms, norms[1:]))[::-1]
    assert len(there) == len(back) == layers
    return there, back, norms[0]


def needed(trace, parts, mode, layers):
    """Spans (from, until, bytes) of what the backward pass still needs: blocks and head; attention's probabilities."""
    there, back, head = block_times(trace, layers)
    backward = next(s for s in trace.spans(0, "main", "region") if s[2]["name"] == "backward")
    size = {p["part"]: p["predicted_bytes"] // (layers if p["reason"].startswith("L·") else 1) for p in parts}
    blocks = [(there[-1][1], head, size["head"]), (*backward[:2], size["backward"])]
    probabilities = []
    for begins, ends in zip(there, back):
        kept, twice = [(begins[0], ends[1])], [begins, ends]
        blocks += [(*span, size["inputs of blocks"]) for span in kept]
        rest = size["the rest of blocks"] + size["norms of blocks"]
        blocks += [(*span, rest) for span in (twice if mode == "full" else kept)]
        probabilities += [(*span, size["probabilities"]) for span in (kept if mode == "none" else twice)]
    return blocks, probabilities


def activation_curve(canvas, axis, base, per_byte, spans, end):
    """Blocks, and on top of them probabilities, over time."""
    both = held(spans[0] + spans[1], 0, end)
    of = [[held_at(kind, a) for a, _, _ in both] for kind in spans]
    area(canvas, axis, both, [(base, base - per_byte * b) for b in of[0]], "memory")
    area(canvas, axis, both, [(base - per_byte * b, base - per_byte * (b + p)) for b, p in zip(*of)], "second-memory")


def activations():
    layers, modes = (
        24,
        {
            "none": "None: every activation is kept",
            "selective": "Selective: only probabilities again",
            "full": "Full: every block again from its input",
        },
    )
    found, traces = suite.bench(
        "activations", [f"materialised-{mode}" for mode in modes], "--model", "gpt2-355m", "--batch", "4", "--phantom"
    )
    found = [r for r in found if r["attention"] == "materialised"]
    runs = {r["recompute"]: r for r in found if "measured_bytes" in r}
    ends = [max(e for _, e, _ in t.spans(0, "main", "compute")) for t in traces]
    c = Canvas(
        "activations",
        (720, 486),
        "Recomputation trades memory for time",
        "Activations over the forward and backward pass of GPT-2 355M. They pile up while the forward pass "
        "runs and are used up by the backward pass. "
        + " ".join(
            f"{words}: at most {size_text(runs[m]['measured_bytes'])}, {runs[m]['seconds']:.3g} s."
            for m, words in modes.items()
        ),
    )
    c.text(
        16,
        52,
        "GPT-2 355M, bf16, 4 × 1,024 tokens, attention's probabilities in memory: what the backward pass still needs",
        "small soft",
    )
    axis, per_byte = (40, 660 / max(ends)), 78 / max(r["measured_bytes"] for r in runs.values())
    for i, (mode, trace, end) in enumerate(zip(modes, traces, ends)):
        base, most = 182 + 120 * i, runs[mode]["measured_bytes"]
        parts = [r for r in found if "part" in r and r["recompute"] == mode]
        activation_curve(c, axis, base, per_byte, needed(trace, parts, mode, layers), end)
        c.line(axis[0], base - per_byte * most, spread(axis, end), base - per_byte * most, "ink dot")
        turn = spread(axis, next(s for s in trace.spans(0, "main", "region") if s[2]["name"] == "backward")[0])
        c.line(turn, base - 84, turn, base, "ink dash")
        c.text(16, base - 96, modes[mode], "head")
        c.text(704, base - 96, f"at most {size_text(most)}, {runs[mode]['seconds']:.3g} s", "end")
    time_axis(c, axis, 428, max(ends), 200)
    c.legend(16, 474, [("memory", "blocks"), ("second-memory", "attention's probabilities")])
    c.line(300, 469, 322, 469, "ink dot")
    c.text(328, 474, "allocated", "small soft")
    c.line(410, 469, 432, 469, "ink dash")
    c.text(438, 474, "between forward and backward", "small soft")
    return c
