#!/usr/bin/env python3
"""Draws the report's figures: python3 bench/plots/figures.py outputs/report [--from DIR] [--style paper|slides]. Needs
matplotlib.

Reads data/*.json and *.csv, or with --from the JSON files of DIR; writes figures/NAME.svg, .pdf and .png, and for a
style those of
its folder. A figure whose data is missing is left out.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import accuracy_figures
import collectives_figures
import combined_figures
import crossover_figures
import findings
import findings_figures
import folder
import folder_figures
import gradients_figures
import hybrid_figures
import laws
import pipeline_figures
import plan_page
import reading
import run_page
import tensor_figures
import timeline_figures
from arguments import arguments
from memory import memory as memory_figure
from results import NCCL_8_A100, READ, by, bytes_text, load, load_all, load_csv
from sources import source_line
from style import (
    COLOURS,
    HATCHES,
    LAYOUTS,
    Drawing,
    Layout,
    beside_line,
    doubling_axis,
    figure_legend,
    label_ends,
    look,
    losses_figure,
    plain_log_axis,
    plt,
    save,
    size_axis,
    speedup_axis,
    stacked_columns,
    stamp,
    subplots,
    title,
    whiskers,
    wide_and_two,
)


def busbw_simulated(data):
    """busbw over size, one panel for each kind of algorithm."""
    machines = load_all(data, "all_reduce_sim")
    if not machines:
        return None
    figure, axes = subplots(2, 10, 4.2, sharey=True)
    best = findings.best_ring(data)
    if best:
        ring, naive, machine = best
        title(
            figure,
            f"On {ring['ranks']} ranks of {machine} a ring reaches"
            f" {ring['busbw_gb_per_s'] / naive['busbw_gb_per_s']:.0f}"
            f" times the bandwidth of the naive all-reduce ({bytes_text(ring['bytes'])})",
        )
    ends = {}
    for axis, algorithm in zip(axes[0], ("ring", "naive")):
        for i, (machine, results) in enumerate(machines.items()):
            rows = by(results["rows"], algorithm=algorithm)
            x, y = [r["bytes"] for r in rows], [r["busbw_gb_per_s"] for r in rows]
            axis.plot(x, y, **look(i))
            name = f"{machine},\np = {rows[0]['ranks']}"
            ends.setdefault(axis, []).append((x[-1], y[-1], name, look(i)["color"]))
        if algorithm == "ring":
            axis.plot(*zip(*NCCL_8_A100), linestyle="none", marker="*", markersize=9, color="black")
            axis.annotate(
                "stars: NCCL on 8 A100,\npublished", (0.04, 0.96), xycoords="axes fraction", va="top", fontsize=10
            )
        size_axis(axis, x, 4)
        axis.set_yscale("log")
        axis.set_title(f"{algorithm} all-reduce")
    plain_log_axis(axes[0][0].yaxis, (1,))
    axes[0][0].set_ylabel("busbw, GB/s")
    label_ends(axes[0][1], ends[axes[0][1]])
    return figure


def busbw_measured(data):
    path = data / "all_reduce_mpi.json"
    chart = folder.chart_of("bandwidth", [reading.read(path, path.name)]) if path.exists() else None
    return folder_figures.draw(chart) if chart else None


LINKS = ((1.25, "10 GbE"), (12.5, "100 GbE, PCIe 3"), (25, "PCIe 4, HDR"), (235, "NVLink 3"))


def overhead(data):
    results = load(data, "overhead")
    if not results:
        return None
    figure, axes = subplots(2, 10, 4.2)
    rows = results["rows"]
    slow, fast = (min(rows, key=lambda r: abs(r["link_gb_per_s"] - bandwidth)) for bandwidth in (1.25, 235))
    title(
        figure,
        f"Without overlap two ranks compute {100 * slow['efficiency']:.0f} % of the time over"
        f" {slow['link_gb_per_s']:g} GB/s, and {100 * fast['efficiency']:.0f} % over {fast['link_gb_per_s']:g} GB/s",
    )
    ends = []
    for i, parameters in enumerate(dict.fromkeys(r["parameters"] for r in rows)):
        mine = by(rows, parameters=parameters)
        x, y = [r["link_gb_per_s"] for r in mine], [r["seconds"] for r in mine]
        name = f"{parameters / 1e9:g} G" if parameters >= 1e9 else f"{parameters / 1e6:g} M"
        axes[0][0].plot(x, y, **look(i))
        ends.append((x[-1], y[-1], name, look(i)["color"]))
        if i == 0:
            axes[0][1].plot(x, [100 * r["efficiency"] for r in mine], label="simulated", **look(i))
            axes[0][1].plot(
                x, [100 * r["predicted_efficiency"] for r in mine], color="black", linestyle=":", label="predicted"
            )
    for axis in axes[0]:
        axis.set_xscale("log")
        axis.set_xlabel("bandwidth of the link, GB/s")
        axis.set_xlim(0.7, 1.15 * max(r["link_gb_per_s"] for r in rows))
        plain_log_axis(axis.xaxis, (1,))
        for bandwidth, name in LINKS:
            axis.axvline(bandwidth, color="#999999", linewidth=0.7, zorder=0)
            beside_line(axis, bandwidth, 0.02, name)
    axes[0][0].set_yscale("log")
    plain_log_axis(axes[0][0].yaxis, (1,))
    axes[0][0].set_ylabel("seconds to average the gradients")
    axes[0][0].set_title(f"{rows[0]['ranks']} ranks, parameters at the right")
    axes[0][1].set_ylim(0, 100)
    axes[0][1].set_ylabel("computing, % of a step")
    axes[0][1].set_title(f"{rows[0]['tokens_per_rank']:,} tokens, {rows[0]['flop_per_second'] / 1e12:g} TFLOP/s")
    axes[0][1].legend(loc="upper left")
    label_ends(axes[0][0], ends)
    return figure


def studies_of(data):
    """{label: results} of the scaling studies: simulated, emulated, and measured where every rank has a core."""
    found = {f"{machine}, simulated": results for machine, results in load_all(data, "scaling_sim").items()}
    for name, word in (("scaling_emulated", "emulated"), ("scaling_mpi", "measured")):
        results = load(data, name)
        if found and results:
            where = "this computer" if word == "measured" else results["rows"][0]["machine"]
            found[f"{where}, {word}"] = results
    return found


def amdahl(data):
    """Strong scaling with the fitted laws, dashed where no point is; what the fits leave; weak scaling."""
    studies = studies_of(data)
    if not studies:
        return None
    figure, (speedups, left, weak_axis) = wide_and_two()
    found = findings.laws(data)
    reached = "; ".join(f"{speedup:.1f} times on {ranks} ranks of {machine}" for machine, ranks, speedup, _ in found)
    title(figure, f"A fixed batch stops scaling: {reached}" if found else "")
    points = {
        label: [r for r in results["rows"] if r["speedup"] is not None and r["algorithm"] != "serial"]
        for label, results in studies.items()
    }
    most = max(r["ranks"] for rows in points.values() for r in rows)
    along = lambda low, high: [low * (high / low) ** (k / 60) for k in range(61)]
    speedups.plot([1, most], [1, most], color="#bbbbbb", linewidth=1)
    ends = [(most, most, "ideal", "#666666")]
    for fraction in (0.99, 0.9):
        last = laws.amdahl(1 - fraction, most)
        line = {"color": "#999999", "linestyle": (0, (1, 1.5)), "linewidth": 1}
        speedups.plot(along(1, most), [laws.amdahl(1 - fraction, p) for p in along(1, most)], **line)
        ends.append((most, last, f"f = {fraction}, the course’s", "#666666"))
    for i, (label, results) in enumerate(studies.items()):
        strong, weak = by(points[label], scaling="strong"), by(points[label], scaling="weak")
        style = {**look(i), "linestyle": "none"}
        serial = results["context"].get("amdahl_serial_fraction")
        x, y = [r["ranks"] for r in strong], [r["speedup"] for r in strong]
        speedups.errorbar(x, y, yerr=whiskers(strong, "speedup"), capsize=2, **style)
        end, words = (x[-1], y[-1]), label
        if serial is not None:
            words = f"{label}, f = {1 - serial:.3f}".replace(", simulated", "")
            left.plot(x, [100 * (s / laws.amdahl(serial, p) - 1) for p, s in zip(x, y)], **look(i))
            for span, dashes in ((along(1, x[-1]), "-"), (along(x[-1], most), (0, (4, 3)))):
                line = {"color": style["color"], "linewidth": 1, "linestyle": dashes}
                speedups.plot(span, [laws.amdahl(serial, p) for p in span], **line)
            end = (most, laws.amdahl(serial, most))
        ends.append((*end, words, style["color"]))
        weak_axis.errorbar(
            [r["ranks"] for r in weak],
            [100 * r["efficiency"] for r in weak],
            yerr=whiskers(weak, "efficiency", 100),
            capsize=2,
            **look(i),
        )
    for axis in (speedups, left, weak_axis):
        doubling_axis(axis, [2**k for k in range(most.bit_length())], "ranks")
    speedup_axis(speedups, most, "speedup over T(1)")
    speedups.set_ylim(0.9, 1.15 * most)
    left.axhline(0, color="black", linewidth=0.8)
    left.set_ylabel("point over law, %")
    weak_axis.set_ylim(0, None)
    weak_axis.set_ylabel("efficiency, %")
    speedups.set_title("strong scaling; dashed: Amdahl’s law beyond the points", loc="left")
    left.set_title("what the law leaves", loc="left")
    weak_axis.set_title("weak scaling", loc="left")
    label_ends(speedups, ends)
    return figure


VARIANTS = {"compute": "compute alone", "no_overlap": "without overlap", "overlap": "with overlap"}


def buckets(data):
    """What a step takes beyond its computing, without and with overlap, over the size of the buckets."""
    machines = load_all(data, "ddp_sim")
    if not machines:
        return None
    figure, axes = subplots(len(machines), 5 * len(machines), 4.0)
    spans = []
    for axis, (machine, results) in zip(axes[0], machines.items()):
        rows = by(results["rows"], microbatches=1)
        sizes = sorted({r["bucket_bytes"] for r in rows if r["bucket_bytes"]})
        ends = []
        for k, variant in enumerate(("no_overlap", "overlap"), 1):
            mine = [r for size in sizes for r in by(rows, algorithm=variant, bucket_bytes=size)]
            x, y = [r["bucket_bytes"] for r in mine], [1e3 * r["exposed_seconds"] for r in mine]
            axis.plot(x, y, **look(k))
            ends.append((x[-1], y[-1], VARIANTS[variant].replace(" ", "\n"), look(k)["color"]))
            if variant == "overlap":
                share = 100 * min(y) / max(1e3 * r["exposed_seconds"] for r in by(rows, algorithm="no_overlap"))
                spans.append(f"{min(y):.3g} to {max(y):.3g} ms on {machine} (at best {share:.0f} %)")
        axis.set_ylim(0, None)
        size_axis(axis, sizes)
        axis.set_xlabel("bucket")
        axis.set_title(f"{machine}, p = {rows[0]['ranks']}, {rows[0]['model']}")
        label_ends(axis, ends)
    title(figure, f"The size of the buckets decides what overlap leaves exposed: {', '.join(spans)}")
    axes[0][0].set_ylabel("exposed communication, ms")
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
        f"{modes[0]['model']}, {modes[0]['dtype']}, {modes[0]['batch_sequences']} ×"
        f" {modes[0]['sequence_tokens']} tokens"
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
        label=f"time on {modes[0]['machine']}",
    )
    axes[0][1].set_ylabel("more than without, %")
    axes[0][1].set_title("its cost, forward and backward")
    axes[0][1].legend(loc="upper left")
    figure_legend(figure, axes[0][0], 3)
    for axis in axes[0]:
        axis.set_xticks(list(x))
        axis.set_xticklabels(
            [
                f"{m['attention']}\n{m['recompute']}".replace("selective", "selec-\ntive").replace(
                    "materialised", "material-\nised"
                )
                for m in modes
            ]
        )
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
        style = {**look(i), "marker": None, "linewidth": 4 - 0.6 * i if i < 3 else 1.6}  # three lie on each other
        axes[0][0].plot(steps, smooth, label=PRECISIONS[name], **style)
        if name.startswith("fp16"):
            axes[0][1].plot(steps, [float(r["loss_scale"]) for r in rows], label=PRECISIONS[name], **style)
    axes[0][0].set_ylabel("loss, nats per token")
    axes[0][0].set_title("training on text")
    axes[0][1].set_yscale("log", base=2)
    axes[0][1].set_ylabel("loss scale")
    axes[0][1].set_title("its scale; a drop is an overflow")
    last = {name: sum(float(r["loss"]) for r in rows[-10:]) / len(rows[-10:]) for name, rows in runs.items()}
    title(
        figure,
        f"fp16 learns like fp32 with a scale that adapts ({last['fp16']:.2f} and {last['fp32']:.2f} nats at the end);"
        " with"
        f" one fixed far too low it ends at {last['fp16_low']:.2f}",
    )
    for axis in axes[0]:
        axis.set_xlabel("step")
        axis.set_xlim(0, steps[-1])
    figure_legend(figure, axes[0][0], 3)
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
    figure, axes = subplots(1, 8, 3.8)
    totals, most = {}, all_ranks[-1]
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
            axes[0][0].text(x, bottom, str(stage), ha="center", va="bottom", fontsize=10)
            totals[stage, ranks] = bottom
    axes[0][0].set_xticks([k * 5 + 1.5 for k in range(len(all_ranks))])
    axes[0][0].set_xticklabels([f"p = {p}" for p in all_ranks])
    axes[0][0].set_ylabel("MB on one rank (number: the stage)")
    axes[0][0].set_ylim(0, 1.08 * axes[0][0].dataLim.ymax)
    title(
        figure,
        f"On {most} ranks DDP holds {totals[0, most]:.1f} MB on each at its peak, ZeRO-3 {totals[3, most]:.1f} MB",
    )
    figure_legend(figure, axes[0][0], 4)
    return figure


def zero_throughput(data):
    """Tokens a second of each stage against plain DDP, a panel for each machine."""
    runs = {}
    for name, results in load_all(data, "zero_sim").items():
        runs.setdefault(name.rsplit("_", 1)[0], []).extend(r for r in results["rows"] if "seconds" in r)
    if not runs:
        return None
    figure, axes = subplots(len(runs), 4 * len(runs), 4.2, sharey=True)
    words, labels = [], []
    for axis, (machine, rows) in zip(axes[0], runs.items()):
        ends = []
        for stage in range(4):
            curve = sorted((r["tokens_per_rank"], r["throughput_of_stage0"]) for r in by(rows, stage=stage))
            axis.plot(*zip(*curve), **look(stage))
            ends.append((*curve[-1], "plain DDP" if stage == 0 else f"ZeRO-{stage}", look(stage)["color"]))
        words.append(f"{min(y for _, y in curve):.2f} to {max(y for _, y in curve):.2f} on {machine}")
        labels.append(ends)
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
        axis.set_xticks([r[0] for r in curve])
        axis.set_xticklabels([f"{r[0]:,}" for r in curve])
        axis.minorticks_off()
        axis.set_title(f"{machine},\np = {rows[0]['ranks']}")
        axis.set_xlabel("tokens per rank and step")
    title(figure, f"Of plain DDP’s throughput ZeRO-3 reaches {', '.join(words)}")
    axes[0][0].set_ylabel("throughput, plain DDP = 1")
    for axis, ends in zip(axes[0], labels):
        label_ends(axis, ends if axis is axes[0][-1] else [])
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
    if options.of:
        of = {"run": run_page, "plan": plan_page}[options.of]
        return [(chart.name, lambda chart=chart: folder_figures.draw(chart)) for chart in of.charts(options.out)]
    data = options.out / "data"
    return [(draw.__name__, lambda draw=draw: draw(data)) for draw in ALL] + timeline_figures.of_report(data)


def sources_said(figure):
    """Whose code gave a figure's numbers, where and how."""
    read = getattr(figure, "sources", None) or [(each["context"], each["rows"]) for each in READ]
    return source_line([context for context, _ in read], [row for _, rows in read for row in rows])


def trained(data):
    """The same of a figure of CSV files, which training runs wrote."""
    first = next(iter(sorted(data.glob("*.json"))), None)
    context = json.loads(first.read_text()).get("context") if first else None
    return f"{source_line([context], [])[:-1]}, training runs with real arithmetic." if context else ""


class Job(NamedTuple):
    """A figure to draw."""

    options: argparse.Namespace
    layout: Layout
    name: str
    draw: Callable

    def run(self):
        """Draws and saves it; or says why not. A figure that fails costs itself alone."""
        try:
            Drawing.layout = self.layout
            READ.clear()
            figure = self.draw()
            if figure:
                if not self.name.startswith("finding_"):  # beside which stands how it came about
                    stamp(figure, sources_said(figure) or trained(self.options.out / "data"))
                save(figure, self.options.out, self.name)
            return ""
        except Exception as error:
            plt.close("all")
            at = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{pathlib.Path(at.filename).name}:{at.lineno}"
            return f"{self.name} was not drawn: {type(error).__name__}: {error} ({place})"


JOBS = []  # filled before the processes that run them are forked, since functions cannot be sent to them


def run_job(index):
    return JOBS[index].run()


def main():
    options = arguments(__doc__)
    for layout in (layout for style in ("page", *options.style) for layout in LAYOUTS[style]):
        JOBS.extend(Job(options, layout, name, draw) for name, draw in wanted(options))
    workers = min(4, len(os.sched_getaffinity(0)))
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("fork")) as pool:
        failed = [why for why in pool.map(run_job, range(len(JOBS))) if why]
    for why in failed:
        print(f"figures: {why}", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
