"""How all figures look: colours that colour-blind readers can tell apart, with markers and line styles beside them; the
same data gives the same bytes."""

import math
import textwrap
from dataclasses import dataclass

import matplotlib

from results import bytes_text

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

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


@dataclass(frozen=True)
class Layout:
    """Where a figure is to stand. `width` in inches, None: as the figure asks; `text`: its letters, over those on the
    page."""

    folder: str
    kinds: tuple
    suffix: str = ""
    width: float = None
    text: float = 1.0
    stacked: bool = False  # panels one under the other
    wide: bool = False  # 16:9


LAYOUTS = {
    "page": [Layout("figures", ("svg", "pdf", "png"))],
    "paper": [
        Layout("paper", ("pdf",), "_column", 3.3, 0.74, stacked=True),
        Layout("paper", ("pdf",), "_page", 7.0, 0.74),
    ],
    "slides": [Layout("slides", ("png",), wide=True)],
}


TALLEST = 6.2  # inches of panels one under the other: below them a column of a paper holds the caption


class Drawing:
    """The layout that figures are drawn in: a figure's function says what is in it, this how large it is."""

    layout = LAYOUTS["page"][0]


def subplots(columns=1, width=8.0, height=4.2, bars=0, **options):
    """`columns` panels beside each other, as axes[0][i]; stacked where the layout is one column of a paper. With `bars`
    a panel is
    as high as so many horizontal ones need."""
    layout = Drawing.layout
    height = max(1.6, 0.9 + 0.3 * bars) if bars else height
    if layout.wide:
        width = max(8.0, width)
        return plt.subplots(1, columns, figsize=(width, width * 9 / 16), squeeze=False, **options)
    if layout.stacked:
        panel = 0.9 + 0.27 * bars if bars else min(max(layout.width * height * columns / width, 2.0), 2.7)
        panel = panel if columns == 1 else min(panel, TALLEST / columns)
        figure, axes = plt.subplots(columns, 1, figsize=(layout.width, panel * columns), squeeze=False, **options)
        return figure, axes.reshape(1, -1)
    if layout.width:
        width, height = layout.width, max(2.5, height * layout.width / width)
    return plt.subplots(1, columns, figsize=(width, height), squeeze=False, **options)


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


def beside_line(axis, x, y, text):
    """Names the vertical line at x, upright, left of it, at height y of the axis; what lies below stays legible."""
    axis.annotate(
        text,
        (x, y),
        xycoords=("data", "axes fraction"),
        xytext=(-2, 0),
        textcoords="offset points",
        rotation=90,
        fontsize=7,
        color="#555555",
        ha="right",
        va="top" if y > 0.5 else "bottom",
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.6},
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


def name_bars(axis, names):
    """Horizontal bars from above to below; long names are broken where a column is narrow."""
    axis.set_yticks(range(len(names)))
    axis.set_yticklabels([textwrap.fill(name, 24) for name in names] if Drawing.layout.stacked else names, fontsize=7.5)
    axis.margins(y=0.02)
    axis.invert_yaxis()


def stacked_bars(axis, names, parts, unit=1.0):
    """Horizontal bars in parts, {part: a value for each name}, each with a hatch of its own. Returns where they end."""
    left = [0.0] * len(names)
    whole = sum(map(sum, parts.values()))
    for k, (part, values) in enumerate(parts.items()):
        if sum(values) > 1e-3 * whole:
            axis.barh(
                range(len(names)),
                [v / unit for v in values],
                0.72,
                left=left,
                color=COLOURS[k],
                alpha=0.85,
                hatch=HATCHES[k],
                edgecolor="white",
                label=part,
            )
        left = [a + v / unit for a, v in zip(left, values)]
    name_bars(axis, names)
    return left


def stacked_columns(axis, parts, width, **line):
    """Vertical bars in parts, {part: a value for each bar}, each with a hatch of its own."""
    bottom = None
    for k, (part, values) in enumerate(parts.items()):
        axis.bar(
            range(len(values)),
            values,
            width,
            bottom=bottom,
            color=COLOURS[k],
            alpha=0.85,
            hatch=HATCHES[k],
            edgecolor="white",
            label=part,
            **line,
        )
        bottom = [a + b for a, b in zip(bottom or [0.0] * len(values), values)]


def abreast(columns):
    """So many entries of a legend beside each other, where there is room."""
    return min(columns, 2) if Drawing.layout.stacked else columns


def plain_legend(axis, columns):
    """Above the axis, where it covers nothing."""
    axis.legend(fontsize=7.5, ncols=abreast(columns), loc="lower center", bbox_to_anchor=(0.5, 1.0), markerscale=0.4)


def figure_legend(figure, axis, columns):
    """This axis' legend above the whole figure: an empty title keeps the place free."""
    handles, labels = axis.get_legend_handles_labels()
    columns = 1 if Drawing.layout.stacked and max(map(len, labels)) > 28 else abreast(columns)
    figure.suptitle("\n".join(" " * -(-len(labels) // columns)), fontsize=10 if columns > 2 else 13)
    figure.legend(handles, labels, fontsize=7.5, ncols=columns, loc="upper center", markerscale=0.4)


def losses_figure(serial, others):
    """Losses of training runs on the serial program's, and their distance: rows of CSV files, the others by name."""
    if not serial or not all(others.values()):
        return None
    figure, axes = subplots(2, 10, 4.0)
    loss = lambda rows: [float(r["loss"]) for r in rows]
    steps = lambda rows: [int(r["step"]) for r in rows]
    axes[0][0].plot(steps(serial), loss(serial), color=COLOURS[5], linewidth=4, alpha=0.6, label="serial")
    for i, (name, rows) in enumerate(others.items()):
        axes[0][0].plot(
            steps(rows), loss(rows), color=COLOURS[i], linewidth=1.2, linestyle=("--", ":", "-.")[i % 3], label=name
        )
        gap = [max(abs(a - b), 1e-9) for a, b in zip(loss(serial), loss(rows))]
        axes[0][1].plot(
            steps(rows), gap, color=COLOURS[i], marker=MARKERS[i], linestyle="none", markersize=3, label=name
        )
    axes[0][0].set_ylabel("loss, nats per token")
    axes[0][0].set_title("training loss, the same global batch")
    axes[0][0].legend()
    axes[0][1].set_yscale("log")
    axes[0][1].set_ylabel("difference from serial, nats")
    axes[0][1].set_title("their difference (at the bottom: none)")
    if len(others) > 1:
        axes[0][1].legend()
    for axis in axes[0]:
        axis.set_xlabel("step")
    return figure


METADATA = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Producer": None},
    "png": {"Software": None},
}


def save(figure, out, name):
    """Into the layout's folder of `out`, in each of its formats; letters of print are never below 5.5 points."""
    layout = Drawing.layout
    if layout.text != 1:
        for text in figure.findobj(matplotlib.text.Text):
            text.set_fontsize(max(5.5, layout.text * text.get_fontsize()))
    if layout.stacked:  # panels that shared a label beside each other need one each
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
