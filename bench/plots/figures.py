#!/usr/bin/env python3
"""Draws the figures of a page: python3 bench/plots/figures.py, with the arguments of page.py. Needs matplotlib.

Writes figures/NAME.svg, .pdf and .png, and for a style those of its folder. What is drawn, and of which rows, the page
says.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import sys
import traceback
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from typing import NamedTuple

import folder_figures
import page
from arguments import arguments
from memory import memory
from sources import source_line
from style import LAYOUTS, Drawing, Layout, losses_figure, plt, save, stamp
from timeline_figures import timeline_figure, twins_figure

MODULES = "accuracy collectives combined crossover findings gradients pipeline scaling tensor zero".split()
# The function that draws each kind of figure.
DRAW = {draw.__name__: draw for name in MODULES for draw in import_module(f"{name}_figures").ALL} | {
    "chart": folder_figures.draw,
    "losses": losses_figure,
    "memory": memory,
    "timeline": timeline_figure,
    "twins": twins_figure,
}


def trained(data):
    """Whose code gave a figure of CSV files, which training runs wrote."""
    first = next(iter(sorted(data.glob("*.json"))), None)
    context = json.loads(first.read_text()).get("context") if first else None
    return f"{source_line([context], [])[:-1]}, training runs with real arithmetic." if context else ""


class Job(NamedTuple):
    """A figure to draw."""

    options: argparse.Namespace
    layout: Layout
    name: str
    drawn: page.Drawn

    def run(self):
        """Draws and saves it; or says why not. A figure that fails costs itself alone."""
        try:
            Drawing.layout = self.layout
            figure = DRAW[self.drawn.kind](*self.drawn.data)
            if figure:
                if not self.name.startswith("finding_"):  # these have their method next to them
                    stamp(figure, self.drawn.source_line() or trained(self.options.out / "data"))
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
    try:
        report, _ = page.build(options)
    except SystemExit:  # nothing is there, which page.py says
        return
    for layout in (layout for style in ("page", *options.style) for layout in LAYOUTS[style]):
        JOBS.extend(Job(options, layout, name, drawn) for name, drawn in report.drawn.items())
    workers = min(4, len(os.sched_getaffinity(0)))
    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("fork")) as pool:
        failed = [why for why in pool.map(run_job, range(len(JOBS))) if why]
    for why in failed:
        print(f"figures: {why}", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
