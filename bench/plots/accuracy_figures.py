"""The figure of predictions on MPI processes against what was measured."""

import statistics

from accuracy import miss_of
from sources import is_quiet
from style import look, over, subplots, title


def said_of(rows):
    """'6 %': the median error of the quiet rows."""
    errors = [miss_of(r) for r in rows if is_quiet(r)]
    return f"{100 * statistics.median(errors):.0f} %" if errors else "no quiet row"


def sentence(found):
    """How far half of the predictions of each program are off: never one number over all, since one program may have
    most of the rows."""
    named = [(program.replace("_", "-"), said_of(rows)) for program, rows in found.items()]
    return f"Median error of predictions on a quiet computer: {'; '.join(f'{name} {said}' for name, said in named)}"


def predicted_measured(found):
    """A point for each row of {program: rows}: hollow where the computer was not quiet. On the diagonal a prediction is
    right."""
    figure, axes = subplots(1, 6, 5)
    axis = axes[0][0]
    for i, (program, rows) in enumerate(found.items()):
        quiet, other = ([r for r in rows if is_quiet(r) == was_quiet] for was_quiet in (True, False))
        label = f"{program.replace('_', '-')}: {len(quiet)} of {len(rows)} rows quiet"
        for mine, fill in ((quiet, {}), (other, {"markerfacecolor": "none"})):
            if mine:
                points = over(mine, "predicted_seconds", "seconds")
                axis.plot(*zip(*points), label=label, **{**look(i), "linestyle": "none"}, **fill)
                label = None
    every = [r[field] for rows in found.values() for r in rows for field in ("seconds", "predicted_seconds")]
    axis.plot([min(every), max(every)], [min(every), max(every)], color="#bbbbbb", linewidth=1, zorder=0)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("predicted, seconds")
    axis.set_ylabel("measured, seconds")
    axis.legend(loc="upper left")
    title(figure, sentence(found))
    return figure


ALL = (predicted_measured,)
