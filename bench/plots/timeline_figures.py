#!/usr/bin/env python3
"""Timelines, drawn from the traces of the runs: of the report and of ./lab pipeline --plot, timeline_figures.py TRACE
FIGURE.svg"""

import pathlib
import sys

from results import seconds_text
from style import Drawing, figure_legend, save_as, subplots, title
from timeline import STEP, drawable, is_pipeline, kinds, merged, outermost, title_of

# The fill of each kind of work, and its letters. They differ in lightness as well: a black and white print keeps them
# apart.
LOOKS = {
    "computing": ("#0072B2", "", "white"),
    "forward": ("#0072B2", "", "white"),
    "backward": ("#F0B27A", "", "black"),
    "backward, input gradient": ("#F0B27A", "", "black"),
    "backward, weight gradients": ("#D3EFE4", "", "black"),
    "waiting": ("white", "//////", "black"),
    "bytes moving": ("#E69F00", "", "black"),
    "phase, or collective": ("#e8f3ec", "", "black"),
}
# Heights: of a queue's work, of its transfers below it, of regions above it; below all of these.
WORK, STRIP, REGION, GAP = 0.8, 0.26, 0.42, 0.1
EDGE = {"edgecolor": "#444444", "linewidth": 0.4}


class Timeline:
    """One axis, filled from above to below. labelled: the kinds that the legend has, also of other axes."""

    def __init__(self, axis, rows, labelled):
        self.axis, self.labelled = axis, labelled
        self.begin = min(e.begin for row in rows for e in row.all())
        self.end = max(e.end for row in rows for e in row.all())
        self.unit, self.unit_name = next(
            (u for u in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")) if self.end - self.begin >= u[0]), (1e-6, "µs")
        )

    def bars(self, spans, top, height, kind, **more):
        """spans: (begin, length) in seconds."""
        colour, hatch, _ = LOOKS[kind]
        label = None if kind in self.labelled else kind
        self.labelled.add(kind)
        scaled = [((begin - self.begin) / self.unit, length / self.unit) for begin, length in spans]
        self.axis.broken_barh(scaled, (top, height), facecolor=colour, hatch=hatch, label=label, **EDGE, **more)

    def word(self, text, event, y, ink):
        """Within the event's bar, if it fits."""
        inches = (event.end - event.begin) / (self.end - self.begin) * (self.axis.figure.get_figwidth() - 0.9)
        if 0.078 * 10 / 9 * Drawing.layout.text * len(text) < inches:
            middle = (event.begin + event.end) / 2 - self.begin
            self.axis.text(middle / self.unit, y, text, ha="center", va="center_baseline", fontsize=10, color=ink)

    def steps(self, kind, events, top):
        """A pipeline's steps, each with its microbatch; every other chunk is paler."""
        for odd, alpha in ((0, 1), (1, 0.6)):
            mine = [(e.begin, e.end - e.begin) for e in events if int(STEP.match(e.name)[3] or 0) % 2 == odd]
            if mine:
                self.bars(mine, top, WORK, kind, alpha=alpha)
        for event in events:
            self.word(STEP.match(event.name)[2], event, top + WORK / 2, LOOKS[kind][2])

    def row(self, row, top):
        """A queue; returns where its work's middle is."""
        for region in outermost(row.region):
            self.bars([(region.begin, region.end - region.begin)], top, REGION - 0.06, "phase, or collective")
            self.word(region.name, region, top + REGION / 2 - 0.03, "black")
        top += REGION if row.region else 0
        work = WORK if row.works() else 0
        for kind, events in kinds(row).items():
            if not events:
                continue
            if kind == "bytes moving":
                self.bars(merged(events, 0), top + work, STRIP, kind)
            elif kind in ("computing", "waiting"):
                self.bars(merged(events, (self.end - self.begin) / 1000), top, WORK, kind)
            else:
                self.steps(kind, events, top)
        return top + (work or STRIP) / 2


def height(row):
    return (REGION if row.region else 0) + (WORK if row.works() else 0) + (STRIP if row.transfer else 0) + GAP


def gaps_of(rows):
    """Before each row: a little more where another rank begins."""
    return [0.25 if i and row.rank != rows[i - 1].rank else 0 for i, row in enumerate(rows)]


def whole_height(rows):
    return sum(map(height, rows)) + sum(gaps_of(rows))


def fill(axis, rows, labelled):
    """A row a queue: its work, above it phases and collectives, below it what it transfers. Returns the Timeline."""
    timeline, top, places = Timeline(axis, rows, labelled), 0.0, {}
    member = "stage" if is_pipeline(rows) else "rank"
    for i, (row, gap) in enumerate(zip(rows, gaps_of(rows))):
        top += gap
        first = i == 0 or row.rank != rows[i - 1].rank
        places[timeline.row(row, top)] = f"{member} {row.rank}" if first else row.queue
        top += height(row)
    axis.set_yticks(list(places))
    axis.set_yticklabels(places.values())
    axis.tick_params(axis="y", length=0)
    axis.set_ylim(whole_height(rows), -GAP)
    axis.grid(axis="y", visible=False)
    axis.spines["left"].set_visible(False)
    axis.margins(x=0)
    return timeline


def timeline_figure(path):
    """None without a trace that can be drawn."""
    rows, _ = drawable(path) if path else ([], "")
    if not rows:
        return None
    figure, axes = subplots(1, 10, bars=whole_height(rows))
    timeline = fill(axes[0][0], rows, set())
    axes[0][0].set_xlabel(f"time, {timeline.unit_name}{legend_of_numbers(rows)}")
    if is_pipeline(rows):
        title(figure, idle_said(rows, title_of(path).partition(":")[0] or path.stem))
    figure_legend(figure, axes[0][0], 5)
    return figure


def idle_said(rows, name):
    """'1f1b: a step of 29.1 ms, of which a stage idles 27 % on average'."""
    stages = {}
    for row in rows:
        for event in row.compute:
            stages.setdefault(row.rank, []).append((event.begin, event.end))
    every = [span for spans in stages.values() for span in spans]
    step = max(end for _, end in every) - min(begin for begin, _ in every)
    busy = sum(end - begin for begin, end in every) / len(stages)
    return f"{name}: a step of {seconds_text(step)}, in which a stage idles {100 * (1 - busy / step):.0f} % on average"


def twins_figure(paths):
    """A DDP step twice on one axis, {what it is: its trace}: without overlap, and with it."""
    found = {name: drawable(path)[0] for name, path in paths.items()}
    if not all(found.values()):
        return None
    figure, axes = subplots(2, 8, bars=sum(map(whole_height, found.values())) / 2 + 1.5, stacked=True)
    labelled, lengths = set(), {}
    for axis, (name, rows) in zip(axes[0], found.items()):
        timeline = fill(axis, rows, labelled)
        lengths[name] = timeline.end - timeline.begin
        axis.set_title(f"{name}: {seconds_text(lengths[name])}", loc="left")
    for axis in axes[0]:
        axis.set_xlim(0, max(lengths.values()) / timeline.unit)
    axes[0][-1].set_xlabel(f"time, {timeline.unit_name}")
    longer, shorter = lengths.values()
    title(
        figure,
        f"Overlap hides {seconds_text(longer - shorter)} of communication: a DDP step takes"
        f" {seconds_text(shorter)}, not {seconds_text(longer)}",
    )
    figure_legend(figure, axes[0][0], 5)
    return figure


def legend_of_numbers(rows):
    if not is_pipeline(rows):
        return ""
    chunks = any(STEP.match(event.name)[3] for row in rows for event in row.compute)
    return f" (numbers: microbatches{'; paler: odd chunks' if chunks else ''})"


def main():
    path = pathlib.Path(sys.argv[1])
    figure = timeline_figure(path)
    if figure is None:
        sys.exit(drawable(path)[1])
    figure.axes[0].set_title(title_of(path), loc="left")
    save_as(figure, pathlib.Path(sys.argv[2]))


if __name__ == "__main__":
    main()
