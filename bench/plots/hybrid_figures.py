"""The figure of week 22's extra about hybrid sharding (22.8)."""

from results import by, load_all
from style import COLOURS, HATCHES, figure_legend, subplots, title


def hybrid_rows(data):
    """By machine: the rows of bench hsdp."""
    return {machine: results["rows"] for machine, results in load_all(data, "hsdp_sim").items()}


def hybrid_sharding(data):
    """A step's seconds under full and hybrid sharding, a panel for each machine."""
    found = hybrid_rows(data)
    if not found:
        return None
    methods = list(dict.fromkeys(r["method"] for rows in found.values() for r in rows))
    figure, axes = subplots(len(found), 4 * len(found), 4.0)
    words = []
    for axis, (machine, rows) in zip(axes[0], found.items()):
        counts = sorted({r["microbatches"] for r in rows})
        here = [m for m in methods if by(rows, method=m)]
        for i, method in enumerate(here):
            mine = {r["microbatches"]: r for r in by(rows, method=method)}
            places = [k + 0.8 * (i + 0.5) / len(here) - 0.4 for k in range(len(counts))]
            look = {
                "color": COLOURS[methods.index(method)],
                "hatch": HATCHES[methods.index(method)],
                "edgecolor": "white",
            }
            axis.bar(places, [mine[m]["seconds"] for m in counts], 0.75 / len(here), **look)
        axis.set_xticks(range(len(counts)))
        axis.set_xticklabels([f"m = {m}" for m in counts])
        axis.set_title(f"{machine},\np = {rows[0]['ranks']}")
        last = {r["method"]: r["seconds"] for r in by(rows, microbatches=counts[-1])}
        best = min(last, key=last.get)
        times = f" ({last['full'] / last[best]:.1f} times as fast as full)" if best != "full" else ""
        words.append(f"{best} on {machine}{times}")
    title(figure, f"Which sharding is fastest depends on the network: {', '.join(words)}")
    for i, method in enumerate(methods):  # for the legend; a method looks the same in all panels
        axes[0][0].bar([0], [0], color=COLOURS[i], hatch=HATCHES[i], edgecolor="white", label=method)
    axes[0][0].set_ylabel("seconds of a step")
    figure_legend(figure, axes[0][0], 4)
    return figure


ALL = (hybrid_sharding,)
