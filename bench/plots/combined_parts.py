"""What the page and the figures of week 25 share. Standard library only."""

import folder
from results import load_csv

STUDIES = {"strong": "strong", "strong_zero1": "strong, ZeRO-1", "weak": "weak"}  # of ./lab scale


def scaling_chart(found):
    """The Chart of these studies' speedups, from the report's results; None without them."""
    by_name = {results.name: results for results in found}
    names = [name for name in (f"scale_{study}.json" for study in STUDIES) if name in by_name]
    return folder.chart_of("speedup", [by_name[name] for name in names])


def meshes(data):
    """{(dp, tp, pp): rows of its CSV}, the serial program's first."""
    found = {tuple(map(int, path.stem.split("_")[1:])): load_csv(data, path.stem) for path in data.glob("mesh_*.csv")}
    return dict(sorted(found.items(), key=lambda item: (item[0][0] * item[0][1] * item[0][2], item[0])))


def mesh_gaps(runs):
    """For each mesh the distances of its losses from the serial program's, step by step."""
    serial = [float(r["loss"]) for r in runs[1, 1, 1]]
    return {
        mesh: [abs(float(r["loss"]) - s) for r, s in zip(rows, serial)]
        for mesh, rows in runs.items()
        if mesh != (1, 1, 1)
    }
