"""The figure of the collectives beside all-reduce."""

from collectives import NAMES, PANELS, curves
from results import bytes_text
from style import label_ends, lines, look, over, plain_log_axis, size_axis, subplots, title, whiskers


def over_size(axis, found):
    """Bus bandwidth: seen as marks, predicted as lines."""
    ends = []
    for i, (name, rows) in enumerate(found.items()):
        seen = {name.replace(", ", ",\n"): over(rows, "bytes", "busbw_gb_per_s")}
        ends += lines(axis, seen, first=i, linestyle="none")
        predicted = [(r["bytes"], r["busbw_gb_per_s"] * r["seconds"] / r["predicted_seconds"]) for r in rows]
        lines(axis, {name: predicted}, first=i, marker=None, linewidth=1)
    size_axis(axis, [x for x, _ in predicted], 2)
    plain_log_axis(axis.yaxis, (1,))
    label_ends(axis, ends)


def broadcasts_said(rows):
    """Which broadcast is fastest for the smallest array, and which for the largest."""
    found = {name: mine for name, mine in curves(rows, PANELS[1]).items()}
    first, last = ({name: mine[at]["seconds"] for name, mine in found.items()} for at in (0, -1))
    if not first:
        return ""
    small, large = min(first, key=first.get), min(last, key=last.get)
    sizes = [next(iter(found.values()))[at]["bytes"] for at in (0, -1)]
    small, large = (name.split(", ")[1] for name in (small, large))
    return f"The fastest broadcast of {bytes_text(sizes[0])} is the {small}, of {bytes_text(sizes[1])} the {large}"


def collectives(rows, measured):
    """Of one machine, then how many times as fast as MPI's own ours are."""
    panels = len(PANELS) + bool(measured)
    figure, axes = subplots(panels, 3.9 * panels, 3.6)
    title(figure, broadcasts_said(rows))
    for axis, names in zip(axes[0], PANELS):
        over_size(axis, curves(rows, names))
        axis.set_title(f"{rows[0]['machine']}, p = {rows[0]['ranks']}", loc="left", fontsize=10)
        axis.set_ylabel("busbw, GB/s")
    if measured:
        last, ends = axes[0][-1], []
        for i, (name, mine) in enumerate(measured.items()):
            points, spread = over(mine, "bytes", "times_library"), whiskers(mine, "times_library")
            last.errorbar(*zip(*points), yerr=spread, capsize=2, **look(i))
            ends.append((*points[-1], NAMES[name], look(i)["color"]))
        last.axhline(1, color="black", linewidth=0.8)
        size_axis(last, sorted({r["bytes"] for mine in measured.values() for r in mine}), 4)
        plain_log_axis(last.yaxis, (1, 1.2, 1.5, 2, 3, 5, 7, 8, 9))
        ranks = next(iter(measured.values()))[0]["ranks"]
        last.set_title(f"measured: {ranks} processes", loc="left", fontsize=10)
        last.set_ylabel("times as fast as MPI’s own")
        label_ends(last, ends)
    return figure


ALL = (collectives,)
