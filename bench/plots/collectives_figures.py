"""The figure of the collectives beside all-reduce."""

from collectives import NAMES, PANELS, beside_library, curves, simulated
from style import COLOURS, look, plain_log_axis, size_axis, subplots, whiskers


def over_size(axis, found):
    """Bus bandwidth: seen as marks, predicted as lines."""
    for i, (name, rows) in enumerate(found.items()):
        x = [r["bytes"] for r in rows]
        axis.plot(x, [r["busbw_gb_per_s"] for r in rows], label=name, **{**look(i), "linestyle": "none"})
        axis.plot(
            x,
            [r["busbw_gb_per_s"] * r["seconds"] / r["predicted_seconds"] for r in rows],
            color=COLOURS[i % 7],
            linestyle=look(i)["linestyle"],
            linewidth=1,
        )
    size_axis(axis, x, 5)
    plain_log_axis(axis.yaxis, (1, 2, 5))
    axis.legend(fontsize=8)


def collectives(data):
    """On the machine with most ranks, then ours over MPI's own."""
    machines, measured = simulated(data), beside_library(data)
    if not machines:
        return None
    machine, rows = max(machines.items(), key=lambda item: max(r["ranks"] for r in item[1]))
    panels = len(PANELS) + bool(measured)
    figure, axes = subplots(panels, 3.9 * panels, 4.2)
    for axis, names in zip(axes[0], PANELS):
        over_size(axis, curves(rows, names))
        axis.set_title(f"{machine}, p = {rows[0]['ranks']}", fontsize=10)
    axes[0][0].set_ylabel("busbw, GB/s")
    if measured:
        last = axes[0][-1]
        for i, (name, mine) in enumerate(measured.items()):
            last.errorbar(
                [r["bytes"] for r in mine],
                [r["times_library"] for r in mine],
                yerr=whiskers(mine, "times_library"),
                capsize=2,
                label=NAMES[name],
                **look(i),
            )
        last.axhline(1, color="black", linewidth=0.8)
        size_axis(last, sorted({r["bytes"] for mine in measured.values() for r in mine}), 5)
        plain_log_axis(last.yaxis, (1, 1.2, 1.5, 2, 3, 5, 7, 8, 9))
        last.set_title(f"ours over MPI’s own, {next(iter(measured.values()))[0]['ranks']} processes", fontsize=10)
        last.legend(fontsize=8)
    return figure


ALL = (collectives,)
