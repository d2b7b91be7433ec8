"""The roofline's figure: operations beside the two lines that a machine allows."""

import math

import matplotlib

from roofline import ROOFS, decimal, drawn, intensity, ridge, said
from style import COLOURS, SOFT, subplots, title

NAMED = 10  # labelled operations, those that take longest
MOST_AREA = 260  # points², of an operation that takes all the time


def place_names(axis, points, roof):
    """Writes each (x, y, words, gap) beside its point, where it covers no other point or name, nor the line `roof` of
    (x, y); `gap` in points. Those that find no such place, of which the table has all, have no name."""
    figure = axis.figure
    figure.draw_without_rendering()
    around = lambda x, y, half: matplotlib.transforms.Bbox.from_extents(x - half, y - half, x + half, y + half)
    boxes = [around(*axis.transData.transform((x, y)), 5) for x, y, _, _ in points]
    roof = [around(*place, 1) for place in axis.transData.transform(roof)] if roof else []
    boxes += [text.get_window_extent() for text in axis.texts]
    frame = axis.get_window_extent()

    def letters(name):  # where it stands, without the line to its point
        name.get_window_extent()
        return matplotlib.text.Text.get_window_extent(name)

    def cost(box):
        inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1
        crossed = any(box.overlaps(part) for part in roof)
        return sum(box.overlaps(other) for other in boxes) + crossed + (0 if inside else 10)

    for x, y, words, gap in points:
        tried = []
        for right, up in ((1, 0), (-1, 0), (0, -1), (0, 1), (1, -1), (1, 1), (-1, -1), (-1, 1), (1, -2), (-1, 2)):
            place = {"xytext": (right * gap, up * (gap + 6)), "textcoords": "offset points", "fontsize": 10}
            line = {"arrowstyle": "-", "linewidth": 0.6, "color": SOFT, "shrinkA": 0, "shrinkB": gap - 3}
            place |= {"ha": ("right", "center", "left")[right + 1], "va": "center", "arrowprops": line}
            name = axis.annotate(words, (x, y), **place)
            tried.append((cost(letters(name)), len(tried), name))
            if tried[-1][0] == 0:
                break
        least, _, best = min(tried)
        for _, _, name in tried:
            if name is not best or least > 0:
                name.remove()
        boxes += [letters(best)] if least == 0 else []


def draw_roofs(axis, rows, low, high):
    """Memory's line and the peak, solid where there are operations, dashed beyond. Returns points along them."""
    peak, memory = (rows[0][field] for field in ROOFS)
    at, (left, right) = ridge(rows), axis.get_xlim()
    roof = lambda x: min(peak, memory * x)
    line = {"color": "black", "linewidth": 1.4, "zorder": 1}
    for begin, end, dashed in ((left, low, True), (low, high, False), (high, right, True)):
        places = [x for x in (begin, at, end) if begin <= x <= end]
        axis.plot(places, [roof(x) for x in places], linestyle="--" if dashed else "-", **line)
    words = {"textcoords": "offset points", "va": "bottom", "fontsize": 10, "color": SOFT}
    axis.annotate(f"peak {decimal(peak, 'FLOP/s')}", (right, peak), xytext=(-4, 4), ha="right", **words)
    axis.figure.draw_without_rendering()
    (x0, y0), (x1, y1) = axis.transData.transform([(left, memory * left), (at, peak)])
    slope = math.degrees(math.atan2(y1 - y0, x1 - x0))
    turned = {"rotation": slope, "rotation_mode": "anchor", "ha": "left"}
    axis.annotate(f"memory {decimal(memory, 'B/s')}", (left, memory * left), xytext=(6, 8), **turned, **words)
    axis.axvline(at, color="#999999", linewidth=0.8, linestyle=":", zorder=0)
    return [(x, roof(x)) for x in (left * (right / left) ** (k / 300) for k in range(301))]


def roofline(_, rows):
    """Each group of operations at its FLOP per byte and the FLOP/s that it reaches; its area is its share of the
    time."""
    found, at = drawn(rows), ridge(rows)
    figure, axes = subplots(1, 8, 3.7)
    axis = axes[0][0]
    title(figure, said(rows))
    x = [intensity(row) for row in found]
    y = [row["flop"] / row["seconds"] for row in found]
    whole = sum(row["seconds"] for row in rows)
    areas = [max(14, MOST_AREA * row["seconds"] / whole) for row in found]
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlim(min(x) / 3, 4 * max([*x, at or 0]))
    axis.set_ylim(min(y) / 5, 3 * max([*y, rows[0][ROOFS[0]] if at else 0]))
    axis.scatter(x, y, areas, color=[COLOURS[0] if not at or i >= at else COLOURS[1] for i in x], zorder=2)
    limits = f"; left of {at:.3g} (dotted) memory limits, right of it the peak" if at else ""
    axis.set_xlabel("FLOP per byte" + limits)
    axis.set_ylabel("FLOP/s reached")
    axis.yaxis.set_major_formatter(lambda value, _: decimal(value, "").strip())
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    roof = draw_roofs(axis, rows, min(x), max(x)) if at else []
    named = [
        (a, b, f"{row['operation']} {100 * row['seconds'] / whole:.0f} %", 3 + area**0.5 / 2)
        for a, b, row, area in zip(x, y, found, areas)
    ]
    place_names(axis, named[:NAMED], roof)
    return figure
