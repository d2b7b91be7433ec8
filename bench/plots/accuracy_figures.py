"""The figure of predictions on MPI processes against what was measured."""

import statistics

from accuracy import error_of
from style import look, over, subplots, title


def predicted_measured(found):
    """A point for each row of {program: rows}: hollow where the computer was not quiet. On the diagonal a prediction is
    right."""
    figure, axes = subplots(1, 6, 5)
    axis = axes[0][0]
    for i, (program, rows) in enumerate(found.items()):
        errors = [error_of(program, r) for r in rows if r.get("quiet") is not False]
        said = f"median error {100 * statistics.median(errors):.0f} %" if errors else "never quiet"
        style = {**look(i), "linestyle": "none"}
        for quiet in (True, False):
            mine = [r for r in rows if (r.get("quiet") is not False) == quiet]
            label = f"{program.replace('_', ' ')}: {said}" if quiet or not errors else None
            if mine:
                fill = {} if quiet else {"markerfacecolor": "none"}
                axis.plot(*zip(*over(mine, "predicted_seconds", "seconds")), label=label, **style, **fill)
    every = [r[field] for rows in found.values() for r in rows for field in ("seconds", "predicted_seconds")]
    axis.plot([min(every), max(every)], [min(every), max(every)], color="#bbbbbb", linewidth=1, zorder=0)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("predicted, seconds")
    axis.set_ylabel("measured, seconds")
    axis.legend(loc="upper left")
    quiet = [error_of(program, r) for program, rows in found.items() for r in rows if r.get("quiet") is not False]
    title(
        figure,
        f"Half of the measured times lie within {100 * statistics.median(quiet):.0f} % of their predictions, on a quiet"
        " computer"
        if quiet
        else "The computer was not quiet: these times say little about the predictions",
    )
    return figure


ALL = (predicted_measured,)
