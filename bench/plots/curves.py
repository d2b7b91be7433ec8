"""Which rows of results are points of one curve, and what it is called: rows that differ in more than x stand apart.
Standard library only."""

import re

from gradients import ring_is_one
from results import bytes_text, seconds_text
from row_words import MESH, n_of, on, what


def problem(row):
    """'65,536 tokens' of all ranks (strong scaling), or of each (weak): what a point of a speedup computes; "" where it
    does not say."""
    ranks, weak = row.get("ranks") or 1, row.get("scaling") == "weak"
    if row.get("tokens_per_rank"):
        tokens = row["tokens_per_rank"] * (1 if weak else ranks)
    elif row.get("tokens_per_second") and row.get("seconds"):  # lab scale: of the global batch
        tokens = row["tokens_per_second"] * row["seconds"] / (ranks if weak else 1)
    else:
        return ""
    return f"{round(tokens):,} tokens{' per rank' if weak else ''}"


def speedups(rows):
    """{label: rows} over ranks, each of one problem: of the rows that are points of a speedup: of several ranks, and
    not refused."""

    def name(row):
        more = what(row) if row.get("algorithm") not in (None, "overlap") else ""
        where = "" if row.get("reported") and row.get("model") else on(row)  # a name that somebody chose is enough
        return ", ".join(
            p for p in (f"{row.get('scaling') or ''} {more}".strip(), row.get("model"), problem(row), where) if p
        )

    return curves(
        [r for r in rows if r["speedup"] is not None and r.get("algorithm") not in ("serial", "compute")], "ranks", name
    )


def bandwidths(rows):
    """{label: rows} over bytes."""
    mine = [r for r in rows if r["bytes"]]
    shared = shared_facts(mine)
    return curves(
        mine,
        "bytes",
        lambda r: ", ".join([what(r).replace("_", " "), *(fact for fact in facts(r) if fact not in shared)]),
    )


def facts(row):
    return [f"p = {row['ranks']}", on(row)]


def shared_facts(rows):
    """What all curves of bandwidths have in common, and so stands in the caption: ranks, place, samples."""
    lists = [facts(r) for r in rows if r["bytes"]]
    return [fact for fact in (lists[0] if lists else []) if all(fact in others for others in lists)]


def in_all(rows):
    """'All: p = 2, measured, n = 31.'"""
    shared, counts = shared_facts(rows), n_of([r for r in rows if r["bytes"]])
    return f" All: {', '.join(shared)}{counts}." if shared and len(rows) > 1 else ""


def bubbles(rows):
    """{label: rows} over microbatches."""
    hop = lambda r: f", hop {seconds_text(r['transfer_seconds'])}" if r.get("transfer_seconds") else ""
    return (
        curves(rows, "microbatches", lambda r: f"{r['schedule']}, {r['stages']} stages{hop(r)}, {on(r)}")
        if len({r["microbatches"] for r in rows}) > 1
        else {}
    )


def compressed_sums(rows):
    """{where: rows} of compressed sums that have a ring beside them; where two files have the same point, the second
    one's stand apart."""
    name = lambda r: f"{on(r)}, {bytes_text(r['bytes'])}"
    found = curves([dict(r, point=(r["algorithm"], r["ranks"])) for r in rows], "point", name)
    return {where: mine for where, mine in found.items() if ring_is_one(mine, "seconds")}


def throughputs(rows):
    """{label: rows} of curves over ranks, of one model each, cut in one way; one that has a single point has its table
    alone."""

    def name(row):
        size = f"{row['parameters'] / 1e6:.4g} M parameters" if row.get("parameters") else ""
        cut = " ".join(
            f"{letters} {row[field]}" for field, letters in MESH if letters != "dp" and (row.get(field) or 1) > 1
        )
        more = what(row) if row.get("algorithm") else row.get("compress")
        return ", ".join(p for p in (str(row.get("model") or size), cut, more, on(row)) if p)

    return {
        label: mine
        for label, mine in curves([r for r in rows if r.get("ranks")], "ranks", name).items()
        if len(mine) > 1
    }


def curves(rows, x, name):
    """{label: rows} of curves over field x: rows of one name, and where two files have the same point, a curve for each
    file."""
    found = {}
    for row in rows:
        label = name(row)
        if any(other[x] == row[x] for other in found.get(label, [])):
            label += f" [{re.sub(r'[.]json$', '', row['file'])}]"
        found.setdefault(label, []).append(row)
    return found
