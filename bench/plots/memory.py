#!/usr/bin/env python3
"""Draws ./lab memory: GPU memory against the number of GPUs, a curve a stage: memory.py RESULTS.json FIGURE.svg"""

import json
import pathlib
import sys

from style import SOFT, doubling_axis, label_ends, look, plain_log_axis, save_as, subplots, title


def known_gpus(context):
    """[("V100", 32e9), …] of the context's "V100 3.2e+10, …"."""
    return [(name, float(size)) for name, size in (gpu.split() for gpu in context["gpu_memory_bytes"].split(", "))]


def said(rows, models, gpus):
    """From how many GPUs the largest model fits the largest of them, stage by stage."""
    if not gpus:
        return ""
    (name, size), mine = gpus[-1], [r for r in rows if r["model"] == models[-1]]
    fits = {}
    for r in sorted(mine, key=lambda r: r["ranks"]):
        if r["total_bytes"] <= size:
            fits.setdefault(r["stage"], r["ranks"])
    most = max(r["ranks"] for r in mine)
    alike = lambda ranks: ", ".join(f"ZeRO-{stage}" for stage in sorted(fits) if fits[stage] == ranks)
    words = [f"{alike(ranks)} from {ranks:,}" for ranks in sorted(set(fits.values()))]
    model = name_of(models[-1], mine[0]["parameters"])
    if 0 in fits:
        return f"{model} fit one {name} with plain DDP"
    return f"{model} fit {name}s with {'; '.join(words)} GPUs" if words else f"{model} fit no {name} on {most:,} GPUs"


def name_of(model, parameters):
    size = f"{parameters / 1e9:.4g} B parameters" if parameters >= 1e9 else f"{parameters / 1e6:.4g} M parameters"
    return size if model[0].isdigit() else f"{model}: {size}"


def memory(results):
    rows = results["rows"]
    models = list(dict.fromkeys(r["model"] for r in rows))
    figure, axes = subplots(len(models), max(6, 3.6 * len(models)), 4.4, sharey=True)
    gpus = sorted(known_gpus(results["context"]), key=lambda gpu: gpu[1])
    title(figure, said(rows, models, gpus))
    labels = []
    for axis, model in zip(axes[0], models):
        mine, ends = [r for r in rows if r["model"] == model], []
        for stage in sorted({r["stage"] for r in mine}):
            curve = sorted((r["ranks"], r["total_bytes"] / 1e9) for r in mine if r["stage"] == stage)
            axis.plot(*zip(*curve), **look(stage))
            ends.append((*curve[-1], "plain DDP" if stage == 0 else f"ZeRO-{stage}", look(stage)["color"]))
        for name, size in gpus:
            axis.axhline(size / 1e9, color="#888888", linewidth=0.8, linestyle=(0, (2, 2)))
            ends.append((mine[-1]["ranks"], size / 1e9, f"{name}, {size / 1e9:.0f} GB", SOFT))
        labels.append((axis, ends))
        ticks = sorted({r["ranks"] for r in mine})
        doubling_axis(axis, ticks[:: -(-len(ticks) // 4)], "GPUs")
        axis.set_yscale("log")
        axis.set_title(name_of(model, mine[0]["parameters"]))
    plain_log_axis(axes[0][0].yaxis, (1,))
    axes[0][0].set_ylabel("GB on each GPU")
    label_ends(*labels[-1])
    return figure


def main():
    results = json.loads(pathlib.Path(sys.argv[1]).read_text())
    save_as(memory(results), pathlib.Path(sys.argv[2]))


if __name__ == "__main__":
    main()
