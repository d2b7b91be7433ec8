"""The figures of week 23: tensor parallelism."""

from results import by
from style import (
    SOFT,
    doubling_axis,
    figure_legend,
    filled,
    label_ends,
    lines,
    look,
    marks,
    over,
    plain_log_axis,
    subplots,
    title,
)

VARIANTS = {
    "compute": "nothing sent",
    "no_overlap": "all-reduces on main",
    "overlap": "all-reduces beside dW",
    "sequence_parallel": "rows sharded too",
}
WHITE = {"marker": ".", "size": 3, "color": "white"}  # predictions, as dots in a curve's points


def steps(results, **wanted):
    return by(results["rows"], **{"pass": "step", **wanted})


def share(axis, results, name, i):
    """Communication's share over d_model: simulated as a curve, predicted as dots in it. Returns the curves' ends."""
    rows, ends = steps(results, algorithm="no_overlap"), []
    for k, p in enumerate(sorted({r["ranks"] for r in rows}), i):
        mine = by(rows, ranks=p)
        points = over(mine, "d_model", "communication_share", 100)
        ends += lines(axis, {f"{name}p = {p}": points}, first=k)
        marks(axis, over(mine, "d_model", "predicted_communication_share", 100), **WHITE)
    doubling_axis(axis, [x for x, _ in points], "d_model")
    return ends


def share_said(machines, d_model=4096):
    """'66 % of a step on 4 ranks of pcie-box, …' of each machine at its most ranks."""
    words = []
    for machine, results in machines.items():
        rows = [r for r in steps(results, algorithm="no_overlap") if r["d_model"] == d_model]
        if rows:
            last = max(rows, key=lambda r: r["ranks"])
            words.append((last["communication_share"], last["ranks"], machine))
    said = [f"{100 * value:.0f} % on {p} ranks of {machine}" for value, p, machine in sorted(words)[::-1]]
    return f"Communication’s share of a step at d_model {d_model:,}: {', '.join(said)}" if said else ""


def tp_share(machines, emulated, twins):
    """Left and middle: machines of the simulator. Right: the same by wall clock, beside the simulator's."""
    figure, axes = subplots(3 if emulated else 2, 12 if emulated else 9, 4.4, sharey=True)
    title(figure, share_said(machines))
    labels = []
    for axis, words, chosen in (
        (axes[0][0], "PCIe, simulated", ["pcie-box"]),
        (axes[0][1], "NVLink, simulated", ["dgx-a100", "dgx-h100"]),
    ):
        ends = []
        for i, machine in enumerate(m for m in chosen if m in machines):
            name = f"{machine.split('-')[-1].upper()}, " if len(chosen) > 1 else ""
            ends += share(axis, machines[machine], name, 3 * i)
        axis.set_title(words)
        labels.append((axis, ends))
    ends = []
    for i, (name, results) in enumerate(emulated.items()):
        rows, twin = steps(results, algorithm="no_overlap"), steps(twins[name], algorithm="no_overlap")
        label = f"{rows[0]['machine']},\np = {rows[0]['ranks']}"
        ends += lines(axes[0][2], {label: over(twin, "d_model", "communication_share", 100)}, first=i, marker=None)
        share_at = lambda r, seconds: 100 * max(0.0, 1 - r["compute_seconds"] / seconds)
        shares = [share_at(r, r["seconds"]) for r in rows]
        spread = [
            [s - share_at(r, r["seconds_low"]) for s, r in zip(shares, rows)],
            [share_at(r, r["seconds_high"]) - s for s, r in zip(shares, rows)],
        ]
        places = [r["d_model"] * 2 ** (0.05 * i - 0.08) for r in rows]
        style = {**look(i), "linestyle": "none", "markersize": 7}
        axes[0][2].errorbar(places, shares, yerr=spread, capsize=3, elinewidth=1, **style)
    if emulated:
        axes[0][2].set_title("emulated (lines: sim.)")
        doubling_axis(axes[0][2], [r["d_model"] for r in rows], "d_model")
        labels.append((axes[0][2], ends))
    axes[0][0].set_ylim(0, 100)
    axes[0][0].set_yticks(range(0, 101, 20))
    axes[0][0].set_ylabel("communication, % of a step")
    for axis, ends in labels:
        label_ends(axis, ends)
    return figure


def bars(axis, groups):
    """A bar for each variant of a step, in units of the computing alone; dashes where one was predicted."""
    for k, (variant, label) in enumerate(VARIANTS.items()):
        rows = {i + 0.2 * (k - 1.5): by(rows, algorithm=variant)[0] for i, rows in enumerate(groups.values())}
        values = [r["seconds"] / r["compute_seconds"] for r in rows.values()]
        axis.bar(list(rows), values, 0.19, alpha=0.85, label=label, **filled(k))
        for at, r in rows.items():
            if r.get("seconds_low") and r["seconds_high"] > r["seconds_low"]:
                low, value, high = (r[f"seconds{end}"] / r["compute_seconds"] for end in ("_low", "", "_high"))
                spread = {"yerr": [[value - low], [high - value]], "color": "#444444", "capsize": 2, "linewidth": 1}
                axis.errorbar([at], [value], **spread)
        predicted = [
            (at, r["predicted_seconds"] / r["compute_seconds"]) for at, r in rows.items() if r["predicted_seconds"]
        ]
        marks(axis, predicted, "_", 9, label="predicted" if k == 2 else None)
    axis.set_xticks(range(len(groups)))
    axis.set_xticklabels(groups)


def tp_overlap(machines, emulated):
    figure, axes = subplots(2 if emulated else 1, 11 if emulated else 6, 4.0)
    groups = {}
    for machine, results in machines.items():
        rows = steps(results, d_model=2048)
        p = max(r["ranks"] for r in rows)
        groups[f"{machine}\np = {p}"] = by(rows, ranks=p)
    bars(axes[0][0], groups)
    axes[0][0].set_ylabel("a step, computing alone = 1")
    axes[0][0].set_title("simulated, d_model 2,048")
    worst = max(
        (rows for rows in groups.values()),
        key=lambda rows: by(rows, algorithm="no_overlap")[0]["seconds"] / rows[0]["compute_seconds"],
    )
    beside, main = (by(worst, algorithm=name)[0] for name in ("overlap", "no_overlap"))
    hidden = (main["seconds"] - beside["seconds"]) / (main["seconds"] - main["compute_seconds"])
    title(
        figure,
        f"On {main['ranks']} ranks of {main['machine']} communication makes a step"
        f" {main['seconds'] / main['compute_seconds']:.1f} times as long as its computing; overlap hides"
        f" {100 * hidden:.0f} % of it",
    )
    if emulated:
        rows = [steps(results, d_model=128) for results in emulated.values()]
        bars(axes[0][1], {f"{mine[0]['machine']}\np = {mine[0]['ranks']}": mine for mine in rows})
        axes[0][1].set_title("by wall clock (emulated), d_model 128")
    figure_legend(figure, axes[0][0], 5)
    return figure


def tp_nodes(clusters):
    """Strong scaling of one step, inside a node and beyond."""
    figure, axes = subplots(len(clusters), 5 * len(clusters), 4.2, sharey=True)
    words = []
    for axis, (machine, results) in zip(axes[0], clusters.items()):
        found = {
            label: over(steps(results, algorithm=variant), "ranks", "seconds", 1e3)
            for variant, label in VARIANTS.items()
        }
        ends, times = lines(axis, found), dict(found[VARIANTS["no_overlap"]])
        if {8, 16} <= times.keys():
            words.append(f"{times[16] / times[8]:.1f} times on {machine}")
        axis.axvspan(8 * 2**0.5, 32 * 2**0.2, color="#eeeeee", zorder=0)
        place = {"xycoords": ("data", "axes fraction"), "ha": "center", "fontsize": 10, "color": SOFT}
        axis.annotate("across\nnodes", (16 * 2**0.5, 0.45), **place)
        doubling_axis(axis, [1, 2, 4, 8, 16, 32], "ranks that share each layer")
        plain_log_axis(axis.yaxis)
        axis.set_title(f"{machine}, d_model {steps(results)[0]['d_model']:,}")
    if words:
        title(figure, f"16 ranks in two nodes take longer for a step than 8 in one: {', '.join(words)}")
    axes[0][0].set_ylabel("step, ms")
    label_ends(axes[0][-1], ends)
    return figure


SPLITS = {"contiguous": "contiguous", "zigzag": "zig-zag"}


def tp_ring(rows):
    """Ring attention over the sequence's length: left time, right memory."""
    figure, ((time, memory),) = subplots(2, 10, 4.0)
    times, peaks = [], []

    def curve(axis, label, k, mine, field, scale):
        points = over(mine, "positions", field, scale)
        ends = lines(axis, {label: points}, first=k)
        marks(axis, over(mine, "positions", f"predicted_{field}", scale), **WHITE)
        return ends

    for k, (split, label) in enumerate(SPLITS.items()):
        times += curve(time, label, k, by(rows, algorithm=split, **{"pass": "forward"}), "seconds", 1e3)
    for k, each in enumerate(("forward", "backward"), 2):
        peaks += curve(memory, each, k, by(rows, algorithm="zigzag", **{"pass": each}), "peak_bytes", 2**-20)
    last = {label: y for _, y, label, _ in times}
    title(
        figure,
        f"At {times[-1][0]:,} positions the zig-zag split takes {100 * last['zig-zag'] / last['contiguous']:.0f} % of"
        " the contiguous one’s time",
    )
    ticks = sorted({r["positions"] for r in rows})
    for axis, unit, words in (
        (time, "one layer's attention, ms", "forward"),
        (memory, "a rank holds at most, MiB", "either split"),
    ):
        doubling_axis(axis, ticks, "positions of the sequence")
        plain_log_axis(axis.yaxis)
        axis.set_ylabel(unit)
        axis.set_title(words)
    for axis, ends in ((time, times), (memory, peaks)):
        label_ends(axis, ends)
    return figure


ALL = (tp_share, tp_overlap, tp_nodes, tp_ring)
