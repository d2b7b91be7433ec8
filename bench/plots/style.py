"""How all figures look: colours that colour-blind readers can tell apart, with markers and line styles beside them; the
same data gives the same bytes."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

# Okabe and Ito's palette, darkest first.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000"]
MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
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


def save(figure, folder, name):
    for kind, metadata in (("svg", {"Date": None, "Creator": None}), ("pdf", {"CreationDate": None, "Producer": None}),
                           ("png", {"Software": None})):
        figure.savefig(folder / f"{name}.{kind}", metadata=metadata, dpi=160)
    plt.close(figure)
