"""The figure of week 21's extras: all-reduce algorithms against each other over the size of the array."""

from crossover import NAMES, TITLES, changes, curves
from results import by, bytes_text
from style import beside_line, figure_legend, lines, plain_log_axis, size_axis, subplots, title


def over_ring(axis, rows):
    """Times relative to the flat ring's: seen as marks, predicted as lines; `auto` as a broad band below them."""

    def relative(mine, field):
        ring = {r["bytes"]: r[field] for r in by(rows, algorithm="ring")}
        return [(r["bytes"], r[field] / ring[r["bytes"]]) for r in mine]

    band = {"color": "#cccccc", "linewidth": 7, "solid_capstyle": "round", "zorder": 1}
    axis.plot(*zip(*relative(by(rows, algorithm="auto"), "seconds")), **band)
    for i, (name, mine) in enumerate(curves(rows).items()):
        lines(axis, {name: relative(mine, "seconds")}, first=i, linestyle="none", label=NAMES[name])
        lines(axis, {name: relative(mine, "predicted_seconds")}, first=i, marker=None, linewidth=1)
    for _, _, size in changes(rows, "predicted_seconds"):
        axis.axvline(size, color="#777777", linewidth=0.8, zorder=0)
        beside_line(axis, size, 0.98, bytes_text(size))
    size_axis(axis, [r["bytes"] for r in mine], 3)
    plain_log_axis(axis.yaxis, (1, 2, 3, 5, 7))


def crossovers(found):
    figure, axes = subplots(len(found), 4.2 * len(found), 4.4)
    words = []
    for name, (_, rows) in found.items():
        largest = by(rows, bytes=max(r["bytes"] for r in rows))
        last = {r["algorithm"]: r["seconds"] for r in largest if r["algorithm"] != "auto"}
        best = min(last, key=last.get)
        where = TITLES.get(name, name).split(",")[0]
        words.append(f"{last['ring'] / last[best]:.1f} times as fast {where} ({NAMES[best]})")
    title(figure, f"Beside the flat ring the best all-reduce of the largest array is {', '.join(words)}")
    for axis, (name, (how, rows)) in zip(axes[0], found.items()):
        over_ring(axis, rows)
        where, _, port = TITLES.get(name, name).partition(", ")
        axis.set_title(f"{where}, p = {rows[0]['ranks']}" + (f",\n{port}" if port else ""))
    axes[0][0].set_ylabel("time, flat ring = 1")
    axes[0][0].plot([], [], color="#cccccc", linewidth=7, label="auto")
    figure_legend(figure, axes[0][0], 5)
    return figure


ALL = (crossovers,)
