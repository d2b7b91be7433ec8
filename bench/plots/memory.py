#!/usr/bin/env python3
"""Draws ./lab memory: GPU memory against the number of GPUs, a curve a stage: memory.py RESULTS.json FIGURE.svg"""

import json
import pathlib
import sys

from style import doubling_axis, look, save_as, subplots


def known_gpus(context):
    """[("V100", 32e9), …] of the context's "V100 3.2e+10, …"."""
    return [(name, float(size)) for name, size in (gpu.split() for gpu in context["gpu_memory_bytes"].split(", "))]


def title(model, parameters):
    size = f"{parameters / 1e9:.4g} B parameters" if parameters >= 1e9 else f"{parameters / 1e6:.4g} M parameters"
    return size if model[0].isdigit() else f"{model}: {size}"


def memory(results):
    rows = results["rows"]
    models = list(dict.fromkeys(r["model"] for r in rows))
    figure, axes = subplots(len(models), max(6, 3.6 * len(models)), 4.4, sharey=True)
    for axis, model in zip(axes[0], models):
        mine = [r for r in rows if r["model"] == model]
        for stage in sorted({r["stage"] for r in mine}):
            curve = sorted((r["ranks"], r["total_bytes"] / 1e9) for r in mine if r["stage"] == stage)
            axis.plot(*zip(*curve), label="plain DDP" if stage == 0 else f"ZeRO-{stage}", **look(stage))
        above = 0.0
        for name, size in sorted(known_gpus(results["context"]), key=lambda gpu: gpu[1]):
            axis.axhline(size / 1e9, color="#888888", linewidth=0.8, linestyle=(0, (2, 2)))
            above = max(size / 1e9, 1.5 * above)  # names of lines that lie close together stand one above the other
            if axis is axes[0][-1]:
                axis.annotate(
                    f"{name}, {size / 1e9:.0f} GB",
                    (1.01, above),
                    xycoords=("axes fraction", "data"),
                    fontsize=7,
                    va="center",
                    color="#555555",
                )
        ticks = sorted({r["ranks"] for r in mine})
        doubling_axis(axis, ticks[:: 1 + len(ticks) // 6], "GPUs")
        axis.set_yscale("log")
        axis.set_title(title(model, mine[0]["parameters"]))
    axes[0][0].set_ylabel("GB on each GPU")
    axes[0][0].legend(fontsize=8)
    return figure


def main():
    results = json.loads(pathlib.Path(sys.argv[1]).read_text())
    save_as(memory(results), pathlib.Path(sys.argv[2]))


if __name__ == "__main__":
    main()
