"""./lab report --run DIR: the page of one training run, from the files that ./lab train --page DIR kept in DIR/data.
Standard library only.

What the run's files say is made again each time. words.md beside the page is the learner's and stays as it is.
"""

import csv
import html
import pathlib
import re
import sys

from folder import KINDS, PARTS, Chart, Kind, chart_of
from folder_page import figure_of
from html_parts import context_table, note, section, table
from reading import read
from results import amount, decimal_text, off, percent, seconds_text
from roofline import ROOFS, operations_of_trace
from roofline import chart as roofline_chart
from row_words import has_width, mesh, times, what_and_mesh
from sources import Unusable, code_of, counted, how
from writeup import inline

FILES = {  # of DIR/data: what the page lacks without it
    "run.json": "configuration, speed, memory and versions",
    "run.csv": "the losses",
    "scale.json": "the speed on one rank and the scaling efficiency",
    "why.json": "what each cost takes of a step",
    "why.txt": "what limits the run",
}
LOSSES = Kind(
    "losses",
    "Losses",
    lambda r: "loss" in r,
    "Loss of the global batch at each step, and on the validation text.",
    {"step": "step", "loss": "loss", "validation": "validation_loss", "gradient norm": "gradient_norm"},
)
TEMPLATE = """# In my own words

Write below each question. `./lab report --run {folder}` puts it on the page, and never changes this file.

## Summary
> Three sentences: which model, on how many GPUs of which kind? How fast, and with how much memory? What limited it?

## What I predicted before the run
> Step time, tokens per second, memory of the fullest GPU, and why.

## What limited it, and how I know
> Quote the line or the figure that proves it. Where a prediction was off by more than a tenth, which term was wrong?

## What I would change
> One change, what `./lab plan` or a phantom run says it gains, and what it costs.

## Paper notes: ZeRO
> What does each stage shard, what does it save, and what does it send?

## Paper notes: FSDP
> When are parameters gathered and freed, and what does wrapping decide?

## Failure modes
> What went wrong on the way, how it showed, and what fixed it.

## Self-assessment
- [ ] I can compute the training memory of any transformer.
- [ ] I can explain what each ZeRO stage shards.
- [ ] I can launch a job on several GPUs.
"""


class Run:
    """The files of a run, as far as they are there: each Results or text, or None; and a sentence for each that is
    not."""

    def __init__(self, out):
        self.data, self.lacks = out / "data", []
        found = {name: self.one(name) for name in FILES}
        self.row = found["run.json"].rows[0] if found["run.json"] else {}
        self.result, self.scale, self.gains = found["run.json"], found["scale.json"], found["why.json"]
        self.why, self.losses = found["why.txt"] or "", found["run.csv"] or []
        self.predicted = self.one("predicted.json") if (self.data / "predicted.json").exists() else None
        typed = self.data / "command.txt"
        self.command, code = (
            (typed.read_text(encoding="utf-8").splitlines() + ["", ""])[:2] if typed.exists() else ("", "")
        )
        self.stopped = next((line[10:] for line in self.why.splitlines() if line.startswith("stopped ")), "")
        if not self.stopped and code not in ("", "0"):
            self.stopped = f"with exit code {code}"
        if self.row.get("ranks") == 1:
            self.lacks = [said for said in self.lacks if not said.startswith("scale.json")]

    def one(self, name):
        path = self.data / name
        try:
            if not path.exists():
                raise Unusable("is missing")
            if name.endswith(".json"):
                return read(path, name)
            text = path.read_text(encoding="utf-8")
            return list(csv.DictReader(text.splitlines())) if name.endswith(".csv") else text
        except (Unusable, UnicodeDecodeError) as why:
            if name != "why.json" or "no rows" not in str(why):  # a run that stopped in its first step
                self.lacks.append(f"{name} {why}, so the page lacks {FILES.get(name, 'what was predicted')}.")
            return None

    def results(self):
        return [one for one in (self.result, self.scale, self.gains, self.predicted) if one]

    def serial(self):
        return next((row for row in self.scale.rows if row.get("best")), None) if self.scale else None

    def parallel(self):
        return next((row for row in self.scale.rows if row["ranks"] > 1), None) if self.scale else None


def number(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


def memory_rows(row):
    return [
        {
            "category": name,
            "predicted_bytes": row.get(f"predicted_{stem}_bytes"),
            "measured_bytes": row[f"{stem}_bytes_peak"],
        }
        for name, stem in PARTS.items()
        if row.get(f"{stem}_bytes_peak") is not None
    ]


def charts(run):
    """What is drawn of the run: the same kinds of figures as of a folder, and the losses."""
    found = []
    if run.scale:
        found.append(chart_of("breakdown", [run.scale], lambda r: r.get("best") is not False))
    if run.gains:
        found.append(chart_of("gains", [run.gains]))
    place = {field: run.row.get(field) for field in ("backend", "machine", "ranks")} | {"file": "run.json"}
    rows = [place | r for r in memory_rows(run.row) if r["predicted_bytes"] is not None]
    if rows:
        (kind,) = (kind for kind in KINDS if kind.name == "bytes")
        found.append(Chart(kind, "memory", [run.result], rows))
    losses = [place | {name: number(value) for name, value in row.items()} for row in run.losses]
    if run.result and any(row.get("loss") is not None for row in losses):
        found.append(Chart(LOSSES, "losses", [run.result], losses))
    if run.result:
        found.append(roofline(run))
    return [chart for chart in found if chart]


def roofline(run):
    trace = run.data / "run.trace"
    place = {field: run.row.get(field) for field in ("backend", "machine", "ranks", *ROOFS)}
    return roofline_chart(run.result, operations_of_trace(trace) if trace.exists() else [], **place)


def rate(row):
    """'8.75 k (8.7 k to 8.8 k)': tokens per second, with the interval of the step's time."""
    text = short(row["tokens_per_second"])
    if not has_width(row, "seconds"):
        return text
    tokens = row["tokens_per_second"] * row["seconds"]
    return f"{text} ({short(tokens / row['seconds_high'])} to {short(tokens / row['seconds_low'])})"


def short(value):
    for unit, size in ((" G", 1e9), (" M", 1e6), (" k", 1e3)):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def efficiency(row):
    """'92.0 % (90.1 to 94.0 %)', or why there is none."""
    if row.get("efficiency") is None:
        return "none: ranks share cores"
    if not has_width(row, "efficiency"):
        return percent(row["efficiency"])
    return f"{percent(row['efficiency'])} ({100 * row['efficiency_low']:.1f} to {percent(row['efficiency_high'])})"


def lead(run):
    """The run in a few sentences, all from its files."""
    row, said = run.row, []
    if run.stopped:
        said.append(f"<b>This run stopped</b> {html.escape(run.stopped)}.")
    if row.get("seconds"):
        said.append(
            f"A model of {short(row['parameters'])} parameters on {counted(row['ranks'], 'rank')}"
            f" ({html.escape(what_and_mesh(row))}) trains at <b>{short(row['tokens_per_second'])} tokens/s</b>."
            f" A step takes {seconds_text(row['seconds'])}, {html.escape(how([row]))}."
        )
    if run.parallel():
        said.append(f"Efficiency against one rank: <b>{efficiency(run.parallel())}</b>.")
    rows = memory_rows(row)
    if rows:
        total = sum(r["measured_bytes"] for r in rows)
        known = [r["predicted_bytes"] for r in rows if r["predicted_bytes"] is not None]
        beside = f", predicted {decimal_text(sum(known))}" if len(known) == len(rows) else ""
        said.append(f"Memory of a rank: <b>{decimal_text(total)}</b>{beside}.")
    limit = next((line[10:] for line in run.why.splitlines() if line.startswith("limit ")), "")
    if limit:
        said.append(html.escape(limit[0].upper() + limit[1:]))
    return "".join(f'<p class="lead">{sentence}</p>' for sentence in said)


def money(row, price):
    """What a billion tokens cost at this speed, where each rank costs `price` an hour."""
    if not price or not row.get("tokens_per_second"):
        return ""
    hours = 1e9 / row["tokens_per_second"] * row["ranks"] / 3600
    return note(
        f"A billion tokens take {amount(hours)} hours of a rank at this speed, and cost"
        f" <b>{amount(hours * price)}</b> at {price:.2f} for a rank and hour."
    )


def configuration(run):
    row, context = run.row, run.result.context
    said = {"whose code": code_of(context), "model": context.get("model"), "recomputed": context.get("recompute")}
    said["data"] = pathlib.PurePath(context.get("data") or "").name
    if row.get("batch_sequences"):
        said["batch"] = f"{row['batch_sequences']} sequences of {row['sequence_tokens']} tokens"
        said["microbatches per replica"] = row["accumulate"]
    said["mesh"] = " × ".join(f"{name} {size}" for name, size in mesh(row).items())
    if row.get("zero"):
        said["ZeRO stage"] = row["zero"]
    if (row.get("stages") or 1) > 1:
        said["pipeline"] = f"{row['schedule']}, {counted(row['stages'], 'stage')}"
    if row["ranks"] > 1:
        said["overlap"] = "yes" if row.get("overlap") else "no"
    said["precision"] = f"{context.get('precision', '')}, sums in {context.get('reduce', '–')}"
    said["optimizer"] = f"{row.get('optimizer')}, learning rate {context.get('learning_rate')}"
    said["steps, seed"] = f"{row.get('steps')}, {context.get('seed')}"
    values = {name: html.escape(str(value)) for name, value in said.items() if value not in (None, "")}
    return listed({"command": f"<code>{html.escape(run.command)}</code>"} | values)


def listed(values):
    rows = "".join(f"<tr><td>{name}</td><td>{value}</td></tr>" for name, value in values.items() if value)
    return f'<div class="scroll whole" tabindex="0"><table class="text named"><tbody>{rows}</tbody></table></div>'


def speed(run):
    rows = [row for row in (run.serial(), run.parallel()) if row]
    if not rows:
        return note("It ran on one rank, which has no scaling efficiency.") if run.row.get("ranks") == 1 else ""
    columns = {
        "program": "program",
        "ranks": "ranks",
        "tokens/s": rate,
        "step": times("seconds"),
        "speedup": times("speedup"),
        "efficiency": lambda r: efficiency(r) if r["ranks"] > 1 else "–",
        "n": "samples",
    }
    last = rows[-1]
    kind, share = ("Weak", "its share of the batch") if last.get("scaling") == "weak" else ("Strong", "the whole batch")
    said = [
        f"{kind} scaling, {html.escape(how([last]))}. One rank has {share} and runs the best serial program. Efficiency"
        " is the speed of all ranks over p times the speed of one. Brackets are 95 % intervals, where times vary."
    ]
    if last.get("diagnosis"):
        said.append(html.escape(last["diagnosis"]) + ".")
    return table(rows, columns) + "".join(map(note, said))


def against(run):
    """The run beside a prediction made before it: ./lab train --phantom --json DIR/data/predicted.json."""
    if not run.predicted or not run.row:
        return ""
    before, after = run.predicted.rows[0], run.row
    fields = {"step": ("seconds", seconds_text), "tokens/s": ("tokens_per_second", short), "MFU": ("mfu", percent)}
    rows = [
        {"what": name, "predicted": show(before[f]), "run": show(after[f]), "error": off(before[f], after[f])}
        for name, (f, show) in fields.items()
        if before.get(f) and after.get(f)
    ]
    columns = {name: name for name in ("what", "predicted", "run", "error")}
    when = run.predicted.context["date"][:10]
    return table(rows, columns) + note(f"Predicted {html.escape(how([before]))}, {html.escape(when)}.")


def memory(run):
    rows = memory_rows(run.row)
    if not rows:
        return ""
    shown = lambda name: lambda r: "–" if r[name] is None else decimal_text(r[name])
    columns = {
        "of a rank": "category",
        "predicted": shown("predicted_bytes"),
        "ledger, peak": shown("measured_bytes"),
        "error": lambda r: off(r["predicted_bytes"], r["measured_bytes"]),
    }
    driver = number(run.result.context.get("gpu_used_bytes"))
    if not driver:
        return table(rows, columns)
    return table(rows, columns) + note(
        f"The driver says that {decimal_text(driver)} of the GPU are in use. The ledger’s peaks add up to"
        f" {decimal_text(sum(r['measured_bytes'] for r in rows))}. The rest is the CUDA context, the libraries’"
        " workspaces and what the pool keeps."
    )


def words(out):
    """The learner's file as HTML; the template is written where there is none."""
    path = out / "words.md"
    if not path.exists():
        path.write_text(TEMPLATE.format(folder=out), encoding="utf-8")
    parts = [
        note(
            "You write this in <code>words.md</code>, beside this page. No command changes that file, and"
            f" <code>./lab report --run {html.escape(str(out))}</code> shows what you wrote."
        )
    ]
    for title, text in re.findall(r"^## (.*)\n((?:(?!## ).*\n?)*)", path.read_text(encoding="utf-8"), re.M):
        asked = [line[1:].strip() for line in text.splitlines() if line.startswith(">")]
        answer = "\n".join(line for line in text.splitlines() if not line.startswith(">")).strip()
        paragraphs = "".join(map(paragraph, re.split(r"\n *\n", answer)))
        parts.append(f"<h3>{inline(title)}</h3>" + "".join(note(inline(line)) for line in asked))
        parts.append(f'<div class="words">{paragraphs}</div>')
    return section("words", "In my own words", parts)


def paragraph(text):
    lines = []
    for line in text.splitlines():
        box = re.match(r"- \[([ xX])\] (.*)", line)
        if box:
            lines.append(f"<br>{'&#9744;' if box[1] == ' ' else '&#9745;'} {inline(box[2])}")
        else:
            lines.append(("<br>&bull; " + inline(line[2:])) if line.startswith("- ") else inline(line))
    return f"<p>{' '.join(lines).removeprefix('<br>')}</p>" if text.strip() else ""


def sections(report, out):
    """The page's parts. Ends the program where there is no run."""
    run = Run(out)
    if not run.result and not run.why:
        sys.exit(f"report: --run {out}: it has no data/run.json, which ./lab train … --page {out} writes")
    report.remarks += run.lacks
    drawn = {chart.name: figure_of(report, chart) for chart in charts(run)}
    why = f'<pre class="scroll whole" tabindex="0">{html.escape(run.why)}</pre>' if run.why else ""
    parts = [section("run", "The run", [lead(run), *(note(html.escape(said)) for said in run.lacks)])]
    if run.result:
        versions = context_table([(r.name, r.context) for r in run.results()])
        parts.append(section("configuration", "Configuration", [configuration(run)]))
        parts.append(
            section(
                "speed",
                "Speed and scaling",
                [speed(run), money(run.row, report.price), against(run), drawn.get("breakdown", "")],
            )
        )
        parts.append(section("memory", "Memory, predicted and observed", [memory(run), drawn.get("memory", "")]))
    parts.append(section("limit", "What limits it", [why, drawn.get("gains", ""), drawn.get("roofline", "")]))
    if run.result:
        parts.append(section("losses", "Losses", [drawn.get("losses", "")]))
        parts.append(section("versions", "Versions", [versions]))
    return [*parts, words(out)]
