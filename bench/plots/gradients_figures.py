"""The figures of week 21's extras about gradients: larger batches, and compression."""

from gradients import METHODS, OPTIMIZERS, RATES, RULES, batches, compressed, local_runs, ring_is_one, smooth, sums
from style import doubling_axis, figure_legend, look, plain_log_axis, subplots


def loss_panels(found, titles, names, samples):
    figure, axes = subplots(len(found), 5 * len(found), 4.2, sharey=True)
    for axis, (key, runs) in zip(axes[0], found.items()):
        for i, (name, rows) in enumerate(runs.items()):
            curve = smooth(rows, samples)[samples // int(rows[0]["batch"]) - 1 :]
            style = {"linewidth": 4, "alpha": 0.5} if i == 0 else {}  # others lie on it
            axis.plot(*zip(*curve), label=names[name], **{**look(i), "marker": None, **style})
        axis.set_title(titles[key], fontsize=10)
        axis.set_xlabel("sequences seen")
        axis.legend(fontsize=8)
    axes[0][0].set_ylabel(f"loss, nats per token (mean over {samples} sequences)")
    return figure


def large_batch(data):
    found = batches(data)
    return loss_panels(found, RATES, RULES, 320) if found else None


def compressed_training(data):
    found = compressed(data)
    return loss_panels(found, OPTIMIZERS, METHODS, 320) if found else None


def compressed_sums(data):
    """Bytes over those of the ring, then time on each machine."""
    machines, _ = sums(data)
    return sums_figure(machines) if machines else None


def sums_figure(machines):
    """machines: rows with their ring, by where they ran."""
    figure, axes = subplots(1 + len(machines), 4 * (1 + len(machines)), 4.0)
    most = max(machines.values(), key=len)
    panels = [("bytes that a rank sends", most, "bytes_sent_per_rank_max")]
    names = list(dict.fromkeys(name for rows in machines.values() for name in ring_is_one(rows, "seconds")))
    for name in names:  # for the legend; a method looks the same in all panels
        axes[0][0].plot([], [], label=name, **look(names.index(name)))
    panels += [(f"time, {machine}", rows, "seconds") for machine, rows in machines.items()]
    for axis, (title, rows, field) in zip(axes[0], panels):
        for name, curve in ring_is_one(rows, field).items():
            axis.plot(*zip(*curve), **look(names.index(name)))
        axis.axhline(1, color="black", linewidth=0.8)
        doubling_axis(axis, sorted({r["ranks"] for r in rows}), "ranks")
        low, high = axis.dataLim.intervaly
        plain_log_axis(axis.yaxis, (1, 1.2, 1.5, 2, 3, 5, 7, 8, 9) if high < 10 * low else (1, 2, 5))
        axis.set_title(title, fontsize=10)
    axes[0][0].set_ylabel("ring of fp32 = 1")
    figure_legend(figure, axes[0][0], min(len(names), 5))
    return figure


def bytes_and_loss(data):
    """What a rank sends a step, and the loss at the end: a point for each method, or a curve over H."""
    found = local_runs(data)
    if not found:
        return None
    figure, axes = subplots(len(found), 5 * len(found), 4.2, sharey=True)
    for axis, (ranks, rows) in zip(axes[0], found.items()):
        methods = {}
        for row in rows:
            methods.setdefault(row["method"] if row["every"] == 1 else row["method"].split(":")[0], []).append(row)
        for i, (name, mine) in enumerate(methods.items()):
            points = [(row["bytes_sent_per_step"] / 1024, row["validation_loss"]) for row in mine]
            axis.plot(*zip(*points), label=name, **look(i))
            for row, point in zip(mine, points):
                if name == "diloco":
                    axis.annotate(f"H = {row['every']}", point, textcoords="offset points", xytext=(5, 4), fontsize=7)
        axis.set_xscale("log")
        plain_log_axis(axis.xaxis)
        axis.set_title(f"{ranks} ranks", fontsize=10)
        axis.set_xlabel("KiB that a rank sends per step")
    axes[0][0].set_ylabel("validation loss, nats per token")
    figure_legend(figure, axes[0][0], 5)
    return figure


ALL = (large_batch, compressed_training, compressed_sums, bytes_and_loss)
