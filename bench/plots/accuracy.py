"""How far predictions on MPI processes are off: medians, of a report's results and of bench/report/accuracy.sh.

  python3 accuracy.py DIRECTORY

Needs nothing but Python."""

import json
import math
import os
import statistics
import sys

from results import miss
from sources import is_quiet, number

PROGRAMS = ("all_reduce", "ddp", "tp", "pipeline")


def error_of(program, row):
    """How far a row's prediction is off: relative, of a pipeline's bubble in points; None where there is no
    prediction."""
    if program == "pipeline":
        predicted, measured = row.get("predicted_bubble_of_total"), row.get("bubble_of_total")
        return None if predicted is None or measured is None else abs(predicted - measured)
    predicted, measured = row.get("predicted_seconds"), row.get("seconds")
    if predicted is None or not measured or (program == "tp" and row.get("place") != "everything"):
        return None
    error = abs(predicted / measured - 1)
    return error if math.isfinite(error) else None


def errors(folder):
    """Of each program and algorithm a list of (error, quiet)."""
    found = {}
    for name in sorted(os.listdir(folder)):
        program = name.rsplit("_", 1)[0]
        if not name.endswith(".json") or program not in PROGRAMS:
            continue
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            rows = json.load(file)["rows"]
        for row in rows:
            error = error_of(program, row)
            if error is not None:
                key = (program, row.get("algorithm") or row.get("schedule"))
                found.setdefault(key, []).append((error, row.get("quiet")))
    return found


def line(name, points, unit):
    quiet = [error for error, was_quiet in points if was_quiet]
    text = f"{name:<32} {100 * statistics.median(error for error, _ in points):6.1f} {unit:<7} {len(points):>5} rows"
    if any(was_quiet is not None for _, was_quiet in points):
        of_quiet = f"{100 * statistics.median(quiet):6.1f} {unit}" if quiet else "none"
        text += f"; in {len(quiet)} quiet ones {of_quiet}"
    return text


STEMS = {"all_reduce_mpi": "all_reduce", "ddp_mpi": "ddp", "tp_mpi": "tp"}  # files of a report: benchmarks


def predicted(data, load):
    """{program: its rows that have a prediction} of a report's results; load: results.load."""
    found = {program: load(data, stem) for stem, program in STEMS.items()}
    rows = {
        program: [
            row for row in results["rows"] if error_of(program, row) is not None and number(row, "predicted_seconds")
        ]
        for program, results in found.items()
        if results
    }
    return {program: mine for program, mine in rows.items() if mine}


def miss_of(row):
    return miss(row["predicted_seconds"], row["seconds"])


def medians(predicted):
    """A row for each program and algorithm of `predicted`."""
    rows = []
    for program, mine in predicted.items():
        for algorithm in dict.fromkeys(row["algorithm"] for row in mine):
            points = [(miss_of(row), is_quiet(row)) for row in mine if row["algorithm"] == algorithm]
            quiet = [error for error, was_quiet in points if was_quiet]
            rows.append(
                {
                    "program": program,
                    "algorithm": algorithm,
                    "rows": len(points),
                    "median": statistics.median(error for error, _ in points),
                    "quiet": len(quiet),
                    "median_quiet": statistics.median(quiet) if quiet else None,
                }
            )
    return rows


def main(folder):
    found = errors(folder)
    if not found:
        sys.exit(f"accuracy: no results in {folder}")
    print("median distance of predictions from measurements")
    for program in PROGRAMS:
        unit = "points" if program == "pipeline" else "%"
        parts = {key: points for key, points in found.items() if key[0] == program}
        if not parts:
            continue
        print(line(program, [point for points in parts.values() for point in points], unit))
        for (_, algorithm), points in sorted(parts.items(), key=lambda part: str(part[0])):
            print(line(f"  {algorithm}", points, unit))


if __name__ == "__main__":
    main(sys.argv[1])
