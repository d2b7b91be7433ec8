#!/usr/bin/env python3
"""Draws the report's figures: python3 bench/plots/figures.py outputs/report [--from DIR] [--style paper|slides]. Needs
matplotlib.

Reads data/*.json and *.csv, or with --from the JSON files of DIR; writes figures/NAME.svg, .pdf and .png, and for a
style those of
its folder. A figure whose data is missing is left out.
"""

import pathlib
import sys
import traceback

import accuracy_figures
import collectives_figures
import combined_figures
import crossover_figures
import findings_figures
import folder
import folder_figures
import gradients_figures
import hybrid_figures
import laws
import pipeline_figures
import reading
import tensor_figures
import timeline_figures
from arguments import arguments
from memory import memory as memory_figure
from results import NCCL_8_A100, by, bytes_text, load, load_all, load_csv
from style import (
    COLOURS,
    HATCHES,
    LAYOUTS,
    Drawing,
    beside_line,
    doubling_axis,
    figure_legend,
    look,
    losses_figure,
    plain_log_axis,
    plt,
    save,
    size_axis,
    speedup_axis,
    stacked_columns,
    subplots,
    whiskers,
)


def busbw_simulated(data):
    """busbw over size, one panel for each kind of algorithm."""
    machines = load_all(data, "all_reduce_sim")
    if not machines:
        return None
    figure, axes = subplots(2, 10, 4.2, sharey=True)
    for axis, algorithm in zip(axes[0], ("ring", "naive")):
        for i, (machine, results) in enumerate(machines.items()):
            rows = by(results["rows"], algorithm=algorithm)
            x = [r["bytes"] for r in rows]
            axis.plot(x, [r["busbw_gb_per_s"] for r in rows], label=f"{machine}, p = {rows[0]['ranks']}", **look(i))
        if algorithm == "ring":
            axis.plot(
                *zip(*NCCL_8_A100),
                linestyle="none",
                marker="*",
                markersize=9,
                color="black",
                label="published: NCCL, 8 × A100",
            )
        size_axis(axis, x)
        axis.set_yscale("log")
        axis.set_title(f"{algorithm} all-reduce, simulated")
    axes[0][0].set_ylabel("busbw, GB/s")
    axes[0][0].legend()
    return figure


def busbw_measured(data):
    path = data / "all_reduce_mpi.json"
    chart = folder.chart_of("bandwidth", [reading.read(path, path.name)]) if path.exists() else None
    return folder_figures.draw(chart) if chart else None


def overhead(data):
    results = load(data, "overhead")
    if not results:
        return None
    figure, axes = subplots(2, 10, 4.2)
    rows = results["rows"]
    for i, parameters in enumerate(dict.fromkeys(r["parameters"] for r in rows)):
        mine = by(rows, parameters=parameters)
        x = [r["link_gb_per_s"] for r in mine]
        name = f"{parameters / 1e9:g} G" if parameters >= 1e9 else f"{parameters / 1e6:g} M"
        axes[0][0].plot(x, [r["seconds"] for r in mine], label=f"{name} parameters", **look(i))
        if i == 0:
            axes[0][1].plot(x, [100 * r["efficiency"] for r in mine], label=f"simulated, {name} parameters", **look(i))
            axes[0][1].plot(
                x, [100 * r["predicted_efficiency"] for r in mine], color="black", linestyle=":", label="predicted"
            )
    for axis in axes[0]:
        axis.set_xscale("log")
        axis.set_xlabel("bandwidth of the link, GB/s")
        for bandwidth, name in ((1.25, "10 GbE"), (12.5, "100 GbE, PCIe 3"), (25, "PCIe 4, HDR"), (235, "NVLink 3")):
            axis.axvline(bandwidth, color="#999999", linewidth=0.7, zorder=0)
            beside_line(axis, bandwidth, 0.02, name)
    axes[0][0].set_yscale("log")
    axes[0][0].set_ylabel("seconds to average the gradients")
    axes[0][0].set_title(f"communication, p = {rows[0]['ranks']}, simulated")
    axes[0][0].legend(fontsize=8)
    axes[0][1].set_ylim(0, 100)
    axes[0][1].set_ylabel("compute / (compute + communication), %")
    axes[0][1].set_title(
        f"efficiency, {rows[0]['tokens_per_rank']:g} tokens per rank at {rows[0]['flop_per_second'] / 1e12:g} TFLOP/s"
    )
    axes[0][1].legend(loc="upper left")
    return figure


def amdahl(data):
    """Strong scaling, linear and logarithmic, with the fitted laws; what the fits leave; weak scaling. Simulated,
    emulated, and
    measured where every rank has a core."""
    studies = [(f"{machine}, simulated", results) for machine, results in load_all(data, "scaling_sim").items()]
    if not studies:
        return None
    for name, word in (("scaling_emulated", "emulated"), ("scaling_mpi", "measured")):
        results = load(data, name)
        if results:
            studies.append(
                (
                    "this computer, measured" if word == "measured" else f"{results['rows'][0]['machine']}, {word}",
                    results,
                )
            )
    figure, axes = subplots(4, 15, 4.4)
    linear, doubling, left, weak_axis = axes[0]
    points = {
        label: [r for r in results["rows"] if r["speedup"] is not None and r["algorithm"] != "serial"]
        for label, results in studies
    }
    near = max([8, *(r["ranks"] for label, rows in points.items() if not label.endswith("simulated") for r in rows)])
    most = max(r["ranks"] for rows in points.values() for r in rows)
    ranks = [most ** (k / 60) for k in range(61)]
    for axis in (linear, doubling):
        axis.plot([1, most], [1, most], color="#cccccc", linewidth=1, label="ideal")
        for fraction, line in ((0.99, (0, (1, 1))), (0.9, (0, (4, 2)))):
            axis.plot(
                ranks,
                [laws.amdahl(1 - fraction, p) for p in ranks],
                color="#777777",
                linestyle=line,
                linewidth=1,
                label=f"Amdahl, f = {fraction} (the course's)",
            )
    for i, (label, results) in enumerate(studies):
        strong, weak = by(points[label], scaling="strong"), by(points[label], scaling="weak")
        style = {**look(i), "linestyle": "none"}
        serial, low, high = (results["context"].get(f"amdahl_serial_fraction{end}") for end in ("", "_low", "_high"))
        fit = (
            f", f = {1 - serial:.3f}"
            + (f" ({1 - high:.3f} to {1 - low:.3f})" if low is not None and high is not None else "")
            if serial is not None
            else ""
        )
        for axis in (linear, doubling):
            axis.errorbar(
                [r["ranks"] for r in strong],
                [r["speedup"] for r in strong],
                yerr=whiskers(strong, "speedup"),
                capsize=2,
                label=label + fit,
                **style,
            )
            if serial is not None:
                axis.plot(ranks, [laws.amdahl(serial, p) for p in ranks], color=style["color"], linewidth=0.9)
        if serial is not None:
            left.plot(
                [r["ranks"] for r in strong],
                [100 * (r["speedup"] / laws.amdahl(serial, r["ranks"]) - 1) for r in strong],
                **look(i),
            )
        weak_axis.errorbar(
            [r["ranks"] for r in weak],
            [100 * r["efficiency"] for r in weak],
            yerr=whiskers(weak, "efficiency", 100),
            capsize=2,
            **look(i),
        )
    linear.set_xlim(0, near + 0.5)
    linear.set_ylim(0, near + 0.5)
    linear.set_xlabel("ranks")
    linear.set_ylabel("speedup over T(1)")
    for axis in (doubling, left, weak_axis):
        doubling_axis(axis, [2**k for k in range(most.bit_length())], "ranks")
    speedup_axis(doubling, most, "speedup over T(1)")
    left.axhline(0, color="black", linewidth=0.8)
    left.set_ylabel("points over their fitted law, %")
    weak_axis.set_ylim(0, None)
    weak_axis.set_ylabel("efficiency T(1)/T(p), %")
    for axis, title in zip(
        axes[0],
        (f"strong scaling, to {near} ranks", "strong scaling, all", "residuals of Amdahl's law", "weak scaling"),
    ):
        axis.set_title(title, fontsize=10)
    figure_legend(figure, linear, 3)
    return figure


def buckets(data):
    """A DDP step's parts over bucket size: what is hidden, what is exposed."""
    machines = load_all(data, "ddp_sim")
    if not machines:
        return None
    figure, axes = subplots(len(machines), 10, 4.0)
    hatches = {"compute": "", "no_overlap": "//", "overlap": ".."}
    for axis, (machine, results) in zip(axes[0], machines.items()):
        rows = by(results["rows"], microbatches=1)
        sizes = list(dict.fromkeys(r["bucket_bytes"] for r in rows))
        for k, algorithm in enumerate(hatches):
            mine = by(rows, algorithm=algorithm)
            x = [i + 0.27 * (k - 1) for i in range(len(mine))]
            axis.bar(
                x,
                [r["seconds"] * 1e3 for r in mine],
                0.25,
                color=COLOURS[k],
                alpha=0.85,
                hatch=hatches[algorithm],
                edgecolor="white",
                label={"compute": "compute alone"}.get(algorithm, algorithm.replace("_", " ")),
            )
            axis.plot(
                x,
                [r["predicted_seconds"] * 1e3 for r in mine],
                linestyle="none",
                marker="_",
                markersize=11,
                color="black",
                label="predicted" if k == 2 else None,
            )
        axis.set_xticks(range(len(sizes)))
        axis.set_xticklabels([bytes_text(s) for s in sizes])
        axis.set_xlabel("bucket")
        axis.set_ylim(0, 1.25e3 * max(r["seconds"] for r in rows))
        axis.set_title(f"{machine}, p = {rows[0]['ranks']}, {rows[0]['model']}, simulated", fontsize=10)
    axes[0][0].set_ylabel("step, ms")
    axes[0][0].legend(fontsize=8, loc="upper center", ncols=2)
    return figure


def training(data):
    return losses_figure(load_csv(data, "train_serial"), {"DDP": load_csv(data, "train_ddp")})


def activations(data):
    """Peak bytes of activations, part by part, and the time and FLOP that recomputation costs."""
    results = load(data, "activations")
    if not results:
        return None
    figure, axes = subplots(2, 10, 4.2)
    modes = [r for r in results["rows"] if r.get("algorithm")]
    parts = [r for r in results["rows"] if not r.get("algorithm")]
    names = {"attention's statistics": "attention", "probabilities": "attention"}
    kinds = list(dict.fromkeys(names.get(r["part"], r["part"]) for r in parts))
    titles = {"attention": "probabilities, or statistics"}
    stacked_columns(
        axes[0][0],
        {
            titles.get(kind, kind): [
                sum(
                    p["predicted_bytes"]
                    for p in by(parts, attention=m["attention"], recompute=m["recompute"])
                    if names.get(p["part"], p["part"]) == kind
                )
                / 2**30
                for m in modes
            ]
            for kind in kinds
        },
        0.7,
    )
    axes[0][0].plot(
        range(len(modes)),
        [m["measured_bytes"] / 2**30 for m in modes],
        linestyle="none",
        marker="_",
        markersize=24,
        color="black",
        label="peak in the ledger",
    )
    axes[0][0].set_ylabel("activations, GiB")
    axes[0][0].set_title(
        f"{modes[0]['model']}, {modes[0]['dtype']}, {modes[0]['batch_sequences']} × {modes[0]['sequence_tokens']}"
        " tokens",
        fontsize=10,
    )
    axes[0][0].legend(fontsize=7.5)
    base = {m["attention"]: m["flop"] for m in modes if m["recompute"] == "none"}
    x = range(len(modes))
    axes[0][1].bar(
        [i - 0.18 for i in x],
        [100 * (m["flop"] / base[m["attention"]] - 1) for m in modes],
        0.34,
        color=COLOURS[0],
        hatch="//",
        edgecolor="white",
        label="FLOP, counted",
    )
    axes[0][1].bar(
        [i + 0.18 for i in x],
        [100 * (m["relative_seconds"] - 1) for m in modes],
        0.34,
        color=COLOURS[1],
        edgecolor="white",
        label=f"time, {modes[0]['machine']} simulated",
    )
    axes[0][1].set_ylabel("more than without, %")
    axes[0][1].set_title("what recomputation costs, forward and backward")
    axes[0][1].legend(fontsize=8)
    for axis in axes[0]:
        axis.set_xticks(list(x))
        axis.set_xticklabels([f"{m['attention']}\n{m['recompute']}" for m in modes], fontsize=8)
    return figure


PRECISIONS = {
    "fp32": "fp32",
    "bf16": "bf16",
    "fp16": "fp16, scale from 2¹⁶",
    "fp16_low": "fp16, scale fixed at 2⁻¹⁷",
    "fp16_low_grows": "fp16, scale from 2⁻¹⁷, may grow",
}


def precision(data):
    """Losses in fp32, bf16 and fp16 with and without a scale that moves; and that scale."""
    runs = {name: load_csv(data, f"precision_{name}") for name in PRECISIONS}
    if not all(runs.values()):
        return None
    figure, axes = subplots(2, 10, 4.0)
    for i, (name, rows) in enumerate(runs.items()):
        steps = [int(r["step"]) for r in rows]
        losses = [float(r["loss"]) for r in rows]
        smooth = [sum(losses[max(0, k - 9) : k + 1]) / len(losses[max(0, k - 9) : k + 1]) for k in range(len(losses))]
        style = dict(look(i), marker=None)
        axes[0][0].plot(steps, smooth, label=PRECISIONS[name], **style)
        if name.startswith("fp16"):
            axes[0][1].plot(steps, [float(r["loss_scale"]) for r in rows], label=PRECISIONS[name], **style)
    axes[0][0].set_ylabel("loss, nats per token (mean of 10 steps)")
    axes[0][0].set_title("training on text")
    axes[0][1].set_yscale("log", base=2)
    axes[0][1].set_ylabel("loss scale")
    axes[0][1].set_title("the scale: each drop is a step that overflowed")
    for axis in axes[0]:
        axis.set_xlabel("step")
        axis.legend(fontsize=8)
    return figure


def memory(data):
    results = load(data, "memory")
    return memory_figure(results) if results else None


def zero_memory(data):
    """What a rank holds at its peak, measured: shares, and whole units above them; one group of bars for each p."""
    results = load(data, "zero_memory")
    if not results:
        return None
    kinds, rows = ("parameters", "gradients", "optimizer"), results["rows"]
    all_ranks = sorted({r["ranks"] for r in rows if "category" in r})
    figure, axes = subplots(1, 9, 4.2)
    for stage in range(4):
        for k, ranks in enumerate(all_ranks):
            x, bottom = k * 5 + stage, 0
            for i, kind in enumerate(kinds):
                (rest,) = [
                    r["measured_bytes"] / 1e6
                    for r in by(rows, stage=stage, ranks=ranks, category=kind, moment="resident")
                ]
                (peak,) = [
                    r["measured_bytes"] / 1e6 for r in by(rows, stage=stage, ranks=ranks, category=kind, moment="peak")
                ]
                label = kind if stage == k == 0 else None
                axes[0][0].bar(
                    x, rest, bottom=bottom, color=COLOURS[i], edgecolor="white", hatch=HATCHES[i], label=label
                )
                axes[0][0].bar(
                    x,
                    peak - rest,
                    bottom=bottom + rest,
                    color="white",
                    edgecolor=COLOURS[i],
                    linestyle=":",
                    label="whole units, at the peak" if (stage, k, i) == (3, 0, 0) else None,
                )
                bottom += peak
            axes[0][0].text(x, bottom, str(stage), ha="center", va="bottom", fontsize=8)
    axes[0][0].set_xticks([k * 5 + 1.5 for k in range(len(all_ranks))])
    axes[0][0].set_xticklabels([f"p = {p}" for p in all_ranks])
    axes[0][0].set_ylabel("MB on one rank (number: the stage)")
    axes[0][0].set_ylim(0, 1.08 * axes[0][0].dataLim.ymax)
    figure_legend(figure, axes[0][0], 4)
    return figure


def zero_throughput(data):
    """Tokens a second of each stage against plain DDP, a panel for each machine."""
    runs = {}
    for name, results in load_all(data, "zero_sim").items():
        runs.setdefault(name.rsplit("_", 1)[0], []).extend(r for r in results["rows"] if "seconds" in r)
    if not runs:
        return None
    figure, axes = subplots(len(runs), 4 * len(runs), 3.8, sharey=True)
    for axis, (machine, rows) in zip(axes[0], runs.items()):
        for stage in range(4):
            curve = sorted((r["tokens_per_rank"], r["throughput_of_stage0"]) for r in by(rows, stage=stage))
            axis.plot(*zip(*curve), label="plain DDP" if stage == 0 else f"ZeRO-{stage}", **look(stage))
        axis.axhspan(0.85, 0.95, color="#eeeeee")
        axis.set_xscale("log", base=2)
        axis.set_xticks([r[0] for r in curve])
        axis.set_xticklabels([f"{r[0]:,}" for r in curve])
        axis.minorticks_off()
        axis.set_title(f"{machine}, p = {rows[0]['ranks']}")
        axis.set_xlabel("tokens per rank and step")
    axes[0][0].set_ylabel("throughput, plain DDP = 1")
    axes[0][0].legend(fontsize=8)
    return figure


def step_parts(data):
    """Where the time of steps by wall clock goes."""
    found, _ = reading.read_folder(data)
    chart = folder.by_wall_clock(found)
    return folder_figures.draw(chart) if chart else None


ALL = (
    *findings_figures.ALL,
    busbw_simulated,
    busbw_measured,
    *accuracy_figures.ALL,
    *crossover_figures.ALL,
    *collectives_figures.ALL,
    overhead,
    amdahl,
    buckets,
    training,
    *gradients_figures.ALL,
    activations,
    precision,
    memory,
    zero_memory,
    zero_throughput,
    *hybrid_figures.ALL,
    step_parts,
    *tensor_figures.ALL,
    *pipeline_figures.ALL,
    *combined_figures.ALL,
)


def wanted(options):
    """(name, function that draws it) of all figures."""
    if options.folder:
        found, _ = reading.read_folder(options.folder, options.machine)
        return [(chart.name, lambda chart=chart: folder_figures.draw(chart)) for chart in folder.charts(found)]
    data = options.out / "data"
    return [(draw.__name__, lambda draw=draw: draw(data)) for draw in ALL] + timeline_figures.of_report(data)


def main():
    options = arguments(__doc__)
    failed = 0
    for layout in (layout for style in ("page", *options.style) for layout in LAYOUTS[style]):
        Drawing.layout = layout
        for name, draw in wanted(options):
            try:
                figure = draw()
                if figure:
                    save(figure, options.out, name)
            except Exception as error:  # a figure that fails costs itself alone
                failed += 1
                plt.close("all")
                at = traceback.extract_tb(error.__traceback__)[-1]
                print(
                    f"figures: {name} was not drawn: {type(error).__name__}: {error}"
                    f" ({pathlib.Path(at.filename).name}:{at.lineno})",
                    file=sys.stderr,
                )
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
