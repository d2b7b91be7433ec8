"""How all figures look: colours that colour-blind readers can tell apart, with markers and line styles beside them; the
same data gives the same bytes."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

# Okabe and Ito's palette, darkest first.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
HATCHES = ["", "//", "..", "xx", "--", "\\\\"]
LINES = ["-", "--", "-.", ":", (0, (5, 1, 1, 1)), (0, (3, 1)), "-"]

matplotlib.rcParams.update({
    "svg.fonttype": "path", "svg.hashsalt": "lockstep", "font.size": 10, "axes.grid": True, "grid.color": "#dddddd",
    "grid.linewidth": 0.6, "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False,
    "legend.frameon": False, "figure.constrained_layout.use": True, "lines.markersize": 4.5, "lines.linewidth": 1.4,
})


def look(i):
    """Colour, marker and line style of the i-th curve."""
    return {"color": COLOURS[i % 7], "marker": MARKERS[i % 7], "linestyle": LINES[i % 7]}


def subplots(columns=1, width=8.0, height=4.2, **options):
    return plt.subplots(1, columns, figsize=(width, height), squeeze=False, **options)


def doubling_axis(axis, ticks, label):
    """A logarithmic x axis with exactly these ticks."""
    axis.set_xscale("log", base=2)
    axis.set_xticks(ticks)
    axis.set_xticklabels([f"{t:,}" for t in ticks])
    axis.minorticks_off()
    axis.set_xlabel(label)


def losses_figure(serial, others):
    """Losses of training runs on the serial program's, and their distance: rows of CSV files, the others by name."""
    if not serial or not all(others.values()):
        return None
    figure, axes = subplots(2, 10, 4.0)
    loss = lambda rows: [float(r["loss"]) for r in rows]
    steps = lambda rows: [int(r["step"]) for r in rows]
    axes[0][0].plot(steps(serial), loss(serial), color=COLOURS[5], linewidth=4, alpha=0.6, label="serial")
    for i, (name, rows) in enumerate(others.items()):
        axes[0][0].plot(steps(rows), loss(rows), color=COLOURS[i], linewidth=1.2, linestyle=("--", ":", "-.")[i % 3], label=name)
        gap = [max(abs(a - b), 1e-9) for a, b in zip(loss(serial), loss(rows))]
        axes[0][1].plot(steps(rows), gap, color=COLOURS[i], marker=MARKERS[i], linestyle="none", markersize=3, label=name)
    axes[0][0].set_ylabel("loss, nats a token")
    axes[0][0].set_title("training loss, the same global batch")
    axes[0][0].legend()
    axes[0][1].set_yscale("log")
    axes[0][1].set_ylabel("distance from serial, nats")
    axes[0][1].set_title("their distance (at the bottom: none at all)")
    if len(others) > 1:
        axes[0][1].legend()
    for axis in axes[0]:
        axis.set_xlabel("step")
    return figure


def save(figure, folder, name):
    for kind, metadata in (("svg", {"Date": None, "Creator": None}), ("pdf", {"CreationDate": None, "Producer": None}),
                           ("png", {"Software": None})):
        figure.savefig(folder / f"{name}.{kind}", metadata=metadata, dpi=160)
    plt.close(figure)
