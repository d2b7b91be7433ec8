"""Numbers that no command of ours wrote: the speedup, the efficiency and the laws of rows that somebody measured with a
program of their own, and a CSV file of such rows. Standard library only."""

import csv
import math
import re
import statistics

from laws import OF_SCALING, fitted
from sources import CONTRADICTS, MOST_PER_RANK, Results, Unusable, apart, check_speedups, counted, number

EXAMPLE = "ranks,samples_per_s,low,high\n1,100,98,102\n2,190,185,194"
RANKS = re.compile(
    r"(n_?|num_|number_of_|no_of_)?(ranks?|gpus?|accelerators|processes|procs|devices|workers)(_count)?"
    r"|np|nproc|world_?size|p"
)
NODES = re.compile(r"(n_?|num_|number_of_)?(nodes|hosts)")  # ranks, where nothing else is
PER_SECOND = r"_(per_)?(s|sec|seconds?)"
RATE = re.compile(
    rf"((?P<any>throughput)({PER_SECOND})?|(?P<what>samples|sequences|examples|images|img|tokens|tok){PER_SECOND})"
    r"(?P<each>_(per_)?(gpu|rank|device|process))?"
)
TIME = re.compile(
    r"((step|iteration|iter)_)?(time_)?(in_)?(?P<unit>seconds|secs?|s|milliseconds|ms|microseconds|us|µs)"
    r"(_per_(step|iteration|iter))?"
)
UNITS = {"m": 1e-3, "u": 1e-6, "µ": 1e-6}
OTHERS = {
    "low": re.compile(r"low|lower|lo|min|ci_low"),
    "high": re.compile(r"high|upper|hi|max|ci_high"),
    "samples": re.compile(r"n|runs|repeats|repetitions"),
    "speedup": re.compile(r"speed_?up"),
    "efficiency": re.compile(r"(parallel_|scaling_)?efficiency(_(%|percent|pct))?"),
    "scaling": re.compile(r"scaling"),
}
CONTEXT_LINE = re.compile(r"#\s*(machine|cores|compiler|versions|commit|date)\s*:\s*(.+)")
MOST_SAID = 10  # problems of a file
FALLS = 0.95  # times that on more ranks are all above this share of T(1) may be those of a problem that grows
WHAT = {"img": "images", "imgs": "images", "tok": "tokens", "toks": "tokens", "token": "tokens"}


def plain(name):
    """'Samples / sec' as 'samples_per_sec'."""
    return re.sub(r"_?/_?", "_per_", re.sub(r"[\s.()\[\]-]+", "_", name.strip().lower()).strip("_#"))


def role_of(name):
    """What a column holds: ("ranks", None), ("rate", what), ("each", what) of one rank, ("seconds", factor),
    one of OTHERS, else ("series", None)."""
    name = plain(name)
    if RANKS.fullmatch(name):
        return "ranks", None
    if match := RATE.fullmatch(name):
        what = WHAT.get(match["what"], match["what"]) or match["any"]
        return "each" if match["each"] else "rate", what
    if match := TIME.fullmatch(name):
        return "seconds", UNITS.get(match["unit"][0] if match["unit"] not in ("s", "sec", "secs") else "", 1.0)
    return next(((end, None) for end, pattern in OTHERS.items() if pattern.fullmatch(name)), ("series", None))


def value_of(text, comma):
    """A number as people and spreadsheets write it; None where it is empty; raises ValueError."""
    text = re.sub(r"(?<=\d)\s*[x×]$", "", text.strip())
    if not text or text.lower() in ("nan", "na", "n/a", "-", "–"):
        return None
    text = text.replace(".", "").replace(",", ".") if comma and "," in text else text.replace(",", "")
    value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not math.isfinite(value):
        raise ValueError
    return value


def is_number(text, comma):
    try:
        value_of(text, comma)
    except ValueError:
        return False
    return True


def separator(head):
    """What stands between the cells of a file with this first line; None: blanks."""
    return next((mark for mark in sorted(",;\t", key=head.count, reverse=True) if mark in head), None)


def cells(lines):
    """The lines in cells, as the first one has them."""
    mark = separator(lines[0]) if lines else ","
    return [line.split() for line in lines] if mark is None else list(csv.reader(lines, delimiter=mark))


def is_head(line):
    """Whether a line that begins as a comment names columns."""
    names = cells([line.lstrip("# ")])[0] if line.startswith("#") and line.strip("# ") else []
    roles = [role_of(name)[0] for name in names]
    return "ranks" in roles and len(roles) > 1 + roles.count("series")


class Table:
    """A CSV file: its columns by role, its rows, and all that is wrong with them."""

    def __init__(self, text):
        lines = [line for line in text.splitlines() if line.strip()]
        self.context = dict(match.groups() for line in lines if (match := CONTEXT_LINE.match(line)))
        lines = [line.lstrip("# ") if is_head(line) else line for line in lines]
        lines = [line for line in lines if not line.lstrip().startswith("#")]
        self.problems, self.remarks = [], []
        self.comma = bool(lines) and separator(lines[0]) != ","  # a decimal one
        self.head, *self.lines = cells(lines) or [[]]
        self.roles = {}
        for column, name in enumerate(self.head):
            self.roles.setdefault(role_of(name)[0], []).append(column)
        nodes = [column for column in self.roles.get("series", []) if NODES.fullmatch(plain(self.head[column]))]
        if nodes and "ranks" not in self.roles:
            self.roles["ranks"] = nodes[:1]
            self.roles["series"].remove(nodes[0])
            self.remarks.append("its ranks are nodes")
        # Columns that are not numbers tell series apart; other numbers are not read.
        series = self.roles.pop("series", [])
        twice = [column for role in ("rate", "each", "seconds") for column in self.roles.get(role, [])[1:]]
        if "rate" in self.roles:
            twice += self.roles.pop("each", [])
        holds_words = lambda column: any(
            column < len(line) and line[column].strip() and not is_number(line[column], self.comma)
            for line in self.lines
        )
        self.series = [column for column in series if holds_words(column)]
        unread = [self.head[column].strip() for column in sorted({*series, *twice} - {*self.series})]
        unread = [name for name in unread if name]
        if unread:
            self.remarks.append(f"not read: {', '.join(unread)}")
        self.check_head()

    def check_head(self):
        if self.head and all(is_number(name, self.comma) for name in self.head):
            self.problems.append("has no line of names: its first line holds numbers")
            return
        if "ranks" not in self.roles:
            self.problems.append("lacks a column of ranks (or gpus, processes, world_size)")
        measured = [role for role in ("rate", "each", "seconds", "speedup", "efficiency") if role in self.roles]
        unitless = [name for name in self.head if plain(name) in ("time", "step_time", "duration", "latency")]
        if not measured:
            self.problems.append(
                f"does not say the unit of {unitless[0]!r}: call it seconds or ms"
                if unitless
                else "lacks a column of what was measured: samples_per_s, tokens_per_s, seconds (or ms)"
            )
        self.problems += [
            f"has two columns of {role}: {', '.join(self.head[c] for c in columns)}"
            for role, columns in self.roles.items()
            if len(columns) > 1 and role not in ("rate", "each", "seconds")
        ]
        if not self.lines:
            self.problems.append("has no rows")

    def rows(self):
        """The rows as Results have them; what is wrong is added to `problems`."""
        found = []
        for i, line in enumerate(self.lines, 1):
            row = {"series": ", ".join(line[c].strip() for c in self.series if c < len(line))}
            for role, (column, *_) in self.roles.items():
                text = line[column] if column < len(line) else ""
                if role == "scaling":
                    row[role] = self.scaling(i, text)
                    continue
                try:
                    value = value_of(text, self.comma)
                except ValueError:
                    self.problems.append(f"row {i}: {text.strip()!r} for {self.head[column].strip()} is no number")
                    continue
                if role == "ranks" and value is not None and (value < 1 or value != int(value)):
                    self.problems.append(f"row {i}: {text.strip()} is no number of ranks")
                elif role in ("rate", "each", "seconds") and value is not None and value <= 0:
                    self.problems.append(f"row {i}: {self.head[column].strip()} is {text.strip()}, not above 0")
                elif value is not None:
                    value = value / 100 if role == "efficiency" and value > MOST_PER_RANK else value  # in per cent
                    row[role] = int(value) if role in ("ranks", "samples") else value
            if "ranks" not in row and not any(p.startswith(f"row {i}:") for p in self.problems):
                self.problems.append(f"row {i} does not say its ranks")
            found.append(self.in_units(row))
        return found

    def scaling(self, i, text):
        text = text.strip().lower()
        if text not in ("strong", "weak", ""):
            self.problems.append(f"row {i}: scaling is strong or weak, not {text!r}")
            return None
        return text or None

    def in_units(self, row):
        """low and high are those of the column measured; a rate of one rank is that of all."""
        role = next((role for role in ("rate", "each", "seconds") if role in row), None)
        out = {k: v for k, v in row.items() if k not in ("rate", "each", "seconds", "low", "high")}
        for role_of_value in (role, "seconds" if role != "seconds" and "seconds" in row else None):
            if role_of_value is None:
                continue
            what = role_of(self.head[self.roles[role_of_value][0]])[1]
            ends = ("", "low", "high") if role_of_value == role else ("",)
            values = [row.get(end) if end else row[role_of_value] for end in ends]
            if role_of_value == "seconds":
                field, factor = "seconds", what
            else:
                field, factor = f"{what}_per_second", row.get("ranks", 1) if role_of_value == "each" else 1
            for end, value in zip(ends, values):
                if value is not None:
                    out[field + (f"_{end}" if end else "")] = value * factor
        return out


def read_csv(text, name):
    """Results of a CSV file. Raises Unusable, with everything that is missing or wrong."""
    table = Table(text.removeprefix("\ufeff"))
    if table.problems:
        raise Unusable("; it ".join(table.problems) + f". A file that works:\n{EXAMPLE}")
    rows = table.rows()
    stem = name.rsplit("/", 1)[-1].rsplit(".", 1)[0]
    for row in rows:
        row["model"] = row.pop("series") or stem
    return of_rows(name, table.context, rows, table.remarks, table.problems)


def of_rows(name, context, rows, remarks=(), problems=()):
    """Results of these rows: {"model": series, "ranks", a rate, seconds or a speedup, …}, repeated runs taken together.
    Raises Unusable where they contradict themselves, or have these problems."""
    remarks, wrong, fits, done = list(remarks), [], {}, []
    rows = [row for row in rows if row.get("ranks")]
    models = dict.fromkeys(row["model"] for row in rows)
    for model in models:
        study = Study([row for row in rows if row["model"] == model])
        done += study.rows
        fits[model] = study.fits
        said = f"{model}: " if len(models) > 1 else ""
        wrong += [said + problem for problem in study.problems]
        remarks += [said + remark for remark in study.remarks]
    if wrong or problems:
        every = [*problems, *wrong]
        more = f"; and {len(every) - MOST_SAID} more" if len(every) > MOST_SAID else ""
        raise Unusable(f"{CONTRADICTS if wrong else 'has errors'}: " + "; ".join(every[:MOST_SAID]) + more)
    results = Results(name, context, [dict(row, reported=True) for row in done])
    results.fits, results.remarks = fits, remarks
    return results


class Study:
    """Rows of one program on several numbers of ranks: speedup, efficiency, Karp–Flatt and laws, and whether what is
    said of them agrees."""

    def __init__(self, rows):
        self.problems, self.remarks, self.fits = [], [], []
        self.rows = [together(mine) for mine in by_ranks(rows)]
        named = dict.fromkeys(field for row in self.rows for field in row)
        fields = [*(f for f in named if f.endswith("_per_second")), "seconds", "speedup", "efficiency"]
        self.field = next((field for field in fields if field in named), None)
        if self.field is None or any(self.field not in row for row in self.rows):
            self.lacking()
            return
        given = self.field in ("speedup", "efficiency")
        self.base = {"ranks": 1, self.field: 1.0} if given else self.rows[0]
        for row in self.rows:
            self.check_ends(row)
        self.scaling = self.scaling_of()
        for row in self.rows:
            self.derive(row)
            self.check(row)
        self.fit()

    def lacking(self):
        ranks = [counted(row["ranks"], "rank") for row in self.rows if self.field not in row]
        self.problems.append(f"on {', '.join(ranks)} there is no {self.words() if self.field else 'number'}")

    def check_ends(self, row):
        low, value, high = (row.get(f"{self.field}{end}") for end in ("_low", "", "_high"))
        if not (value if low is None else low) <= value <= (value if high is None else high):
            self.problems.append(
                f"on {counted(row['ranks'], 'rank')} {value:.4g} does not lie between"
                f" {' and '.join(f'{e} {v:.4g}' for e, v in (('low', low), ('high', high)) if v is not None)}"
            )

    def scaling_of(self):
        """strong or weak, where the rows say it, or rate and time together do; None where it makes no difference."""
        said = {row["scaling"] for row in self.rows if row.get("scaling")}
        if len(said) > 1:
            self.problems.append("some rows are of strong scaling and some of weak: tell them apart by another column")
        if said:
            return min(said)
        batches = {r["ranks"]: r[self.field] * r["seconds"] for r in self.rows if self.field in r and "seconds" in r}
        if self.field and self.field.endswith("_per_second") and len(batches) > 1:
            least = min(batches)
            for scaling, grows in (("strong", 0), ("weak", 1)):
                if all(not apart(b, batches[least] * (p / least) ** grows) for p, b in batches.items()):
                    self.remarks.append(f"{scaling} scaling, as rate times seconds says")
                    return scaling
            unit = self.field.removesuffix("_per_second")
            self.problems.append(
                f"{unit} per second times seconds is {batches[least]:.4g} {unit} on {counted(least, 'rank')} and"
                f" {batches[max(batches)]:.4g} on {max(batches)}: neither the same batch nor one per rank"
            )
        if self.field != "seconds" or len(self.rows) < 2:
            return None
        if all(row.get("seconds", 0) > FALLS * self.base["seconds"] for row in self.rows):
            self.problems.append(
                "its times do not fall with the ranks: a column scaling has to say strong (one batch, divided by the"
                " ranks) or weak (a batch for each)"
            )
            return None
        self.remarks.append("taken as strong scaling: one batch, divided by the ranks (a column scaling may say weak)")
        return "strong"

    def speed(self, row, end=""):
        """How fast this row is, in a unit of its own: a rate, or over a time; None where the file does not say."""
        value = row.get(f"{self.field}{end}")
        if value is None or self.field not in ("seconds", "efficiency"):
            return value
        if self.field == "efficiency":
            return value * row["ranks"]
        return (row["ranks"] if self.scaling == "weak" else 1) / value

    def derive(self, row):
        """Speedup over the base, whose ranks count as ideal; with ends where its value or the base's has some."""
        times, speed, alone = self.base["ranks"], self.speed(row), self.speed(self.base)
        if not speed or not alone:
            return
        row["said"] = {name: row.pop(name) for name in ("speedup", "efficiency") if name in row}
        row["speedup"] = times * speed / alone
        ends = ("_high", "_low") if self.field == "seconds" else ("_low", "_high")  # the slow one first
        if row is not self.base and any(self.field + end in one for end in ends for one in (row, self.base)):
            for name, mine, other in (("speedup_low", *ends), ("speedup_high", *ends[::-1])):
                row[name] = times * (self.speed(row, mine) or speed) / (self.speed(self.base, other) or alone)
        for end in ("", "_low", "_high"):
            if f"speedup{end}" in row:
                row[f"efficiency{end}"] = row[f"speedup{end}"] / row["ranks"]
        if self.scaling:
            row["scaling"] = self.scaling
        if row["ranks"] > 1 and self.base["ranks"] == 1:
            row["karp_flatt"] = (1 / row["speedup"] - 1 / row["ranks"]) / (1 - 1 / row["ranks"])

    def check(self, row):
        said, ranks = row.pop("said", {}), row["ranks"]
        where = f"on {counted(ranks, 'rank')}"
        speedup = row.get("speedup")
        if speedup is None:
            return
        if number(said, "speedup") and apart(said["speedup"], speedup):
            self.problems.append(
                f"a speedup of {said['speedup']:.4g} {where}, but its {self.words()} give {speedup:.4g}"
            )
        elif speedup > MOST_PER_RANK * ranks:
            self.problems.append(
                f"a speedup of {speedup:.4g} {where}, where {ranks:,} is ideal and more than {MOST_PER_RANK * ranks:,}"
                " is not believed"
            )
        if number(said, "efficiency") and self.field != "efficiency" and apart(said["efficiency"], speedup / ranks):
            self.problems.append(
                f"an efficiency of {said['efficiency']:.4g} {where}; speedup / ranks is {speedup / ranks:.4g}"
            )

    def words(self):
        what = self.field.removesuffix("_per_second")
        return what if what in (self.field, "throughput") else f"{what} per second"

    def fit(self):
        if self.base["ranks"] > 1:
            self.remarks.append(
                f"no row on 1 rank: speedups are over {counted(self.base['ranks'], 'rank')}, taken as ideal; the serial"
                " fraction (Karp–Flatt, Amdahl, Gustafson) needs the time of 1"
            )
            return
        points = {1: 1.0} | {row["ranks"]: row["speedup"] for row in self.rows if row.get("speedup")}
        laws = [OF_SCALING[self.scaling]] if self.scaling else ["amdahl", "gustafson"]
        self.fits = [fitted(law, points) for law in laws] if not self.problems else []


def of_document(results):
    """The Results of a JSON file in our form that no command of ours wrote: rows of ranks with a rate or a time are a
    study, those that have speedups get their laws."""
    rows = results.rows
    study = lambda row: (
        bool(row.get("ranks")) and any(number(row, f) for f in row if f.endswith("_per_second") or f == "seconds")
    )
    more = {"speedup", "bytes", "predicted_seconds", "compute_seconds"}
    points = {(row.get("model"), row.get("ranks")) for row in rows}
    if len(points) == len(rows) and all(study(row) and not more & row.keys() for row in rows):
        stem = results.name.rsplit("/", 1)[-1].removesuffix(".json")
        done = of_rows(results.name, results.context, [dict(row, model=str(row.get("model") or stem)) for row in rows])
        done.trace = results.trace
        return done
    check_speedups(results)
    for row in rows:
        if number(row, "speedup") and number(row, "ranks"):
            results.fits.setdefault((row.get("model"), row.get("scaling")), {1: 1.0})[row["ranks"]] = row["speedup"]
    results.fits = {
        model: [
            fitted(law, points) for law in ([OF_SCALING[scaling]] if scaling in OF_SCALING else OF_SCALING.values())
        ]
        for (model, scaling), points in results.fits.items()
    }
    results.rows = [dict(row, reported=True) for row in rows]
    return results


def by_ranks(rows):
    found = {}
    for row in rows:
        found.setdefault(row["ranks"], []).append(row)
    return [found[ranks] for ranks in sorted(found)]


def together(rows):
    """Repeated runs as one row: the median, from the least to the most, and their number."""
    if len(rows) == 1:
        return dict(rows[0])
    one = dict(rows[0], samples=len(rows))
    for field in [f for f in one if f.endswith("_per_second") or f in ("seconds", "speedup", "efficiency")]:
        values = sorted(row[field] for row in rows if row.get(field) is not None)
        one[field] = statistics.median(values)
        one[f"{field}_low"], one[f"{field}_high"] = values[0], values[-1]
    return one
