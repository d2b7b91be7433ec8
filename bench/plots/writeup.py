"""What a learner hands in beside the code; page.py writes it for ./lab report --week N. Standard library only.

writeup.md and writeup.html: whose code ran, what was predicted before, the figures with what each says, the week's
questions with space
for answers, and what a reader of it looks for. Figures and numbers are the report's; the words are the learner's.
"""

import html
import re

from html_parts import STYLE
from paper import plain
from predict import measured_predictions
from sources import codes_of

ASKED = "### Check yourself"

CHECKLIST = (
    "Every figure says whose code ran, and what is simulated, emulated or measured.",
    "Every prediction was written down before its measurement, and what was off by more than a tenth is explained.",
    "Formulas stand with their symbols and units; numbers have units and no more digits than are known.",
    "Measured times have a number of samples and an interval; a computer that was not quiet is named.",
    "Where a curve bends, the text says which cost takes over there, and how large it is.",
    "What limits the run is named, with the figure or the line of `./lab why` that shows it.",
    "A claim of the course that did not hold is said so, with the measurement.",
    "Somebody else could run it again: commit, machine, command.",
)


def handout(root, week):
    (folder,) = root.glob(f"labs/week{week}_*")
    return "".join((folder / page).read_text(encoding="utf-8") for page in ("README.md", "extras.md"))


def questions(text):
    """[(heading of the exercise, [question, …])] of a handout."""
    found, heading, asking = [], "", False
    for line in text.splitlines():
        if line.startswith("## "):
            heading, asking = line[3:].strip(), False
        elif line.startswith("#"):
            asking = line.strip() == ASKED
            if asking:
                found.append((heading, []))
        elif asking and re.match(r"\d+\. ", line):
            found[-1][1].append(re.sub(r"^\d+\. ", "", line))
        elif asking and found[-1][1] and line.startswith("   "):
            found[-1][1][-1] += " " + line.strip()
    return [(name, asked) for name, asked in found if asked]


def prediction_line(row):
    off = f", off by {100 * (row['guess'] / row['measured'] - 1):+.0f} %" if row["measured"] else ""
    formula = "" if row.get("formula") is None else f"; by formula {row['formula']:.4g}"
    return (
        f"{row['question'].split('/')[0]}, {row['ask']} I said {row['guess']:.4g} {row['unit']}{formula}; measured"
        f" {row['measured']:.4g} {row['unit']}{off}."
    )


def markdown(week, report, asked, rows):
    """The write-up; each empty line after a "…" is the learner's."""
    found = list(report.found.values())
    lines = [
        f"# Week {week}: what I built and what I measured",
        "",
        (
            f"Code: {'; '.join(codes_of(found))}. Commit {found[0].context['commit']}, {found[0].context['date'][:10]},"
            f" on {found[0].context['machine']}."
        ),
        "",
        "## In three sentences",
        "",
        "…",
        "",
        "## What I predicted",
        "",
    ]
    lines += [f"- {prediction_line(row)} Why: …" for row in rows] or [
        "Nothing was written down with `./lab predict` before it was measured."
    ]
    lines += ["", "## What I measured", ""]
    for entry in report.entries:
        drawn = report.out / "figures" / f"{entry.name}.png"
        lines += [
            (
                f"![{entry.name}](figures/{entry.name}.png)"
                if drawn.exists()
                else f"`{entry.name}`: its numbers are on the report's page."
            ),
            "",
            plain(entry.caption),
            "",
            *(f"*{line}*" for line in entry.provenance),
            "",
            "What it says, and where it leaves the prediction: …",
            "",
        ]
    lines += ["## Questions", ""]
    for name, of_exercise in asked:
        lines += [f"### {name}", ""]
        for number, question in enumerate(of_exercise, 1):
            lines += [f"{number}. {question}", "", "   …", ""]
    lines += ["## Before I hand it in", "", *(f"- [ ] {item}" for item in CHECKLIST), ""]
    return "\n".join(lines)


def inline(text):
    """Code and emphasis of a line of Markdown as HTML, and of links their words."""
    text = html.escape(text, quote=False)
    text = re.sub(r"`([^`]*)`", r"<code>\1</code>", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"(?<!\w)\*([^*]+)\*(?!\w)", r"<em>\1</em>", text)


def marked(text):
    """A line of Markdown as HTML, with boxes to tick and room to write."""
    text = inline(text)
    text = text.replace("[ ]", '<input type="checkbox">')
    return (
        text.replace("…", '<textarea rows="2" aria-label="your words"></textarea>')
        if text.strip().endswith("…")
        else text
    )


def page(text, figures):
    """The same for a browser, figures inlined: `figures` gives the drawing of a name, or nothing."""
    parts = []
    for line in text.splitlines():
        picture = re.match(r"!\[(.*)\]\(", line)
        heading = re.match(r"(#+) (.*)", line)
        if picture:
            parts.append(f'<div class="chart">{figures(picture[1])}</div>')
        elif heading:
            level = len(heading[1])
            parts.append(f"<h{level}>{marked(heading[2])}</h{level}>")
        elif line.strip():
            parts.append(f"<p>{marked(line.removeprefix('- '))}</p>")
    style = (
        STYLE + "textarea { display: block; width: 100%; font: inherit; margin: .3rem 0; } @media print { textarea {"
        " min-height: 3rem; border: 1px solid #ccc; } }"
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport"'
        f' content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(text.splitlines()[0].removeprefix('# '))}</title><style>{style}</style></head>"
        f"<body>{''.join(parts)}</body></html>\n"
    )


def write(report, week, root, figures):
    text = markdown(
        week,
        report,
        questions(handout(root, week)),
        [r for r in measured_predictions(report.out) if r["question"].startswith(f"{week}.")],
    )
    (report.out / "writeup.md").write_text(text, encoding="utf-8")
    (report.out / "writeup.html").write_text(page(text, figures), encoding="utf-8")
