"""The figures of week 23: tensor parallelism."""

from results import by, load, load_all, load_csv
from style import (
    COLOURS,
    HATCHES,
    SOFT,
    doubling_axis,
    figure_legend,
    label_ends,
    look,
    losses_figure,
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


def steps(results, **wanted):
    return by(results["rows"], **{"pass": "step", **wanted})


def share(axis, results, name, i):
    """Communication's share over d_model: simulated as a curve, predicted as dots in it. Returns the curves' ends."""
    rows, ends = steps(results, algorithm="no_overlap"), []
    for k, p in enumerate(sorted({r["ranks"] for r in rows})):
        mine = by(rows, ranks=p)
        x, y = [r["d_model"] for r in mine], [100 * r["communication_share"] for r in mine]
        axis.plot(x, y, **look(i + k))
        axis.plot(
            x,
            [100 * r["predicted_communication_share"] for r in mine],
            linestyle="none",
            marker=".",
            markersize=3,
            color="white",
        )
        ends.append((x[-1], y[-1], f"{name}p = {p}", look(i + k)["color"]))
    doubling_axis(axis, x, "d_model")
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


def tp_share(data):
    """Left and middle: machines of the simulator. Right: the same by wall clock, beside the simulator's."""
    machines = load_all(data, "tp_width")
    if not machines:
        return None
    emulated, twins = load_all(data, "tp_emulated"), load_all(data, "tp_twin")
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
        machine, ranks = rows[0]["machine"], rows[0]["ranks"]
        x, simulated = [r["d_model"] for r in twin], [100 * r["communication_share"] for r in twin]
        axes[0][2].plot(x, simulated, **{**look(i), "marker": None})
        share_at = lambda r, seconds: 100 * max(0.0, 1 - r["compute_seconds"] / seconds)
        shares = [share_at(r, r["seconds"]) for r in rows]
        spread = [
            [s - share_at(r, r["seconds_low"]) for s, r in zip(shares, rows)],
            [share_at(r, r["seconds_high"]) - s for s, r in zip(shares, rows)],
        ]
        axes[0][2].errorbar(
            [r["d_model"] * 2 ** (0.05 * i - 0.08) for r in rows],
            shares,
            yerr=spread,
            capsize=3,
            elinewidth=1,
            **{**look(i), "linestyle": "none", "markersize": 7},
        )
        ends.append((x[-1], simulated[-1], f"{machine},\np = {ranks}", look(i)["color"]))
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
        rows = [by(rows, algorithm=variant)[0] for rows in groups.values()]
        x = [i + 0.2 * (k - 1.5) for i in range(len(rows))]
        axis.bar(
            x,
            [r["seconds"] / r["compute_seconds"] for r in rows],
            0.19,
            color=COLOURS[k],
            alpha=0.85,
            hatch=HATCHES[k],
            edgecolor="white",
            label=label,
        )
        spread = [(at, r) for at, r in zip(x, rows) if r.get("seconds_low") and r["seconds_high"] > r["seconds_low"]]
        for at, r in spread:
            low, value, high = (r[f"seconds{end}"] / r["compute_seconds"] for end in ("_low", "", "_high"))
            axis.errorbar([at], [value], yerr=[[value - low], [high - value]], color="#444444", capsize=2, linewidth=1)
        marks = [
            (at, r["predicted_seconds"] / r["compute_seconds"]) for at, r in zip(x, rows) if r["predicted_seconds"]
        ]
        (
            axis.plot(
                *zip(*marks),
                linestyle="none",
                marker="_",
                markersize=9,
                color="black",
                label="predicted" if k == 2 else None,
            )
            if marks
            else None
        )
    axis.set_xticks(range(len(groups)))
    axis.set_xticklabels(groups)


def tp_overlap(data):
    machines, emulated = load_all(data, "tp_width"), load_all(data, "tp_emulated")
    if not machines:
        return None
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
        bars(
            axes[0][1],
            {
                f"{rows[0]['machine']}\np = {rows[0]['ranks']}": rows
                for rows in (steps(r, d_model=128) for r in emulated.values())
            },
        )
        axes[0][1].set_title("by wall clock (emulated), d_model 128")
    figure_legend(figure, axes[0][0], 5)
    return figure


def tp_nodes(data):
    """Strong scaling of one step, inside a node and beyond."""
    clusters = load_all(data, "tp_nodes")
    if not clusters:
        return None
    figure, axes = subplots(len(clusters), 5 * len(clusters), 4.2, sharey=True)
    words = []
    for axis, (machine, results) in zip(axes[0], clusters.items()):
        ends = []
        for k, (variant, label) in enumerate(VARIANTS.items()):
            rows = steps(results, algorithm=variant)
            x, y = [r["ranks"] for r in rows], [1e3 * r["seconds"] for r in rows]
            axis.plot(x, y, **look(k))
            ends.append((x[-1], y[-1], label, look(k)["color"]))
            if variant == "no_overlap" and {8, 16} <= set(x):
                words.append(f"{y[x.index(16)] / y[x.index(8)]:.1f} times on {machine}")
        axis.axvspan(8 * 2**0.5, 32 * 2**0.2, color="#eeeeee", zorder=0)
        axis.annotate(
            "across\nnodes",
            (16 * 2**0.5, 0.02),
            xycoords=("data", "axes fraction"),
            ha="center",
            fontsize=10,
            color=SOFT,
        )
        doubling_axis(axis, [1, 2, 4, 8, 16, 32], "ranks that share each layer")
        plain_log_axis(axis.yaxis)
        axis.set_title(f"{machine}, d_model {rows[0]['d_model']:,}")
    if words:
        title(figure, f"16 ranks in two nodes take longer for a step than 8 in one: {', '.join(words)}")
    axes[0][0].set_ylabel("step, ms")
    label_ends(axes[0][-1], ends)
    return figure


CUTS = {"contiguous": "contiguous", "zigzag": "zig-zag"}


def tp_ring(data):
    """Ring attention over the sequence's length: left time, right memory."""
    results = load(data, "tp_ring")
    if not results:
        return None
    figure, axes = subplots(2, 10, 4.0)
    forward = by(results["rows"], **{"pass": "forward"})
    ends, last = ([], []), {}
    for k, (cut, label) in enumerate(CUTS.items()):
        rows = by(forward, algorithm=cut)
        x, y = [r["positions"] for r in rows], [1e3 * r["seconds"] for r in rows]
        axes[0][0].plot(x, y, **look(k))
        axes[0][0].plot(
            x, [1e3 * r["predicted_seconds"] for r in rows], linestyle="none", marker=".", markersize=3, color="white"
        )
        ends[0].append((x[-1], y[-1], label, look(k)["color"]))
        last[cut] = y[-1]
    for k, each in enumerate(("forward", "backward")):
        rows = by(results["rows"], algorithm="zigzag", **{"pass": each})
        y = [r["peak_bytes"] / 2**20 for r in rows]
        axes[0][1].plot(x, y, **look(k + 2))
        axes[0][1].plot(
            x,
            [r["predicted_peak_bytes"] / 2**20 for r in rows],
            linestyle="none",
            marker=".",
            markersize=3,
            color="white",
        )
        ends[1].append((x[-1], y[-1], each, look(k + 2)["color"]))
    title(
        figure,
        f"At {x[-1]:,} positions the zig-zag split takes {100 * last['zigzag'] / last['contiguous']:.0f} % of the"
        " contiguous one’s time",
    )
    for axis, unit, words in zip(
        axes[0], ("one layer's attention, ms", "a rank holds at most, MiB"), ("forward", "either split")
    ):
        doubling_axis(axis, x, "positions of the sequence")
        plain_log_axis(axis.yaxis)
        axis.set_ylabel(unit)
        axis.set_title(words)
    for axis, named in zip(axes[0], ends):
        label_ends(axis, named)
    return figure


def tp_training(data):
    return losses_figure(
        load_csv(data, "train_tp_serial"),
        {"--tp 4": load_csv(data, "train_tp_4"), "--tp 4 --sequence-parallel": load_csv(data, "train_tp_4_rows")},
    )


ALL = (tp_share, tp_overlap, tp_nodes, tp_ring, tp_training)
