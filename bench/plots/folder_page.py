"""The page of ./lab report --from DIR: a section for each kind of results that the folder holds. Standard library
only."""

import html
import pathlib

from folder import TIMELINE, caption, charts, columns_of, lacking
from html_parts import note, section, table
from sources import place, superlinear


def what_was_found(found, skipped):
    """Files by the place they come from, and those that were left out, with why."""
    places = {}
    for results in found:
        places.setdefault(place(results.context), []).append(results.name)
    parts = [
        table(
            [{"place": where, "files": ", ".join(names)} for where, names in places.items()],
            {"from": "place", "files": "files"},
            text=True,
        )
    ]
    if len(places) > 1:
        parts.append(note("Results of different places never share a curve: each has figures of its own."))
    parts += [note(html.escape(f"{results.name}: {remark}.")) for results in found for remark in results.remarks]
    parts += [note(html.escape(sentence)) for results in found for sentence in superlinear(results)]
    if skipped:
        parts.append(
            note("Left out:")
            + table([{"file": name, "why": why} for name, why in skipped], {"file": "file", "why": "why"}, text=True)
        )
    return section("run", "What was found", parts)


def files_of(chart):
    names = [results.kept_as() for results in chart.files]
    return [str(pathlib.Path(name).with_suffix(".trace")) for name in names] if chart.kind is TIMELINE else names


def figure_of(report, chart):
    return report.figure(
        chart.name,
        f"{chart.kind.title}: {len(chart.rows)} rows of {', '.join(r.name for r in chart.files)}.",
        html.escape(caption(chart)),
        chart.rows,
        columns_of(chart),
        files_of(chart),
        (chart,),
        "chart",
        sources=chart.files,
        drawable=chart.kind.drawn,
        lacking=lacking(chart),
        printed=html.escape(caption(chart, printed=True)),
    )


def sections(report, found, skipped):
    parts = [what_was_found(found, skipped)]
    kinds = {}
    for chart in charts(found):
        kinds.setdefault(chart.kind.name, []).append(chart)
    for name, of_kind in kinds.items():
        kind = of_kind[0].kind
        parts.append(section(name, kind.title, [figure_of(report, chart) for chart in of_kind]))
    return parts
