"""The figures of week 22: what ZeRO and recomputation hold and cost, and mixed precision."""

from results import by, bytes_text
from style import (
    COLOURS,
    figure_legend,
    filled,
    label_ends,
    lines,
    look,
    marks,
    stacked_columns,
    subplots,
    title,
)


def activations(modes, parts):
    """Peak bytes of activations, part by part, and the time and FLOP that recomputation costs."""
    figure, ((held, cost),) = subplots(2, 10, 4.2)
    names = {"attention's statistics": "attention", "probabilities": "attention"}
    kinds = list(dict.fromkeys(names.get(r["part"], r["part"]) for r in parts))

    def gibibytes(mode, kind):
        mine = by(parts, attention=mode["attention"], recompute=mode["recompute"])
        return sum(p["predicted_bytes"] for p in mine if names.get(p["part"], p["part"]) == kind) / 2**30

    titles = {"attention": "probabilities, or statistics"}
    stacked_columns(held, {titles.get(kind, kind): [gibibytes(m, kind) for m in modes] for kind in kinds}, 0.7)
    peaks = [(i, m["measured_bytes"] / 2**30) for i, m in enumerate(modes)]
    marks(held, peaks, "_", 24, label="peak in the ledger")
    held.set_ylabel("activations, GiB")
    first = modes[0]
    held.set_title(
        f"{first['model']}, {first['dtype']}, {first['batch_sequences']} × {first['sequence_tokens']} tokens"
    )
    most, least = (pick(modes, key=lambda m: m["measured_bytes"]) for pick in (max, min))
    title(
        figure,
        f"Recomputation shrinks activations from {bytes_text(most['measured_bytes'])} to"
        f" {bytes_text(least['measured_bytes'])}, and a step takes"
        f" {100 * (least['relative_seconds'] - 1):.0f} % longer",
    )
    base = {m["attention"]: m["flop"] for m in modes if m["recompute"] == "none"}
    x = range(len(modes))
    flop = [100 * (m["flop"] / base[m["attention"]] - 1) for m in modes]
    time = [100 * (m["relative_seconds"] - 1) for m in modes]
    cost.bar([i - 0.18 for i in x], flop, 0.34, color=COLOURS[0], hatch="//", edgecolor="white", label="FLOP, counted")
    cost.bar(
        [i + 0.18 for i in x], time, 0.34, color=COLOURS[1], edgecolor="white", label=f"time on {first['machine']}"
    )
    cost.set_ylabel("added by recomputation, %")
    cost.set_title("its cost, forward and backward")
    cost.set_ylim(0, 1.3 * cost.dataLim.ymax)  # room for the legend
    cost.legend(loc="upper left")
    figure_legend(figure, held, 3)
    broken = lambda name: name.replace("selective", "selec-\ntive").replace("materialised", "material-\nised")
    for axis in (held, cost):
        axis.set_xticks(list(x))
        axis.set_xticklabels([broken(f"{m['attention']}\n{m['recompute']}") for m in modes])
        axis.set_xlabel("attention, recomputation")
    return figure


PRECISIONS = {
    "fp32": "fp32",
    "bf16": "bf16",
    "fp16": "fp16, scale from 2¹⁶",
    "fp16_low": "fp16, scale fixed at 2⁻¹⁷",
    "fp16_low_grows": "fp16, scale from 2⁻¹⁷, may grow",
}


def precision(runs):
    """Losses in fp32, bf16 and fp16 with and without a scale that moves; and that scale."""
    figure, ((training, scale),) = subplots(2, 10, 4.0)
    for i, (name, rows) in enumerate(runs.items()):
        steps = [int(r["step"]) for r in rows]
        losses = [float(r["loss"]) for r in rows]
        smooth = [sum(losses[max(0, k - 9) : k + 1]) / len(losses[max(0, k - 9) : k + 1]) for k in range(len(losses))]
        style = {**look(i), "marker": None, "linewidth": 4 - 0.6 * i if i < 3 else 1.6}  # three lie on each other
        training.plot(steps, smooth, label=PRECISIONS[name], **style)
        if name.startswith("fp16"):
            scale.plot(steps, [float(r["loss_scale"]) for r in rows], label=PRECISIONS[name], **style)
    training.set_ylabel("loss, nats per token")
    training.set_title("training on text")
    scale.set_yscale("log", base=2)
    scale.set_ylabel("loss scale")
    scale.set_title("its scale; a drop is an overflow")
    last = {name: sum(float(r["loss"]) for r in rows[-10:]) / len(rows[-10:]) for name, rows in runs.items()}
    title(
        figure,
        f"fp16 learns like fp32 with a scale that adapts ({last['fp16']:.2f} and {last['fp32']:.2f} nats at the end);"
        f" with one fixed far too low it ends at {last['fp16_low']:.2f}",
    )
    for axis in (training, scale):
        axis.set_xlabel("step")
        axis.set_xlim(0, steps[-1])
    figure_legend(figure, training, 3)
    return figure


def zero_memory(rows):
    """What a rank holds at its peak, measured: shares, and whole units above them; one group of bars for each p."""
    kinds = ("parameters", "gradients", "optimizer")
    all_ranks = sorted({r["ranks"] for r in rows if "category" in r})
    figure, ((axis,),) = subplots(1, 8, 3.8)
    megabytes = {
        (r["stage"], r["ranks"], r["category"], r["moment"]): r["measured_bytes"] / 1e6 for r in rows if "category" in r
    }
    totals, most = {}, all_ranks[-1]
    for stage in range(4):
        for k, ranks in enumerate(all_ranks):
            x, bottom = k * 5 + stage, 0
            for i, kind in enumerate(kinds):
                rest, peak = (megabytes[stage, ranks, kind, moment] for moment in ("resident", "peak"))
                axis.bar(x, rest, bottom=bottom, label=kind if stage == k == 0 else None, **filled(i))
                label = "whole units, at the peak" if (stage, k, i) == (3, 0, 0) else None
                dotted = {"color": "white", "edgecolor": COLOURS[i], "linestyle": ":"}
                axis.bar(x, peak - rest, bottom=bottom + rest, label=label, **dotted)
                bottom += peak
            axis.text(x, bottom, str(stage), ha="center", va="bottom", fontsize=10)
            totals[stage, ranks] = bottom
    axis.set_xticks([k * 5 + 1.5 for k in range(len(all_ranks))])
    axis.set_xticklabels([f"p = {p}" for p in all_ranks])
    axis.set_ylabel("MB on one rank (number: the stage)")
    axis.set_ylim(0, 1.08 * axis.dataLim.ymax)
    title(
        figure,
        f"On {most} ranks DDP holds {totals[0, most]:.1f} MB on each at its peak, ZeRO-3 {totals[3, most]:.1f} MB",
    )
    figure_legend(figure, axis, 4)
    return figure


def zero_throughput(stages):
    """Tokens a second of each stage against plain DDP, a panel for each machine."""
    runs = {}
    for name, results in stages.items():
        runs.setdefault(name.rsplit("_", 1)[0], []).extend(r for r in results["rows"] if "seconds" in r)
    figure, axes = subplots(len(runs), 4 * len(runs), 4.2, sharey=True)
    words = []
    for axis, (machine, rows) in zip(axes[0], runs.items()):
        points = lambda stage: sorted((r["tokens_per_rank"], r["throughput_of_stage0"]) for r in by(rows, stage=stage))
        ends = lines(axis, {"plain DDP" if stage == 0 else f"ZeRO-{stage}": points(stage) for stage in range(4)})
        last = [y for _, y in points(3)]
        words.append(f"{min(last):.2f} to {max(last):.2f} on {machine}")
        axis.axhspan(0.85, 0.95, color="#eeeeee")
        if axis is axes[0][0]:
            axis.annotate(
                "5 to 15 % less,\nas a course text has it",
                (0.03, 0.9),
                xycoords=("axes fraction", "data"),
                va="center",
                fontsize=10,
            )
        axis.set_xscale("log", base=2)
        axis.set_xticks([x for x, _ in points(3)])
        axis.set_xticklabels([f"{x:,}" for x, _ in points(3)])
        axis.minorticks_off()
        axis.set_title(f"{machine},\np = {rows[0]['ranks']}")
        axis.set_xlabel("tokens per rank and step")
    title(figure, f"Of plain DDP’s throughput ZeRO-3 reaches {', '.join(words)}")
    axes[0][0].set_ylabel("throughput, plain DDP = 1")
    label_ends(axes[0][-1], ends)
    return figure


def hybrid_sharding(machines):
    """A step's seconds under full and hybrid sharding, a panel for each machine (22.8)."""
    methods = list(dict.fromkeys(r["method"] for results in machines.values() for r in results["rows"]))
    figure, axes = subplots(len(machines), 4 * len(machines), 4.0)
    words = []
    for axis, (machine, results) in zip(axes[0], machines.items()):
        rows = results["rows"]
        counts = sorted({r["microbatches"] for r in rows})
        here = [m for m in methods if by(rows, method=m)]
        for i, method in enumerate(here):
            seconds = [by(rows, method=method, microbatches=m)[0]["seconds"] for m in counts]
            places = [k + 0.8 * (i + 0.5) / len(here) - 0.4 for k in range(len(counts))]
            axis.bar(places, seconds, 0.75 / len(here), **filled(methods.index(method)))
        axis.set_xticks(range(len(counts)))
        axis.set_xticklabels(counts)
        axis.set_xlabel("microbatches")
        axis.set_title(f"{machine},\np = {rows[0]['ranks']}")
        last = {r["method"]: r["seconds"] for r in by(rows, microbatches=counts[-1])}
        best = min(last, key=last.get)
        times = f" ({last['full'] / last[best]:.1f} times as fast as full)" if best != "full" else ""
        words.append(f"{best} on {machine}{times}")
    title(figure, f"Which sharding is fastest depends on the network: {', '.join(words)}")
    for i, method in enumerate(methods):  # for the legend; a method looks the same in all panels
        axes[0][0].bar([0], [0], label=method, **filled(i))
    axes[0][0].set_ylabel("seconds of a step")
    figure_legend(figure, axes[0][0], 4)
    return figure


ALL = (activations, precision, zero_memory, zero_throughput, hybrid_sharding)
