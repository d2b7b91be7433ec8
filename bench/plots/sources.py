"""Files of results, judged, and in words where their numbers come from. Standard library only."""

import dataclasses
import json
import pathlib
import re

CONTEXT = ("machine", "cores", "compiler", "build", "versions", "commit", "date")
NUMBERS = tuple("seconds seconds_low seconds_high bytes ranks samples gb_per_s per_second speedup efficiency".split())


REPORTED = "reported by you"  # rows of files that no command of ours wrote
CONTRADICTS = "contradicts itself"
ROUNDING = 0.05  # columns that somebody rounded may be this far apart
MOST_PER_RANK = (
    2  # a speedup above one per rank can be real, where each rank's share fits into its caches; twice that is none
)


class Unusable(Exception):
    """Why a file is left out, in a few words."""


@dataclasses.dataclass
class Results:
    name: str  # of the file, its folder in front
    context: dict
    rows: list
    trace: pathlib.Path = None  # of the same run, next to the file
    fits: dict = dataclasses.field(default_factory=dict)  # {model: [laws.Fit]} of rows that are not ours
    remarks: list = dataclasses.field(default_factory=list)  # what a reader of a file that is not ours took for granted
    kept: str = ""  # the part of the file that is kept next to the page, if not all of it

    def kept_as(self):
        """The file beside the page."""
        return f"{self.name}.json" if self.kept and not self.name.endswith((".csv", ".json")) else self.name

    def reported(self):
        """Whether it is not ours: how its numbers were measured is not known."""
        return is_reported(self.context)


def is_reported(context):
    versions = context.get("versions")
    return not (isinstance(versions, dict) and "lockstep" in versions) and context.get("command") != "pytorch_step"


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
    return json.dumps([context.get(f) for f in CONTEXT if f != "date"] + [code_of(context)], sort_keys=True)


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
    if "measured_bytes" in row:
        return "simulated" if row.get("backend", "sim") == "sim" else "measured"
    if row.get("kind") in ("plan", "refused") or (
        "backend" not in row and "samples" not in row and "wall_seconds" not in row
    ):
        return "calculated"
    return "simulated" if in_virtual_time(row) else "measured"


def in_virtual_time(row):
    """A serial run of ./lab train is on sim, too, but by the clock: then it names no machine."""
    return row.get("backend") == "sim" and row.get("machine") != ""


def is_quiet(row):
    """Whether a row's computer is known to have been quiet: its run's probes say so, and the row's own interval does
    not span more than a factor of 2. Virtual time always is."""
    if in_virtual_time(row):
        return True
    low, high = number(row, "seconds_low"), number(row, "seconds_high")
    return bool(row.get("quiet")) and not (low and high and high > 2 * low)


def span(values, unit=""):
    values = sorted(set(values))
    return (
        "" if not values else f"{values[0]:g}{unit}" if len(values) == 1 else f"{values[0]:g} to {values[-1]:g}{unit}"
    )


def without_turns(rows):
    """Those that lack turns in which the computer was not in the state that was calibrated. gloo’s lack none."""
    return [r for r in rows if number(r, "turns_left_out") and number(r, "samples") and r.get("algorithm") != "gloo"]


def turns_left_out(rows):
    """'8 to 10 of 15': the turns that rows lack; "" where they lack none."""
    left = without_turns(rows)
    turns = [r["samples"] + r["turns_left_out"] for r in left]
    return f"{span([r['turns_left_out'] for r in left])} of {span(turns)}" if left else ""


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
        text += f" ({backend})" if kind in ("measured", "emulated") and backend not in (None, "", "sim") else ""
        parts.append(text + (f", n = {span(here['n'])}" if here["n"] else ""))
    return "; ".join(parts)


def place(context):
    """'AMD EPYC, 2 cores; GCC 12.2, Release; commit abc; 2026-11-21': where results come from, in one line, as far as
    they say."""
    code, cores, versions = code_of(context), context.get("cores"), context.get("versions") or {}
    if isinstance(versions, dict):
        versions = ", ".join(f"{name} {version}" for name, version in versions.items() if name != "lockstep")
    listed = lambda *words: ", ".join(str(word) for word in words if word not in (None, ""))
    parts = [
        "" if code == "reference" else f"code {code}",
        listed(context.get("machine"), cores and f"{cores} core{'' if str(cores) == '1' else 's'}"),
        listed(context.get("compiler"), context.get("build")),
        versions,
        f"commit {context['commit']}" if context.get("commit") else "",
        str(context.get("date") or "")[:10],
    ]
    return "; ".join(part for part in parts if part) or "the file names no computer"


def computer_of(context, rows):
    """'AMD EPYC, 2 cores', or 'NVIDIA H100 80GB HBM3' of what ran on it; "" where the file names none."""
    versions = context.get("versions")
    gpu = versions.get("gpu") if isinstance(versions, dict) else None
    if gpu and any(row and row.get("backend") in ("cuda", "nccl") for row in rows):
        return gpu
    return f"{context['machine']}, {context['cores']} cores" if context.get("cores") else ""


def source_line(contexts, rows):
    """'Reference code, simulated on dgx-a100; measured on AMD EPYC, 2 cores, n = 15': whose code, how, and where, for
    the foot of a figure; "" of nothing."""
    if not contexts:
        return ""
    if rows and all(row.get("reported") for row in rows):
        return "Reported by you."
    codes = sorted({code_of(context) for context in contexts})
    computer = computer_of(contexts[0], rows)
    words = re.sub(r" \((mpi|cuda|nccl)\)", "", how([row for row in rows if row]))
    words = words.replace("measured", f"measured on {computer}" if computer else "measured", 1)
    code = "Reference code" if codes == ["reference"] else f"Code: {'; '.join(codes)}"
    end = "" if words.endswith("…") else "."
    return f"{code}, {words}{end}" if words else f"{code}."


def provenance(all_results):
    """The lines under a figure: each place once, and how its numbers came about."""
    places = {}
    for results in all_results:
        places.setdefault(place(results.context), []).extend(results.rows)
    return [f"{how(rows)} · {where}" for where, rows in places.items()]
