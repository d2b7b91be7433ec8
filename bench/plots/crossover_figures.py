"""The figure of week 21's extras: all-reduce algorithms against each other over the size of the array."""

from crossover import NAMES, TITLES, changes, curves, studies
from results import by, bytes_text
from style import COLOURS, beside_line, look, plain_log_axis, size_axis, subplots


def over_ring(axis, rows):
    """Times relative to the flat ring's: seen as marks, predicted as lines; `auto` as a broad band below them."""
    ring = {r["bytes"]: r["seconds"] for r in by(rows, algorithm="ring")}
    predicted_ring = {r["bytes"]: r["predicted_seconds"] for r in by(rows, algorithm="ring")}
    auto = by(rows, algorithm="auto")
    axis.plot(
        [r["bytes"] for r in auto],
        [r["seconds"] / ring[r["bytes"]] for r in auto],
        color="#cccccc",
        linewidth=7,
        solid_capstyle="round",
        label="auto",
        zorder=1,
    )
    for i, (name, mine) in enumerate(curves(rows).items()):
        x = [r["bytes"] for r in mine]
        axis.plot(
            x, [r["seconds"] / ring[r["bytes"]] for r in mine], label=NAMES[name], **{**look(i), "linestyle": "none"}
        )
        axis.plot(
            x,
            [r["predicted_seconds"] / predicted_ring[r["bytes"]] for r in mine],
            color=COLOURS[i % 7],
            linestyle=look(i)["linestyle"],
            linewidth=1,
        )
    for _, _, size in changes(rows, "predicted_seconds"):
        axis.axvline(size, color="#777777", linewidth=0.8, zorder=0)
        beside_line(axis, size, 0.98, bytes_text(size))
    size_axis(axis, x, 5)
    axis.tick_params(axis="x", labelsize=8.5)
    plain_log_axis(axis.yaxis, (1, 2, 3, 5, 7))


def crossovers(data):
    found = studies(data)
    if not found:
        return None
    figure, axes = subplots(len(found), 4.2 * len(found), 4.2)
    for axis, (name, (how, rows)) in zip(axes[0], found.items()):
        over_ring(axis, rows)
        axis.set_title(f"{TITLES.get(name, name)}, p = {rows[0]['ranks']}", fontsize=10)
    axes[0][0].set_ylabel("time, flat ring = 1")
    axes[0][0].legend(fontsize=7.5, loc="center left", bbox_to_anchor=(0, 0.72))
    return figure


ALL = (crossovers,)
