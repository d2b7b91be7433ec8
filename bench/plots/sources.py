"""Files of results, judged, and in words where their numbers come from. Standard library only."""

import json
import pathlib
from dataclasses import dataclass

CONTEXT = ("machine", "cores", "compiler", "build", "versions", "commit", "date")
NUMBERS = (
    "seconds",
    "seconds_low",
    "seconds_high",
    "bytes",
    "ranks",
    "samples",
    "gb_per_s",
    "per_second",
    "speedup",
    "efficiency",
)


STUDY = "study.txt"  # launch/scaling.sbatch keeps there which study a folder holds


LONE_TRACE = "is a trace alone: called NAME.trace beside the results NAME.json of its run, it becomes a timeline"


REPORTED = "reported by you"  # rows of files that no command of ours wrote
CONTRADICTS = "contradicts itself"
ROUNDING = 0.05  # columns that somebody rounded may be this far apart
MOST_PER_RANK = (
    2  # a speedup above one per rank can be real, where each rank's share fits into its caches; twice that is none
)


class Unusable(Exception):
    """Why a file is left out, in a few words."""


@dataclass
class Results:
    name: str  # of the file, its folder in front
    context: dict
    rows: list
    trace: pathlib.Path = None  # of the same run, beside the file

    def reported(self):
        """Whether it is not ours: how its numbers were measured is not known."""
        return "lockstep" not in self.context["versions"] and self.context.get("command") != "pytorch_step"


def read(path, name):
    """A file that one of our commands wrote. Raises Unusable."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise Unusable("is no text") from None
    except json.JSONDecodeError as error:
        raise Unusable(
            f"is broken JSON, line {error.lineno}: {error.msg}" if path.stat().st_size else "is empty"
        ) from None
    except (OSError, RecursionError) as error:
        raise Unusable(f"cannot be read: {getattr(error, 'strerror', None) or 'nested too deep'}") from None
    if isinstance(document, dict) and "traceEvents" in document:
        raise Unusable(LONE_TRACE)
    if (
        not isinstance(document, dict)
        or not isinstance(document.get("context"), dict)
        or not isinstance(document.get("rows"), list)
    ):
        raise Unusable('holds no results: not of the form {"context": {…}, "rows": […]}')
    context, rows = document["context"], document["rows"]
    missing = [field for field in CONTEXT if field not in context]
    if missing:
        raise Unusable(f"does not say where it comes from: its context lacks {', '.join(missing)}")
    if not isinstance(context["versions"], dict):
        raise Unusable("has a context whose versions are no object")
    if not rows:
        raise Unusable("has no rows")
    for i, row in enumerate(rows):
        if not isinstance(row, dict):
            raise Unusable(f"has a row {i + 1} that is no object")
        for field, value in row.items():
            check_number(i, field, value)
    trace = path.with_suffix(".trace")
    results = Results(name, context, rows, trace if trace.exists() else None)
    if results.reported():
        results.rows = [dict(row, reported=True) for row in rows]
    if results.reported() or code_of(context) == "reference":  # a learner's answers may say anything
        check_speedups(results)
    return results


def number(row, field):
    """A field's value where it is a number above 0, else None."""
    value = row.get(field)
    return value if isinstance(value, (int, float)) and value > 0 else None


def serial_seconds(results, row):
    """T(1) of a row: its own, or in a file that is not ours that of its only row on one rank."""
    alone = [
        number(r, "seconds") for r in results.rows if r.get("ranks") == 1 and r.get("scaling") == row.get("scaling")
    ]
    return number(row, "serial_seconds") or (alone[0] if results.reported() and len(alone) == 1 else None)


def apart(a, b):
    return abs(a - b) > ROUNDING * max(a, b)


def check_speedups(results):
    """Raises Unusable where a speedup is impossible, or its row says otherwise."""
    for i, row in enumerate(results.rows):
        ranks, speedup, efficiency, seconds, serial = (
            *(number(row, name) for name in ("ranks", "speedup", "efficiency", "seconds")),
            serial_seconds(results, row),
        )
        if not ranks or not speedup:
            continue
        where = f"{CONTRADICTS} in row {i + 1}: a speedup of {speedup:.4g} on {counted(ranks, 'rank')}"
        times = ranks if row.get("scaling") == "weak" else 1
        if seconds and serial and apart(speedup, times * serial / seconds):
            raise Unusable(
                f"{where}, but T(1)/T(p){' · p' if times > 1 else ''} of its times, {serial:.4g} s and {seconds:.4g} s,"
                f" is {times * serial / seconds:.4g}"
            )
        if speedup > MOST_PER_RANK * ranks:
            raise Unusable(f"{where}, where {ranks:g} is ideal and more than {MOST_PER_RANK * ranks:g} is not believed")
        if efficiency and apart(efficiency, speedup / ranks):
            raise Unusable(
                f"{where} beside an efficiency of {efficiency:.4g}; speedup / ranks is {speedup / ranks:.4g}"
            )


def superlinear(results):
    """A sentence for each row whose speedup is above one per rank."""
    return [
        f"{results.name}, row {i + 1}: a speedup of {row['speedup']:.4g} on {counted(row['ranks'], 'rank')} is more"
        " than ideal. Caches can do that, and so can a T(1) that is too long: check it"
        for i, row in enumerate(results.rows)
        if number(row, "speedup") and number(row, "ranks") and row["speedup"] > 1.01 * row["ranks"]
    ]


def counted(number, word):
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def check_number(i, field, value):
    if not field.endswith(NUMBERS):
        return
    for one in value if isinstance(value, list) else [value]:
        if one is not None and (isinstance(one, bool) or not isinstance(one, (int, float))):
            raise Unusable(
                f"has {json.dumps(value, ensure_ascii=False)[:40]} for {field} in row {i + 1}, which is no number"
            )


def read_folder(folder):
    """([Results …], [(file, why not) …]) of all files in the folder and those below it, by name."""
    found, skipped = [], []
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = str(path.relative_to(folder))
        if path.suffix in (".failed", ".later") or path.suffix == ".log" and path.with_suffix(".failed").exists():
            continue  # what the page says of a step that gave no results, or did not run
        if path.suffix in (".csv", ".log", ".trace") and path.with_suffix(".json").exists():
            continue  # the same results once more, what the command printed, or the run's trace
        if path.name == STUDY:
            continue
        if path.suffix != ".json":
            skipped.append((name, LONE_TRACE if path.suffix == ".trace" else "is no .json file"))
            continue
        try:
            found.append(read(path, name))
        except Unusable as why:
            skipped.append((name, str(why)))
    return found, skipped


def failures(folder):
    """{step: (what it was to give, the last line that it printed)} of the steps that failed."""
    found = {}
    for path in sorted(pathlib.Path(folder).glob("*.failed")):
        what, _, why = path.read_text(encoding="utf-8", errors="replace").strip().partition("\n")
        found[path.stem] = (what, why or "it printed nothing")
    return found


def left_out(folder):
    """{step: what it would have given} of the steps that run with --full alone."""
    return {
        path.stem: path.read_text(encoding="utf-8").strip() for path in sorted(pathlib.Path(folder).glob("*.later"))
    }


def same_place(context):
    """Results whose contexts agree in this may share a curve: the computer, its cores, the program, what it was built
    with and whose code ran."""
    return json.dumps([context[field] for field in CONTEXT if field != "date"] + [code_of(context)], sort_keys=True)


def code_of(context):
    """Whose answers ran; what was written before contexts said so is the reference's."""
    return context.get("code", "reference")


def codes_of(found):
    """Whose answers ran in any of these results."""
    return sorted({code_of(results.context) for results in found})


def kind_of(row):
    """simulated, emulated, measured, replayed or calculated: how a row's numbers came about; reported by you, where
    that is not known."""
    if row.get("reported"):
        return REPORTED
    if row.get("emulated"):
        return "emulated"
    if "gained" in row or "path" in row or "operations" in row:
        return "replayed"
    if "measured_bytes" in row or "published_bubble_of_span" in row:
        return "simulated" if row.get("backend", "sim") == "sim" else "measured"
    if row.get("kind") in ("plan", "refused", "published") or (
        "backend" not in row and "samples" not in row and "wall_seconds" not in row
    ):
        return "calculated"
    return "simulated" if row.get("backend") == "sim" else "measured"


def span(values, unit=""):
    values = sorted(set(values))
    return (
        "" if not values else f"{values[0]:g}{unit}" if len(values) == 1 else f"{values[0]:g} to {values[-1]:g}{unit}"
    )


def how(rows):
    """'simulated on dgx-a100; measured (mpi), n = 15 to 31': how these rows came about."""
    words = {}
    for row in rows:
        kind, machine = kind_of(row), row.get("machine") or row.get("cluster")
        on = "" if machine in (None, "", "host") else str(machine)
        words.setdefault((kind, row.get("backend")), {"on": [], "n": []})
        here = words[kind, row.get("backend")]
        if on and on not in here["on"]:
            here["on"].append(on)
        if kind in ("measured", "emulated") and row.get("samples"):
            here["n"].append(row["samples"])
    parts = []
    for (kind, backend), here in words.items():
        text = kind + (
            f" on {', '.join(here['on'][:4])}" + (" …" if len(here["on"]) > 4 else "")
            if here["on"] and kind != "measured"
            else ""
        )
        text += f" ({backend})" if kind in ("measured", "emulated") and backend else ""
        parts.append(text + (f", n = {span(here['n'])}" if here["n"] else ""))
    return "; ".join(parts)


def place(context):
    """'AMD EPYC, 2 cores; GCC 12.2, Release; commit abc; 2026-11-21': where results come from, in one line."""
    versions = ", ".join(f"{name} {version}" for name, version in context["versions"].items() if name != "lockstep")
    code = "" if code_of(context) == "reference" else f"code {code_of(context)}; "
    return (
        f"{code}{context['machine']}, {context['cores']} core{'' if context['cores'] == 1 else 's'};"
        f" {context['compiler']}, {context['build']}{'; ' + versions if versions else ''}; commit {context['commit']};"
        f" {str(context['date'])[:10]}"
    )


def provenance(all_results):
    """The lines under a figure: each place once, and how its numbers came about."""
    places = {}
    for results in all_results:
        places.setdefault(place(results.context), []).extend(results.rows)
    return [f"{how(rows)} · {where}" for where, rows in places.items()]
