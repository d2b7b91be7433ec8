"""The README's figure: a DDP step without and with overlap, and how far such steps scale."""

from figures import suite
from figures.axes import log_place, ms, spread, time_axis
from figures.canvas import Canvas

STEP = ("--machine", "pcie-box", "--ranks", "2", "--model", "gpt2-124m", "--batch", "4", "--bucket-bytes", "25MiB")
CLUSTERS = (
    ("NVLink", "dgx-a100", "1,2,4,8"),
    ("InfiniBand", "dgx-a100-hdr", "1,2,4,8,16,32,64"),
    ("PCIe", "pcie-box", "1,2,4"),
)
LOOKS = {"NVLink": "work", "InfiniBand": "hold", "PCIe": "go"}


def joined(spans, gap):
    """Spans of time in order, those closer than `gap` seconds in one."""
    found = []
    for begin, end, *_ in sorted(spans, key=lambda span: span[0]):
        if found and begin - found[-1][1] < gap:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([begin, end])
    return found


def under(spans, others):
    """What of these spans of time lies within the others."""
    both = [(max(a, c), min(b, d)) for a, b in spans for c, d in others]
    return [(begin, end) for begin, end in both if begin < end]


def lanes(canvas, axis, y, trace, length):
    """Both ranks of one step: what main computes and where it waits, below it what comm moves meanwhile."""
    for rank in (0, 1):
        canvas.text(16, y + 17, f"rank {rank}")
        canvas.rect(spread(axis, 0), y, axis[1] * length, 24, "wait", 2)
        for begin, end in joined(trace.spans(rank, "main", "compute"), length / 500):
            canvas.rect(spread(axis, begin), y, axis[1] * (end - begin), 24, "compute")
        y += 26
        hidden = trace.spans(rank, "comm", "region")
        for begin, end in under(joined(hidden, 0), joined(trace.spans(rank, "main", "compute"), length / 500)):
            canvas.rect(spread(axis, begin), y, axis[1] * (end - begin), 13, "comm")
        y += 17 if hidden else 2
    return y


def length_of(trace):
    return max(end for rank in (0, 1) for _, end, _ in trace.spans(rank, "main", "compute"))


def curves():
    """[(link, {ranks: speedup}, serial fraction)] of the same model with one batch for all ranks."""
    found = []
    for link, machine, ranks in CLUSTERS:
        shape = ("--machine", machine, "--ranks", ranks, "--model", "gpt2-124m", "--batch", "64", "--phantom")
        context, rows = suite.results("bench", "scaling", *shape)
        strong = {r["ranks"]: r["speedup"] for r in rows if r["scaling"] == "strong" and r["algorithm"] != "serial"}
        found.append((link, {1: 1.0} | strong, context["amdahl_serial_fraction"]))
    return found


def speedups(canvas, x, y, side, found):
    """Speedup over ranks, both axes logarithmic: points, the law fitted to them, dashed beyond them."""
    most = max(max(points) for _, points, _ in found)
    place_x, place_y = log_place(1, most, x, side), log_place(1, most, y + side, -side)
    for tick in [2**k for k in range(0, most.bit_length())]:
        canvas.line(place_x(tick), y, place_x(tick), y + side)
        canvas.line(x, place_y(tick), x + side, place_y(tick))
        if tick.bit_length() % 2:
            canvas.text(place_x(tick), y + side + 19, tick, "mid soft")
            canvas.text(x - 8, place_y(tick) + 5, tick, "end soft")
    canvas.text(x + side / 2, y + side + 38, "GPUs", "mid soft")
    canvas.line(place_x(1), place_y(1), place_x(most), place_y(most), "faint")
    canvas.text(x + side + 8, place_y(most) + 5, "ideal", "soft")
    for link, points, serial in found:
        law = lambda p: 1 / (serial + (1 - serial) / p)
        last = max(points)
        along = lambda low, high: [low * (high / low) ** (k / 20) for k in range(21)]
        canvas.path([(place_x(p), place_y(law(p))) for p in along(1, last)], LOOKS[link])
        if last < most:
            canvas.path([(place_x(p), place_y(law(p))) for p in along(last, most)], f"{LOOKS[link]} dash")
        for p, value in points.items():
            canvas.add(
                f'<circle cx="{place_x(p):.1f}" cy="{place_y(value):.1f}" r="3.5" class="{LOOKS[link]}"'
                ' style="fill:var(--paper)"/>'
            )
        canvas.text(x + side + 8, place_y(law(most)) + 5, link, "head")


def scaling():
    _, (apart, beside) = suite.bench("ddp", ("no_overlap", "overlap"), *STEP, "--phantom")
    found, (long, short) = curves(), (length_of(apart), length_of(beside))
    most, last = max((max(points), points[max(points)]) for _, points, _ in found)
    c = Canvas(
        "scaling",
        (830, 396),
        "Overlap hides communication, and the link decides how far it scales",
        f"Left: a DDP step of two ranks takes {ms(long)} without overlap and {ms(short)} with it. Right: speedup over"
        " GPUs for a batch of 64, both axes logarithmic: "
        + "; ".join(f"{link} {points[max(points)]:.1f} times on {max(points)}" for link, points, _ in found)
        + ".",
    )
    c.text(16, 54, "One DDP step of GPT-2 124M on 2 GPUs with PCIe, simulated", "soft")
    axis = (76, 404 / long)
    c.text(16, 88, f"without overlap: {ms(long)}", "head")
    below = lanes(c, axis, 98, apart, long)
    c.text(16, below + 28, f"with overlap: {ms(short)}", "head")
    bottom = lanes(c, axis, below + 38, beside, short)
    left, right, y = spread(axis, short), spread(axis, long), below + 52
    c.line(right, 98, right, y + 12, "faint dash")
    c.path([(left, y - 6), (left, y + 6), (left, y), (right, y), (right, y - 6), (right, y + 6)], "ink")
    c.text(right, y + 26, f"{ms(long - short)}", "end bold")
    c.text(right, y + 43, "saved", "end bold")
    time_axis(c, axis, bottom + 6, long, 20)
    c.legend(16, 380, [("compute", "compute"), ("comm", "hidden communication"), ("wait", "exposed")])
    c.text(538, 54, "One batch on more GPUs, simulated", "soft")
    c.text(538, 88, "speedup", "head")
    c.text(736, 88, f"{most} GPUs: {last:.1f}×", "end soft")
    speedups(c, 540, 100, 196, found)
    c.text(538, 380, "dashed: Amdahl’s law beyond the runs", "soft")
    return c
