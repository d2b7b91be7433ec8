"""Pieces of the report's page: sections, tables, inlined figures. Standard library only."""

import html
import re

from results import bytes_text, is_seconds, seconds_text

EVERY_NUMBER = (
    "Every number says how it came about: <b>simulated</b> in virtual time on a machine file, <b>measured</b> on the"
    " computer that is named, or <b>emulated</b> by real processes that are delayed to the modelled times. Predictions"
    " beside them come from formulas and machine files; none was fitted to what it predicts, and values that a machine"
    " file was fitted to are marked as such."
)
REPORTED = (
    " What is <b>reported by you</b> stands as in your file, or is computed from it; how it was measured is not known"
    " here."
)
STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --line: #d8dee4; --accent: #0b5394; --page: #fff;
        --head: #f6f8fa; }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --soft: #9aa7b4; --line: #3a424c; --accent: #6cb6ff; --page: #14181d; --head: #1f252c; }
  .chart svg, .findings svg { filter: invert(.91) hue-rotate(180deg); } /* drawn on white: dark, with the same hues */
  .chart { background: #171717; } /* what white becomes */
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1.5rem 1.25rem 4rem; color: var(--ink); background: var(--page);
       font: 16px/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; }
h1 { font-size: 1.9rem; margin: .5rem 0; }
h2 { margin: 3rem 0 .75rem; padding-top: .5rem; border-top: 2px solid var(--line); }
nav { display: flex; gap: .25rem 1.25rem; overflow-x: auto; white-space: nowrap; position: sticky; top: 0; z-index: 2;
      padding: .6rem 0; background: var(--page); border-bottom: 1px solid var(--line); }
a { color: var(--accent); } section { scroll-margin-top: 3rem; }
@media screen and (min-width: 96rem) { /* room for the contents beside the text */
  body { padding-left: 16rem; max-width: 91rem; }
  nav { flex-direction: column; white-space: normal; position: fixed; width: 14rem; margin-left: -15.5rem; top: 1.5rem;
        max-height: 92vh; overflow: auto; border: 0; font-size: .9rem; }
}
figure { margin: 1.5rem 0; } figure svg { display: block; width: 100%; height: auto; }
.chart { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; padding: .5rem; }
@media screen and (max-width: 36rem) {
  table:not(.text) :is(th, td):first-child { position: sticky; left: 0; z-index: 1; max-width: 8.5rem;
    white-space: normal; background: var(--page); }
  table:not(.text) th:first-child { background: var(--head); z-index: 2; }
  th, td { padding: .25rem .45rem; } section pre { white-space: pre; }
}
@media screen and (max-width: 46rem) {
  .chart::after { content: "the figure goes further to the right →"; position: sticky; left: 0; display: block;
                  color: var(--soft); font-size: .8rem; }
}
figcaption, .note { color: var(--soft); font-size: .93rem; margin: .5rem 0; max-width: 70rem; }
.where { font-size: .82rem; margin: .3rem 0; }
details { margin: .5rem 0; } summary { cursor: pointer; color: var(--accent); }
.scroll { overflow: auto; max-height: 24rem; margin: .5rem 0 1.25rem; border: 1px solid var(--line);
          border-radius: 6px; }
.whole { max-height: none; } .lead + .scroll { margin-top: 1rem; }
table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; width: 100%; }
th, td { padding: .25rem .65rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th { position: sticky; top: 0; background: var(--head); text-align: right; }
th:first-child, td:first-child { text-align: left; }
.text td, .text th { white-space: normal; text-align: left; vertical-align: top; }
.guess { white-space: nowrap !important; }
input { width: 9rem; font: inherit; padding: .1rem .3rem; border: 1px solid #8c959f; border-radius: 4px; }
button { font: inherit; padding: .3rem .9rem; } .hidden { visibility: hidden; }
.findings { display: grid; grid-template-columns: repeat(auto-fit, minmax(22rem, 1fr)); gap: .75rem 2rem; }
.findings h3 { margin: .5rem 0 .2rem; font-size: 1.05rem; }
.findings p { margin: .2rem 0; }
.findings svg { display: block; width: 100%; height: auto; }
.how { color: var(--soft); font-size: .85rem; }
.lead { font-size: 1.1rem; margin: .4rem 0; max-width: 60rem; }
.named td:first-child { white-space: nowrap; color: var(--soft); width: 11rem; }
.named code { overflow-wrap: anywhere; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .85rem; padding: .5rem .75rem; }
.words { border-left: 3px solid var(--line); padding: .1rem 0 .1rem .9rem; min-height: 2.2rem; max-width: 60rem; }
.words p { margin: .4rem 0; } .words + h3 { margin-top: 1.4rem; } code { font-size: .9em; }
@page { margin: 12mm; }
@media print {
  .lead { font-size: 11pt; } .words { min-height: 14mm; } .words, pre { break-inside: avoid; }
  body { padding: 0; font-size: 10.5pt; }
  .scroll { max-height: none; }
  nav { display: none; }
  h1 { font-size: 1.4rem; margin: 0; }
  h2, h3 { break-after: avoid; break-inside: avoid; }
  h2 { margin: .5rem 0; }
  .files { display: none; }
  .findings { grid-template-columns: 1fr 1fr; gap: .2rem 1.5rem; font-size: 9pt; line-height: 1.3; }
  .findings article { break-inside: avoid; }
  .findings h3 { font-size: 10.5pt; }
  .findings svg { width: 100%; min-width: 0 !important; height: auto; max-height: 62mm; }
  .how, .note, table, figcaption, .where { font-size: 9pt; }
  .note { margin: .2rem 0; } #words .note { break-after: avoid; }
  th, td { padding: .1rem .4rem; white-space: normal; } tr { break-inside: avoid; }
  .chart { border: 0; padding: 0; overflow: visible; }
  .chart svg { min-width: 0 !important; width: 100% !important; max-width: 100% !important; max-height: 220mm; }
  figure { margin: .5rem 0; }
  figcaption { line-height: 1.3; }
  .where { margin: .1rem 0; } pre, code { font-size: 9pt; }
  section > table, .scroll { margin: .2rem 0; border: 0; overflow: visible; }
  body:not(.full) #predict { display: none; } .full .chart svg { max-height: none; }
  #claims thead { display: none; }
  #claims table, #claims tbody { display: block; }
  #claims tr { display: block; margin: 0 0 1.5mm; break-inside: avoid; }
  #claims td { display: inline; border: 0; padding: 0; } #claims td + td::before { content: " · "; }
  figure { break-inside: avoid; } details:not([open]) { display: none; } }
"""


def cell(row, column):
    """What a table shows of a row: a field by name, in its unit, or what a function makes of the row."""
    if callable(column):
        value = column(row)
    else:
        value = row.get(column)
        if value is None:
            return "–"
        if is_seconds(column) and not isinstance(value, list):
            return seconds_text(value)
        if column in ("bytes", "bucket_bytes"):
            return bytes_text(value)
    if isinstance(value, bool):
        return "yes" if value else "–"
    return f"{value:.3g}" if isinstance(value, float) else html.escape(str(value))


def table(rows, columns, text=False, whole=False):
    """`text`: cells are sentences. `whole`: all of it is seen at once, however many rows."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{cell(row, column)}</td>" for column in columns.values()) + "</tr>" for row in rows
    )
    kind = ' class="text"' if text else ""
    return (
        f'<div class="scroll{" whole" if whole else ""}"'
        f' tabindex="0"><table{kind}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def inline_svg(path, name, alt):
    """The drawing without its XML prologue; ids get the figure's name before them, since all share one page."""
    svg = path.read_text()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r"url\(#", f"url(#{name}-", svg)
    svg = re.sub(r'href="#', f'href="#{name}-', svg)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    points = re.search(r'<svg[^>]*\bwidth="([\d.]+)pt"', svg)
    # Small figures do not fill the page; on a small screen letters of 10 points keep 12 pixels, and the figure scrolls.
    sizes = (1.6 * float(points[1]), 1.21 * float(points[1])) if points else ()
    wide = ' style="max-width: {:.0f}px; min-width: {:.0f}px"'.format(*sizes) if points else ""
    return re.sub(
        r"<svg\b",
        f'<svg role="img" data-figure="{name}" aria-label="{html.escape(alt, quote=True)}"{wide}',
        svg,
        count=1,
    )


def figure(out, name, alt, caption, shown, files, provenance=(), missing=""):
    """A drawing with its caption and table; without a drawing `missing` says why, if there is anything to say."""
    path = out / "figures" / f"{name}.svg"
    if path.exists():
        links = [
            f'<a href="figures/{name}.{kind}">{kind.upper()}</a>'
            for kind in ("svg", "pdf", "png")
            if (out / "figures" / f"{name}.{kind}").exists()
        ]
        drawing = f'<div class="chart">{inline_svg(path, name, alt)}</div>'
    elif shown or missing:
        links, drawing = [html.escape(missing)] if missing else [], ""
    else:
        return ""
    links = " · ".join(links + [f'<a href="data/{f}">{f}</a>' for f in files])
    numbers = (
        f"<details{'' if path.exists() else ' open'}><summary>The numbers</summary>{shown}</details>" if shown else ""
    )
    where = "".join(f'<p class="where">{html.escape(line)}</p>' for line in provenance)
    return (
        f"<figure>{drawing}<figcaption>{caption} <span"
        f" class='files'>({links})</span>{where}</figcaption>{numbers}</figure>"
    )


def note(text):
    return f'<p class="note">{text}</p>'


def section(name, title, parts):
    """ "" where there is nothing to show."""
    shown = "".join(parts)
    return shown and f'<section id="{name}"><h2>{html.escape(title)}</h2>{shown}</section>'


def context_table(contexts):
    """Who measured: the contexts of all results, which agree but for the date and the command."""
    first = contexts[0][1]
    versions = {k: v for _, c in contexts for k, v in c["versions"].items()}
    rows = [
        {"k": k, "v": v}
        for k, v in [
            ("processor", first["machine"]),
            ("usable cores", first["cores"]),
            ("compiler", f"{first['compiler']}, {first['build']}"),
            ("versions", ", ".join(f"{k} {v}" for k, v in versions.items())),
            ("commit", first["commit"]),
            ("date", f"{contexts[0][1]['date']}"),
            ("results", f"{len(contexts)} files in data/, each with its own context"),
        ]
    ]
    return table(rows, {"measured and simulated on": "k", "": "v"}, text=True)


def document(title, parts, full=False, reported=()):
    """The page; reported: of each file, whether it is not ours. On paper its tables are left out, and
    sheets that are filled in on the screen; full: nothing is."""
    parts = [part.replace("<details>", "<details open>") if full else part for part in parts if part]
    kind = ' class="full"' if full else ""
    links = "".join(
        f'<a href="#{name}">{text}</a>'
        for part in parts
        for name, text in re.findall(r'<section id="([\w-]+)"><h2>(.*?)</h2>', part)
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport"'
        f' content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head><body{kind}><h1>{html.escape(title)}</h1>"
        f"<p>{'' if reported and all(reported) else EVERY_NUMBER}{REPORTED if any(reported) else ''}</p>"
        f"<nav>{links}</nav>{''.join(parts)}</body></html>\n"
    )
