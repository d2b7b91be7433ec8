"""The figures of week 23: tensor parallelism."""

from results import by, load, load_all, load_csv
from sources import span
from style import COLOURS, HATCHES, Drawing, abreast, doubling_axis, look, losses_figure, plain_log_axis, subplots

VARIANTS = {
    "compute": "nothing sent",
    "no_overlap": "all-reduces on main",
    "overlap": "all-reduces beside dW",
    "sequence_parallel": "rows sharded too",
}


def steps(results, **wanted):
    return by(results["rows"], **{"pass": "step", **wanted})


def share(axis, results, name, i):
    """Communication's share over d_model: simulated as a curve, predicted as dots in it."""
    rows = steps(results, algorithm="no_overlap")
    for k, p in enumerate(sorted({r["ranks"] for r in rows})):
        mine = by(rows, ranks=p)
        x = [r["d_model"] for r in mine]
        axis.plot(x, [100 * r["communication_share"] for r in mine], label=f"{name}, p = {p}", **look(i + k))
        axis.plot(
            x,
            [100 * r["predicted_communication_share"] for r in mine],
            linestyle="none",
            marker=".",
            markersize=3,
            color="white",
        )
    doubling_axis(axis, x, "d_model")


def tp_share(data):
    """Left and middle: machines of the simulator. Right: the same by wall clock, beside the simulator's."""
    machines = load_all(data, "tp_width")
    if not machines:
        return None
    emulated, twins = load_all(data, "tp_emulated"), load_all(data, "tp_twin")
    figure, axes = subplots(3 if emulated else 2, 12 if emulated else 9, 4.2, sharey=True)
    for axis, title, chosen in (
        (axes[0][0], "PCIe, simulated", ["pcie-box"]),
        (axes[0][1], "NVLink, simulated", ["dgx-a100", "dgx-h100"]),
    ):
        for i, machine in enumerate(m for m in chosen if m in machines):
            share(axis, machines[machine], machine, 3 * i)
        axis.set_title(title)
        axis.legend(fontsize=7.5, ncols=2 if Drawing.layout.stacked else 1)
    for i, (name, results) in enumerate(emulated.items()):
        rows, twin = steps(results, algorithm="no_overlap"), steps(twins[name], algorithm="no_overlap")
        machine, ranks = rows[0]["machine"], rows[0]["ranks"]
        axes[0][2].plot(
            [r["d_model"] for r in twin], [100 * r["communication_share"] for r in twin], **{**look(i), "marker": None}
        )
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
            label=f"{machine}, p = {ranks}, n = {span([r['samples'] for r in rows])}",
            **{**look(i), "linestyle": "none", "markersize": 7},
        )
    if emulated:
        axes[0][2].set_title("emulated (lines: simulated)")
        doubling_axis(axes[0][2], [r["d_model"] for r in rows], "d_model")
        axes[0][2].legend(fontsize=7.5, ncols=2 if Drawing.layout.stacked else 1)
    axes[0][0].set_ylim(0, 150)  # above 100 stand the legends
    axes[0][0].set_yticks(range(0, 101, 20))
    axes[0][0].set_ylabel("communication, % of a step")
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
    axis.set_xticklabels(groups, fontsize=8.5)


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
    axes[0][0].set_ylabel("a step over its computing alone")
    axes[0][0].set_title("simulated, d_model 2,048")
    if emulated:
        bars(
            axes[0][1],
            {
                f"{rows[0]['machine']}\np = {rows[0]['ranks']}": rows
                for rows in (steps(r, d_model=128) for r in emulated.values())
            },
        )
        axes[0][1].set_title("by wall clock (emulated), d_model 128")
    for axis in axes[0]:
        axis.margins(y=0.28)
        axis.legend(fontsize=7.5, ncols=abreast(3), loc="upper center")
    return figure


def tp_nodes(data):
    """Strong scaling of one step, inside a node and beyond."""
    clusters = load_all(data, "tp_nodes")
    if not clusters:
        return None
    figure, axes = subplots(len(clusters), 5 * len(clusters), 4.0, sharey=True)
    for axis, (machine, results) in zip(axes[0], clusters.items()):
        for k, (variant, label) in enumerate(VARIANTS.items()):
            rows = steps(results, algorithm=variant)
            axis.plot([r["ranks"] for r in rows], [1e3 * r["seconds"] for r in rows], label=label, **look(k))
        axis.axvspan(8 * 2**0.5, 32 * 2**0.2, color="#eeeeee", zorder=0)
        axis.annotate(
            "across nodes",
            (16 * 2**0.5, 0.02),
            xycoords=("data", "axes fraction"),
            ha="center",
            fontsize=8,
            color="#555555",
        )
        doubling_axis(axis, [1, 2, 4, 8, 16, 32], "ranks that share each layer")
        plain_log_axis(axis.yaxis)
        axis.set_title(f"{machine}, d_model {rows[0]['d_model']:,}, simulated", fontsize=10)
    axes[0][0].set_ylabel("step, ms")
    axes[0][0].legend(fontsize=8)
    return figure


CUTS = {"contiguous": "contiguous", "zigzag": "zig-zag"}


def tp_ring(data):
    """Ring attention over the sequence's length: left time, right memory."""
    results = load(data, "tp_ring")
    if not results:
        return None
    figure, axes = subplots(2, 10, 4.0)
    forward = by(results["rows"], **{"pass": "forward"})
    for k, (cut, label) in enumerate(CUTS.items()):
        rows = by(forward, algorithm=cut)
        x = [r["positions"] for r in rows]
        axes[0][0].plot(x, [1e3 * r["seconds"] for r in rows], label=f"{label}, forward", **look(k))
        axes[0][0].plot(
            x, [1e3 * r["predicted_seconds"] for r in rows], linestyle="none", marker=".", markersize=3, color="white"
        )
    for k, each in enumerate(("forward", "backward")):
        rows = by(results["rows"], algorithm="zigzag", **{"pass": each})
        axes[0][1].plot(x, [r["peak_bytes"] / 2**20 for r in rows], label=f"{each}, either split", **look(k + 2))
        axes[0][1].plot(
            x,
            [r["predicted_peak_bytes"] / 2**20 for r in rows],
            linestyle="none",
            marker=".",
            markersize=3,
            color="white",
        )
    for axis, unit in zip(axes[0], ("one layer's attention, ms", "a rank holds at most, MiB")):
        doubling_axis(axis, x, "positions of the sequence")
        plain_log_axis(axis.yaxis)
        axis.set_ylabel(unit)
        axis.legend(fontsize=8)
    return figure


def tp_training(data):
    return losses_figure(
        load_csv(data, "train_tp_serial"),
        {"--tp 4": load_csv(data, "train_tp_4"), "--tp 4 --sequence-parallel": load_csv(data, "train_tp_4_rows")},
    )


ALL = (tp_share, tp_overlap, tp_nodes, tp_ring, tp_training)
