#!/usr/bin/env python3
"""./lab report --compare A B: python3 compare.py A B OUT. Two folders of results, row by row; writes OUT/index.html.
Standard library only.

Rows are the same where their files have the same name and they say the same of what was run. Virtual times are exact,
so any difference
counts; of measured ones those whose intervals do not touch.
"""

import collections
import html
import math
import pathlib
import sys
from dataclasses import dataclass

from html_parts import document, note, section, table
from reading import read_folder
from row_words import duration, machine, ranks, what_and_mesh
from sources import kind_of, place

TIMES = ("seconds", "step_seconds", "makespan_seconds")
# Fields that describe the run; all others are results.
SHAPE = (
    "ranks gpus bytes bucket_bytes microbatches microbatch accumulate stages stage chunks d_model layers "
    "tokens_per_rank parameters dp tp pp replicas tensor_parallel zero transfer_seconds last_stage "
    "link_gb_per_s emulate_scale density"
).split()
NOT_WHAT_RAN = ("limit", "reason", "chosen", "worst", "verified", "quiet", "fits_cores")
MOST = 200  # rows of the table
EXACT = 1e-9


@dataclass
class Pair:
    file: str
    a: dict
    b: dict

    def ratio(self):
        return time_of(self.b) / time_of(self.a)

    def differs(self):
        if kind_of(self.a) in ("simulated", "calculated", "replayed"):
            return abs(self.ratio() - 1) > EXACT
        low, high = ([r.get(f"seconds{end}", time_of(r)) for r in (self.a, self.b)] for end in ("_low", "_high"))
        return max(low) > min(high)


def time_of(row):
    """Seconds of a step, by whatever name; None where the row has none."""
    return next((row[name] for name in TIMES if isinstance(row.get(name), (int, float)) and row[name] > 0), None)


def key(row):
    """What a row says of what was run."""
    return tuple(
        (name, value)
        for name, value in sorted(row.items())
        if name not in NOT_WHAT_RAN and (isinstance(value, (str, bool)) or name in SHAPE)
    )


def by_key(results):
    """{(key, how manieth): row} of the rows that have a time."""
    seen, rows = collections.Counter(), {}
    for row in results.rows:
        if time_of(row) is not None:
            rows[key(row), seen[key(row)]] = row
            seen[key(row)] += 1
    return rows


def pairs_of(a, b):
    """(pairs, {file: rows that only one of the two has}) of two lists of Results."""
    pairs, alone = [], collections.Counter()
    first, second = ({results.name: by_key(results) for results in found} for found in (a, b))
    for name in sorted({*first, *second}):
        mine, other = first.get(name, {}), second.get(name, {})
        pairs += [Pair(name, row, other[k]) for k, row in mine.items() if k in other]
        alone[name] += len(mine.keys() ^ other.keys())
    return pairs, {name: count for name, count in alone.items() if count}


def rows(count):
    return f"{count:,} row{'' if count == 1 else 's'}"


def summary(pairs):
    """A sentence for each way that rows came about."""
    sentences = []
    for kind in dict.fromkeys(kind_of(pair.a) for pair in pairs):
        mine = [pair for pair in pairs if kind_of(pair.a) == kind]
        changed = [pair for pair in mine if pair.differs()]
        if not changed:
            sentences.append(f"{kind.capitalize()}: {rows(len(mine))}, none differs.")
            continue
        median = math.exp(sorted(math.log(pair.ratio()) for pair in changed)[len(changed) // 2])
        most = max(changed, key=lambda pair: abs(math.log(pair.ratio())))
        sentences.append(
            f"{kind.capitalize()}: {rows(len(mine))}, {len(changed):,} differ{'s' if len(changed) == 1 else ''}; B"
            f" takes {median:.3g} times as long (median of those), furthest off {most.ratio():.3g} times ({most.file})."
        )
    return sentences


def page(names, a, b):
    pairs, alone = pairs_of(a, b)
    changed = sorted((pair for pair in pairs if pair.differs()), key=lambda pair: -abs(math.log(pair.ratio())))
    where = [
        {"which": letter, "folder": str(name), "place": text}
        for letter, name, found in (("A", names[0], a), ("B", names[1], b))
        for text in sorted({place(r.context) for r in found})
    ]
    columns = {
        "file": lambda p: p["file"],
        "how": lambda p: kind_of(p["a"]),
        "machine": lambda p: machine(p["a"]),
        "p": lambda p: ranks(p["a"]),
        "what": lambda p: what_and_mesh(p["a"]),
        "A": lambda p: duration(p["a"]),
        "B": lambda p: duration(p["b"]),
        "B / A": lambda p: f"{p['ratio']:.3f}",
    }
    shown = [{"file": pair.file, "a": pair.a, "b": pair.b, "ratio": pair.ratio()} for pair in changed[:MOST]]
    parts = [
        section(
            "compared",
            "What was compared",
            [
                table(where, {"": "which", "folder": "folder", "from": "place"}, text=True),
                *(note(html.escape(s)) for s in summary(pairs)),
            ],
        )
    ]
    more = f" The first {MOST} of {len(changed):,}, those furthest apart." if len(changed) > MOST else ""
    parts.append(
        section(
            "changed",
            "What differs",
            (
                [
                    note(f"Virtual times that are not the same, and measured ones whose intervals do not touch.{more}"),
                    table(shown, columns),
                ]
                if shown
                else [note("Nothing.")]
            ),
        )
    )
    if alone:
        parts.append(
            section(
                "alone",
                "Only in one of the two",
                [
                    table(
                        [{"file": name, "rows": count} for name, count in alone.items()],
                        {"file": "file", "rows": "rows"},
                        text=True,
                    )
                ],
            )
        )
    return document("Lockstep: two reports compared", parts), summary(pairs)


def main():
    names = [pathlib.Path(name) for name in sys.argv[1:3]]
    out = pathlib.Path(sys.argv[3])
    found = [read_folder(name / "data" if (name / "data").is_dir() else name)[0] for name in names]
    for name, results in zip(names, found):
        if not results:
            sys.exit(f"report: {name} holds no results")
    text, sentences = page(names, *found)
    out.mkdir(parents=True, exist_ok=True)
    (out / "index.html").write_text(text, encoding="utf-8")
    print("\n".join(sentences))


if __name__ == "__main__":
    main()
