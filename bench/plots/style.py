"""How all figures look: colours that colour-blind readers can tell apart, with markers and line styles beside them; the
same data gives the same bytes."""

import math
import re
import textwrap
from dataclasses import dataclass

import matplotlib

from results import bytes_text

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

SOFT = "#4d5661"  # letters that explain
# Okabe and Ito's palette, darkest first.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000"]
MORE_COLOURS = [
    "#882255",
    "#999933",
    "#44AA99",
    "#777777",
    "#332288",
    "#AA4499",
    "#663300",
]  # Tol's, for figures of many curves
MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
HATCHES = ["", "//", "..", "xx", "--", "\\\\"]
LINES = ["-", "--", "-.", ":", (0, (5, 1, 1, 1)), (0, (3, 1)), "-"]

matplotlib.rcParams.update(
    {
        "svg.fonttype": "path",
        "svg.hashsalt": "lockstep",
        "font.size": 10,
        "axes.grid": True,
        "grid.color": "#dddddd",
        "grid.linewidth": 0.6,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.frameon": False,
        "figure.constrained_layout.use": True,
        "lines.markersize": 4.5,
        "lines.linewidth": 1.4,
    }
)


def look(i):
    """Colour, marker and line style of the i-th curve: of the first 49, no two are alike."""
    return {"color": COLOURS[i % 7], "marker": MARKERS[(i + i // 7) % 7], "linestyle": LINES[(i + i // 7) % 7]}


def distinct(i):
    """As look, of up to 14 curves no two of which share a colour."""
    return {**look(i), "color": (COLOURS + MORE_COLOURS)[i % 14]}


def filled(i):
    """The fill of the i-th kind of bar."""
    return {"color": COLOURS[i], "hatch": HATCHES[i], "edgecolor": "white"}


@dataclass(frozen=True)
class Layout:
    """Where a figure is to stand. `width` in inches, None: as the figure asks; `text`: its letters, over those on the
    page."""

    folder: str
    kinds: tuple
    suffix: str = ""
    width: float = None
    text: float = 1.0
    least: float = 10.0  # points of the smallest letters
    stacked: bool = False  # panels one under the other
    wide: bool = False  # 16:9
    titled: bool = True  # else the caption below describes the figure, and the source of its numbers


LAYOUTS = {
    "page": [Layout("figures", ("svg", "pdf", "png"))],
    "paper": [
        Layout("paper", ("pdf",), "_column", 3.3, 0.74, 7.0, stacked=True, titled=False),
        Layout("paper", ("pdf",), "_page", 7.0, 0.74, 7.0, titled=False),
    ],
    "slides": [Layout("slides", ("png",), wide=True)],
}


TALLEST = 6.2  # inches of panels one under the other: below them a column of a paper holds the caption


class Drawing:
    """The layout that figures are drawn in: a figure's function says what is in it, this how large it is."""

    layout = LAYOUTS["page"][0]


WIDEST = 8.0  # inches on the page: letters of 10 points are 9 on a printed sheet, and 14 pixels in a README of 830


def subplots(columns=1, width=8.0, height=4.2, bars=0, stacked=False, **options):
    """`columns` panels, as axes[0][i]: up to three beside each other, more of them in rows of two; one under the other
    if `stacked`, or where the layout is one column of a paper. With `bars` a panel is as high as so many horizontal
    ones need."""
    layout = Drawing.layout
    height = max(1.6, 0.9 + 0.3 * bars) if bars else height
    if stacked:
        width = layout.width or WIDEST
        high = width * 9 / 16 if layout.wide else height * columns
        figure, axes = plt.subplots(columns, 1, figsize=(width, high), squeeze=False, **options)
        return figure, axes.reshape(1, -1)
    if layout.wide:
        width = max(8.0, width)
        return plt.subplots(1, columns, figsize=(width, width * 9 / 16), squeeze=False, **options)
    if layout.stacked:
        panel = 0.9 + 0.27 * bars if bars else min(max(layout.width * height * columns / width, 2.0), 2.7)
        panel = panel if columns == 1 else min(panel, TALLEST / columns)
        figure, axes = plt.subplots(columns, 1, figsize=(layout.width, panel * columns), squeeze=False, **options)
        return figure, axes.reshape(1, -1)
    across = columns if columns <= 3 else 2
    rows = -(-columns // across)
    if layout.width:
        width, height = layout.width, max(2.5, height * layout.width / width)
    elif width > WIDEST:
        width, height = WIDEST, height if bars else max(2.9, 0.8 * height)
    figure, axes = plt.subplots(rows, across, figsize=(width, height * rows), squeeze=False, **options)
    for spare in axes.flat[columns:]:
        spare.remove()
    return figure, axes.reshape(1, -1)[:, :columns]


def wide_and_two(height=3.2):
    """(figure, three panels): one as wide as the figure, two beside each other below it."""
    layout = Drawing.layout
    if layout.stacked:
        figure, axes = subplots(3, 8.0, height)
        return figure, list(axes[0])
    width = layout.width or WIDEST
    figure = plt.figure(figsize=(width, 4.5 if layout.wide else 1.7 * height * width / WIDEST))
    grid = figure.add_gridspec(2, 2, height_ratios=(1.5, 1))
    return figure, [figure.add_subplot(place) for place in (grid[0, :], grid[1, 0], grid[1, 1])]


def from_top(figure):
    """Where (x, y) are inches from the figure's upper left corner."""
    return figure.dpi_scale_trans + matplotlib.transforms.ScaledTranslation(0, 1, figure.transFigure)


def set_apart(figure, above=0.0, below=0.0):
    """Adds room above or below the panels, in inches, which they leave free; returns how much was free above."""
    was_above, was_below = getattr(figure, "apart", (0.0, 0.0))
    figure.apart = was_above + above, was_below + below
    if not Drawing.layout.wide:
        figure.set_figheight(figure.get_figheight() + above + below)
    high = figure.get_figheight()
    free_above, free_below = figure.apart
    figure.get_layout_engine().set(rect=(0, free_below / high, 1, 1 - (free_above + free_below) / high))
    return was_above


UNBROKEN = re.compile(r"(?<=\d) (?=(?:[mµ]?s|%|[KMG]i?B|nats)\b|%)| (?==)|(?<==) ")  # 3 ms, p = 2


def title(figure, sentence):
    """The figure's result, a sentence, above everything else. Call it before figure_legend."""
    if not Drawing.layout.titled or not sentence:
        return
    sentence = UNBROKEN.sub("\u00a0", sentence)
    lines = textwrap.wrap(sentence, int(figure.get_figwidth() * 9.4), break_on_hyphens=False)
    set_apart(figure, above=0.2 * len(lines) + 0.12)
    place = {"transform": from_top(figure), "ha": "left", "va": "top", "fontsize": 12, "fontweight": "bold"}
    figure.text(0.06, -0.06, "\n".join(lines), linespacing=1.15, **place)


def stamp(figure, words):
    """Whose code gave these numbers, on which machine, and how: a line below everything else, above an earlier one."""
    if not Drawing.layout.titled or not words:
        return
    lines = textwrap.wrap(words, int(figure.get_figwidth() * 12), break_on_hyphens=False)
    below = getattr(figure, "apart", (0.0, 0.0))[1]
    set_apart(figure, below=0.17 * len(lines) + 0.05)
    figure.text(
        0.06,
        0.04 + below,
        "\n".join(lines),
        transform=figure.dpi_scale_trans,
        ha="left",
        va="bottom",
        fontsize=10,
        color=SOFT,
    )


def apart(wanted, least, low, high):
    """These places in rising order, moved by as little as keeps each `least` from the next, within low and high."""
    blocks = []  # (sum of places less what lies below them, how many)
    for k, place in enumerate(wanted):
        blocks.append((place - k * least, 1))
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] >= blocks[-1][0] / blocks[-1][1]:
            (a, n), (b, m) = blocks[-2:]
            blocks[-2:] = [(a + b, n + m)]
    flat = [total / count for total, count in blocks for _ in range(count)]
    top = max(low, high - (len(wanted) - 1) * least)
    return [min(max(place, low), top) + k * least for k, place in enumerate(flat)]


def label_ends(axis, ends):
    """Names curves beside their last points: (x, y, words, colour) of each. Call it when the axes' limits are set: a
    curve's name stands where the curve ends, or as near as other names let it."""
    if not ends:
        return
    letters = Drawing.layout.text * 10
    high = axis.get_position().height * (axis.figure.get_figheight() - sum(getattr(axis.figure, "apart", (0, 0))))
    axis.get_xlim(), axis.get_ylim()  # which matplotlib works out when it is asked
    in_axis = lambda x, y: axis.transAxes.inverted().transform(axis.transData.transform((x, y)))
    ends = sorted(ends, key=lambda end: in_axis(*end[:2])[1])
    lines = [words.count("\n") + 1 for _, _, words, _ in ends]
    step = 1.2 * letters / 72 / high * max(lines)
    edge = 0.02 + 0.6 * letters / 72 / high * (max(lines) - 1)  # a second line stays below the panel's title
    places = apart([in_axis(x, y)[1] for x, y, _, _ in ends], step, edge, 1 - edge)
    for (x, y, words, colour), place in zip(ends, places):
        axis.annotate(
            words,
            (x, y),
            xytext=(1.0, place),
            textcoords=matplotlib.transforms.offset_copy(axis.transAxes, axis.figure, 0.17, 0),
            # to the first letter, not to the middle: else it would cross the names next to it
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "linewidth": 0.6,
                "shrinkA": 0,
                "shrinkB": 3,
                "relpos": (0, 0.5),
            },
            ha="left",
            va="center",
            fontsize=10,
            color=ink(colour),
        )


def ink(colour):
    """A curve's colour, dark enough for letters on white."""
    dark = {
        "#56B4E9": "#2077A8",
        "#E69F00": "#966400",
        "#CC79A7": "#A8487E",
        "#009E73": "#007A59",
        "#D55E00": "#B34F00",
    }
    return dark.get(colour, colour)


def over(rows, x, y, scale=1):
    """[(x, y), …] of these fields of the rows that have both, y times `scale`."""
    return [(r[x], scale * r[y]) for r in rows if r[x] is not None and r[y] is not None]


def lines(axis, found, first=0, **more):
    """Draws {name: [(x, y), …]}, the i-th with look(first + i). Returns their ends, for label_ends."""
    for i, points in enumerate(found.values(), first):
        axis.plot(*zip(*points), **{**look(i), **more})
    return [(*points[-1], name, look(i)["color"]) for i, (name, points) in enumerate(found.items(), first)]


def marks(axis, points, marker, size, **more):
    """Draws what stands beside curves or bars, a prediction or somebody else's values, as marks."""
    if points:
        axis.plot(
            *zip(*points), **{"linestyle": "none", "marker": marker, "markersize": size, "color": "black", **more}
        )


def doubling_axis(axis, ticks, label):
    """A logarithmic x axis with exactly these ticks; with every other one where they would touch."""
    if (
        sum(len(f"{t:,}") + 1.5 for t in ticks) * 0.085 * Drawing.layout.text
        > axis.get_position().width * axis.figure.get_figwidth()
    ):
        ticks = ticks[::2]
    axis.set_xscale("log", base=2)
    axis.set_xticks(ticks)
    axis.set_xticklabels([f"{t:,}" for t in ticks])
    axis.minorticks_off()
    axis.set_xlabel(label)


def size_axis(axis, sizes, most=6):
    """A logarithmic x axis of array sizes in bytes, with about `most` ticks."""
    ticks = sizes[:: -(-len(sizes) // most)]
    axis.set_xscale("log", base=2)
    axis.set_xticks(ticks)
    axis.set_xticklabels([bytes_text(t) for t in ticks])
    axis.minorticks_off()
    axis.set_xlabel("array")


def speedup_axis(axis, most, label, least=1.0):
    """A logarithmic y axis: 1, 2, 4 … up to `most`, and 1/2, 1/4 … down to where `least` lies."""
    below = max(0, math.ceil(-math.log2(least))) if least > 0 else 0
    axis.set_yscale("log", base=2)
    axis.set_yticks([2.0**k for k in range(-below, most.bit_length())])
    axis.set_yticklabels([f"1/{2**-k}" if k < 0 else f"{2**k}" for k in range(-below, most.bit_length())])
    axis.set_ylabel(label)


def plain_log_axis(axis, steps=(1, 2, 5)):
    """A matplotlib axis (of x or of y), logarithmic, with plain numbers at 1, 2, 5, 10 …, as far as it goes; of many
    decades at 1, 10, 100 …"""
    scale, limits, ticks, labels = (
        getattr(axis.axes, f"{verb}_{axis.axis_name}{noun}")
        for verb, noun in (("set", "scale"), ("get", "lim"), ("set", "ticks"), ("set", "ticklabels"))
    )
    scale("log")
    low, high = limits()
    places = [s * 10.0**k for k in range(-12, 13) for s in steps if low <= s * 10.0**k <= high]
    places = places if len(places) <= 12 else [place for place in places if math.log10(place) % 1 < 1e-9]
    ticks(places)
    labels([f"{place:,.10g}" for place in places])
    axis.set_minor_locator(matplotlib.ticker.NullLocator())


ON_WHITE = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.6}  # behind letters on a line


def beside_line(axis, x, y, text):
    """Names the vertical line at x, upright, left of it, at height y of the axis; what lies below stays legible."""
    axis.annotate(
        text,
        (x, y),
        xycoords=("data", "axes fraction"),
        xytext=(-2, 0),
        textcoords="offset points",
        rotation=90,
        fontsize=10,
        color=SOFT,
        ha="right",
        va="top" if y > 0.5 else "bottom",
        bbox=ON_WHITE,
    )


def whiskers(rows, field, scale=1):
    """yerr of this field times `scale`: its own interval, or that of the rows' seconds, of which it is a rate."""
    below, above = [], []
    for row in rows:
        value = row[field]
        low, high = row.get(field + "_low"), row.get(field + "_high")
        if low is None and row.get("seconds_low") and row.get("seconds_high") and row.get("seconds"):
            low, high = value * row["seconds"] / row["seconds_high"], value * row["seconds"] / row["seconds_low"]
        below.append(scale * max(0.0, value - low) if low is not None else 0.0)
        above.append(scale * max(0.0, high - value) if high is not None else 0.0)
    return [below, above]


def broken(name, most, lines):
    """A name in lines of `most` letters, or of more where it would have more than `lines` of them."""
    name = UNBROKEN.sub("\u00a0", name)
    while len(found := [part for line in name.split("\n") for part in textwrap.wrap(line, most)]) > lines:
        most += 1
    return "\n".join(found)


def name_bars(axis, names):
    """Horizontal bars from above to below; long names are broken where a column is narrow. A bar has room for two
    lines, and in a column gets it for three."""
    most, lines = (24, 3) if Drawing.layout.stacked else (34, 2)
    names = names if Drawing.layout.wide else [broken(name, most, lines) for name in names]
    if lines == 3 and any(name.count("\n") == 2 for name in names):
        axis.figure.set_figheight(axis.figure.get_figheight() + 0.08 * len(names))
    axis.set_yticks(range(len(names)))
    axis.set_yticklabels(names, linespacing=1.0)
    axis.margins(y=0.02)
    axis.invert_yaxis()


def stacked_bars(axis, names, parts, unit=1.0):
    """Horizontal bars in parts, {part: a value for each name}, each with a hatch of its own. Returns where they end."""
    left = [0.0] * len(names)
    whole = sum(map(sum, parts.values()))
    for k, (part, values) in enumerate(parts.items()):
        if sum(values) > 1e-3 * whole:
            wide = [v / unit for v in values]
            axis.barh(range(len(names)), wide, 0.72, left=left, alpha=0.85, label=part, **filled(k))
        left = [a + v / unit for a, v in zip(left, values)]
    name_bars(axis, names)
    return left


def stacked_columns(axis, parts, width, **line):
    """Vertical bars in parts, {part: a value for each bar}, each with a hatch of its own."""
    bottom = None
    for k, (part, values) in enumerate(parts.items()):
        axis.bar(range(len(values)), values, width, bottom=bottom, alpha=0.85, label=part, **filled(k), **line)
        bottom = [a + b for a, b in zip(bottom or [0.0] * len(values), values)]


def abreast(figure, labels, most):
    """So many entries of a legend of these labels beside each other, where there is room."""
    wide = max(map(len, labels), default=1) * 0.078 * Drawing.layout.text + 0.55
    return max(1, min(most, int((figure.get_figwidth() - 0.1) / wide)))


def figure_legend(figure, axis, columns, heading=None):
    """This axis' legend above all panels, which make room for it."""
    handles, labels = axis.get_legend_handles_labels()
    columns = abreast(figure, labels, columns)
    room = int((figure.get_figwidth() - 0.6) / (0.078 * Drawing.layout.text))  # for the letters of one in a line
    labels = [textwrap.fill(label, room) for label in labels]
    rows = -(-len(labels) // columns) + sum(label.count("\n") for label in labels) + bool(heading)
    above = set_apart(figure, above=0.2 * rows + 0.1)
    figure.legend(
        handles,
        labels,
        title=heading,
        alignment="left",
        ncols=columns,
        loc="upper left",
        bbox_to_anchor=(0.0, -above),
        bbox_transform=from_top(figure),
        markerscale=0.7,
        borderaxespad=0.1,
        columnspacing=1.4,
        handletextpad=0.6,
    )


def losses_figure(serial, others, said="", alike=""):
    """Losses of training runs on the serial program's: rows of CSV files, the others by name; in the title `said`, or
    their largest distance. `alike`: a name for all the others."""
    figure, axes = subplots(1, 8, 3.0)
    axis = axes[0][0]
    loss = lambda rows: [float(r["loss"]) for r in rows]
    steps = [int(r["step"]) for r in serial]
    gap = max(abs(a - b) for rows in others.values() for a, b in zip(loss(serial), loss(rows)))
    names = " and ".join(filter(None, (", ".join(list(others)[:-1]), list(others)[-1])))
    less = f"by at most {gap:.2g} nats" if gap else "nowhere"
    title(figure, said or f"The losses of {names} differ from the serial program’s {less} in {len(steps)} steps")
    axis.plot(steps, loss(serial), color=COLOURS[5], linewidth=4, alpha=0.6, label="serial")
    for i, (name, rows) in enumerate(others.items()):
        line = {"color": COLOURS[i % 7], "linewidth": 0.9 if alike else 1.2, "linestyle": ("--", ":", "-.")[i % 3]}
        label = name if not alike else alike if i == 0 else None
        axis.plot([int(r["step"]) for r in rows], loss(rows), label=label, **line)
    axis.set_ylabel("loss, nats per token")
    axis.set_xlabel("step")
    axis.set_xlim(0, steps[-1])
    axis.legend()
    return figure


METADATA = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Producer": None},
    "png": {"Software": None},
}


def save(figure, out, name):
    """Into the layout's folder of `out`, in each of its formats; no letters are smaller than its least."""
    layout = Drawing.layout
    for text in figure.findobj(matplotlib.text.Text):
        text.set_fontsize(max(layout.least, layout.text * text.get_fontsize()))
    if layout.stacked:  # panels side by side that shared a label need one each
        first = figure.axes[0]
        for axis in figure.axes[1:]:
            if first.get_shared_y_axes().joined(first, axis):
                axis.set_ylabel(axis.get_ylabel() or first.get_ylabel())
    folder = out / layout.folder
    folder.mkdir(parents=True, exist_ok=True)
    for kind in layout.kinds:
        figure.savefig(
            folder / f"{name}{layout.suffix}.{kind}",
            metadata=METADATA[kind],
            dpi=1920 / figure.get_figwidth() if layout.wide else 160,
        )
        figure.set_constrained_layout(False)  # the first format has placed everything
    plt.close(figure)


def save_as(figure, path):
    """One figure, of a calculator's --plot."""
    figure.savefig(path, metadata=METADATA[path.suffix[1:]], dpi=160)
    plt.close(figure)
