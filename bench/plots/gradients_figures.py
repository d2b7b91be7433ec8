"""The figures of week 21's extras about gradients: larger batches, and compression."""

from gradients import METHODS, OPTIMIZERS, RATES, RULES, ring_is_one, smooth
from style import ON_WHITE, doubling_axis, figure_legend, ink, label_ends, look, plain_log_axis, subplots, title


def loss_panels(found, titles, names, samples):
    """A panel for each group of runs, their losses over the sequences seen; beside each curve its name and its end."""
    figure, axes = subplots(len(found), 5 * len(found), 4.8, sharey=True)
    labels, last = [], {}
    for axis, (key, runs) in zip(axes[0], found.items()):
        ends = []
        for i, (name, rows) in enumerate(runs.items()):
            curve = smooth(rows, samples)[samples // int(rows[0]["batch"]) - 1 :]
            style = {"linewidth": 4, "alpha": 0.5} if i == 0 else {}  # others lie on it
            axis.plot(*zip(*curve), label=names[name], **{**look(i), "marker": None, **style})
            last[key, name] = curve[-1][1]
            ends.append((*curve[-1], f"{curve[-1][1]:.2f}", look(i)["color"]))
        axis.set_title(titles[key])
        axis.set_xlabel("sequences seen")
        axis.set_xlim(0, curve[-1][0])
        labels.append((axis, ends))
    axes[0][0].set_ylabel("loss, nats per token")
    return figure, axes, labels, last


def beside(nats):
    """'0.16 nats above': a loss less another one."""
    return f"{abs(nats):.2f} nats {'above' if nats >= 0 else 'below'}"


def finish(figure, axes, labels, sentence):
    title(figure, sentence)
    figure_legend(figure, axes[0][0], 3)
    for axis, ends in labels:
        label_ends(axis, ends)
    return figure


def large_batch(found):
    figure, axes, labels, last = loss_panels(found, RATES, RULES, 320)
    key = list(found)[-1]
    names = [name for name in found[key] if name != "small"]
    best = min(names, key=lambda name: last[key, name])
    sentence = (
        f"After equally many sequences batches of 8 end at {last[key, 'small']:.2f} nats, and the best of 64"
        f" ({RULES[best].removeprefix('64, ')}) at {last[key, best]:.2f}"
        if ("small" in found[key] and names)
        else ""
    )
    return finish(figure, axes, labels, sentence)


def compressed_training(found):
    figure, axes, labels, last = loss_panels(found, OPTIMIZERS, METHODS, 320)
    key = next(iter(found))
    sentence = (
        "Top-k that forgets what it did not send ends"
        f" {beside(last[key, 'topk_forgets'] - last[key, 'none'])} plain sums, with error feedback"
        f" {beside(last[key, 'topk'] - last[key, 'none'])} ({OPTIMIZERS[key]})"
        if {"none", "topk", "topk_forgets"} <= set(found[key])
        else ""
    )
    return finish(figure, axes, labels, sentence)


def fastest(machines):
    """'0.17 on 64 ranks of pcie-box-10gbe (topk:0.001)': of each machine at its most ranks."""
    words = []
    for machine, rows in machines.items():
        most = max(r["ranks"] for r in rows)
        last = {name: dict(curve)[most] for name, curve in ring_is_one(rows, "seconds").items() if most in dict(curve)}
        if last:
            best = min(last, key=last.get)
            words.append(f"{last[best]:.2f} on {most} ranks of {machine} ({best})")
    return words


def compressed_sums(machines):
    """Bytes over those of the ring, then time on each machine. machines: rows with their ring, by where they ran."""
    figure, axes = subplots(1 + len(machines), 4 * (1 + len(machines)), 4.2)
    title(figure, f"Of the time of a ring of fp32 the fastest compressed sum takes {', '.join(fastest(machines))}")
    most = max(machines.values(), key=len)
    panels = [("bytes that a rank sends", most, "bytes_sent_per_rank_max")]
    names = list(dict.fromkeys(name for rows in machines.values() for name in ring_is_one(rows, "seconds")))
    for name in names:  # for the legend; a method looks the same in all panels
        axes[0][0].plot([], [], label=name, **look(names.index(name)))
    panels += [(f"time, {machine}", rows, "seconds") for machine, rows in machines.items()]
    for axis, (words, rows, field) in zip(axes[0], panels):
        for name, curve in ring_is_one(rows, field).items():
            axis.plot(*zip(*curve), **look(names.index(name)))
        axis.axhline(1, color="black", linewidth=0.8)
        doubling_axis(axis, sorted({r["ranks"] for r in rows}), "ranks")
        low, high = axis.dataLim.intervaly
        plain_log_axis(axis.yaxis, (1, 1.2, 1.5, 2, 3, 5, 7, 8, 9) if high < 10 * low else (1, 2, 5))
        axis.set_title(words)
    axes[0][0].set_ylabel("relative to a ring of fp32")
    figure_legend(figure, axes[0][0], 6)
    return figure


def bytes_and_loss(found):
    """What a rank sends a step, and the loss at the end: a point for each method, or a curve over H."""
    figure, axes = subplots(len(found), 5 * len(found), 4.4, sharey=True)
    words = []
    letters = {"textcoords": "offset points", "fontsize": 10, "bbox": ON_WHITE}
    for axis, (ranks, rows) in zip(axes[0], found.items()):
        methods, ends = {}, []
        for row in rows:
            methods.setdefault(row["method"] if row["every"] == 1 else row["method"].split(":")[0], []).append(row)
        for i, (name, mine) in enumerate(methods.items()):
            points = [(row["bytes_sent_per_step"] / 1024, row["validation_loss"]) for row in mine]
            axis.plot(*zip(*points), **look(i))
            for row, point in zip(mine, points):
                if row["every"] > 1 and name == "diloco":
                    axis.annotate(f"H = {row['every']}", point, xytext=(0, 6), **letters)
            ends.append((*max(points), name, look(i)["color"]))
        ddp = [row for row in rows if row["method"] == "ddp"]
        least = min(rows, key=lambda row: row["bytes_sent_per_step"])
        if ddp:
            words.append(
                f"on {ranks} ranks {least['method'].replace(':', ' ')} sends"
                f" 1/{ddp[0]['bytes_sent_per_step'] / least['bytes_sent_per_step']:.0f} of DDP’s bytes and ends"
                f" {beside(least['validation_loss'] - ddp[0]['validation_loss'])} it"
            )
        axis.set_xscale("log")
        axis.margins(x=0.12)
        plain_log_axis(axis.xaxis)
        axis.set_title(f"{ranks} ranks")
        axis.set_xlabel("KiB that a rank sends per step")
        for x, y, name, colour in ends:
            axis.annotate(name, (x, y), xytext=(0, -14), color=ink(colour), ha="center", **letters)
        axis.margins(y=0.12)
    if words:
        title(figure, f"Fewer bytes cost loss: {'; '.join(words)}")
    axes[0][0].set_ylabel("validation loss, nats per token")
    return figure


ALL = (large_batch, compressed_training, compressed_sums, bytes_and_loss)
