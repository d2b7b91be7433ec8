"""What training programs under torchrun print: how fast they are, on how many ranks. Standard library only."""

import pathlib
import re
import statistics

import reported
from sources import CONTRADICTS, Unusable, counted

NUMBER = r"(?P<value>\d[\d,]*\.?\d*(?:e[+-]?\d+)?)\s*(?P<kilo>[kM](?!s\b))?"
WHAT = r"(?P<what>samples|sequences|examples|images|imgs?|tokens?|toks?)"
EACH = r"(?P<each>\s*(?:/|per)\s*(?:gpu|rank|device|process)\b)?"
SECOND = r"\s*(?:/|_per_| per )\s*(?:second|sec|s)\b"
# Before the number, or after it; the first pattern that a line matches counts.
RATES = [
    re.compile(pattern, re.I)
    for pattern in (
        rf"CurrSamplesPerSec\s*=\s*{NUMBER}",  # DeepSpeed
        rf"\b(?P<tps>tps)\s*[:=]\s*{NUMBER}",  # torchtitan: tokens per second of one device
        rf"train_{WHAT}_per_second['\"]?\s*[:=]\s*{NUMBER}",  # transformers' Trainer
        rf"{NUMBER}\s*{WHAT}{SECOND}{EACH}",
        rf"\b{WHAT}{SECOND}{EACH}['\")\]]*\s*[:=]?\s*{NUMBER}",
    )
]
TIMES = [
    re.compile(pattern, re.I)
    for pattern in (
        rf"elapsed time per iteration \((?P<unit>ms|s)\)\s*[:=]\s*{NUMBER}",  # Megatron-LM
        rf"(?<![a-z])(?:step|iter(?:ation)?)[ _]?tim(?:e|ing)\s*(?:in |\()?(?P<unit1>ms|s)?\)?\s*[:=]?\s*{NUMBER}"
        r"\s*(?P<unit2>ms|s)?\b",
        rf"\btime\s+{NUMBER}\s*\(\s*[\d.]+\)",  # pytorch/examples: seconds, and their mean
        rf"\b(?:dt|time)\s*[:=]?\s*{NUMBER}\s*(?P<unit>ms|s)\b",
        rf"{NUMBER}\s*(?P<unit>ms|s)\s*/\s*(?:step|it|iter|iteration)\b",
    )
]
RANKS = [
    re.compile(pattern, re.I)
    for pattern in (
        r"\bworld[ _-]?size['\"]?\s*[:=]?\s*(\d+)",
        r"\bnum[ _-]?(?:gpus|processes|ranks|devices)['\"]?\s*[:=]\s*(\d+)",
        r"\b(?:on|using|with)\s+(\d+)\s+(?:gpus?|ranks|processes|devices)\b",
    )
]
PER_NODE = re.compile(r"nproc[-_]per[-_]node[= ]+(\d+)")
NODES = re.compile(r"nnodes[= ]+(\d+)")
NAMED = re.compile(
    r"(?:(?P<before>\d+)[-_ ]?(?:gpus?|ranks?|procs?|processes|workers|devices)"
    r"|(?<![a-z])(?:gpus?|ranks?|procs?|np|nproc|world(?:_size)?|ws|n|p)[-_=]?(?P<after>\d+))(?![a-z\d])",
    re.I,
)
LAST_NUMBER = re.compile(r"(?:^|[-_ ])(\d+)$")
COLOUR = re.compile(r"\x1b\[[\d;]*m")
RANK_OF_LINE = re.compile(r"^\s*\[(?:default|rank)(\d+)\]\s*:?", re.I)  # torchrun --tee, torch.distributed


def rates(text):
    """({field of a row: [values]}, whether each is of one rank) of a log's lines: rates, else times; of the lowest rank
    that prints any, where lines say whose they are."""
    for patterns, read in ((RATES, rate_in), (TIMES, time_in)):
        by_rank = {}
        for line in COLOUR.sub(" ", text).splitlines():
            match = next((m for m in (pattern.search(line) for pattern in patterns) if m), None)
            if match:
                rank = RANK_OF_LINE.match(line)
                field, value, each = read(match)
                if value > 0:
                    by_rank.setdefault(int(rank[1]) if rank else 0, {}).setdefault((field, each), []).append(value)
        if by_rank:
            found = by_rank[min(by_rank)]
            (field, each), values = max(found.items(), key=lambda item: len(item[1]))
            return field, each, values
    return None, False, []


def value_in(match):
    return float(match["value"].replace(",", "")) * {"k": 1e3, "K": 1e3, "M": 1e6}.get(match["kilo"], 1)


def rate_in(match):
    parts = match.groupdict()
    what = "tokens" if parts.get("tps") else (parts.get("what") or "samples").lower()
    return f"{reported.WHAT.get(what, what)}_per_second", value_in(match), bool(parts.get("tps") or parts.get("each"))


def time_in(match):
    parts = match.groupdict()
    unit = next((parts[name] for name in ("unit", "unit1", "unit2") if parts.get(name)), "s")
    return "seconds", value_in(match) * (1e-3 if unit.lower() == "ms" else 1), False


def ranks_of(name, text):
    """(ranks, the name without them) of a log: what it prints, else what the file or its folder is called; None where
    neither says it."""
    path = pathlib.PurePosixPath(name)
    parts = [*path.parts[:-1], path.stem]
    rest, named = list(parts), None
    for i in reversed(range(len(parts))):
        match = NAMED.search(parts[i]) or (LAST_NUMBER.search(parts[i]) if i == len(parts) - 1 else None)
        if match:
            named = int(next(group for group in match.groups() if group))
            rest[i] = (parts[i][: match.start()] + parts[i][match.end() :]).strip("-_. ")
            break
    said = {int(m[1]) for pattern in RANKS for m in pattern.finditer(text)}
    per_node, nodes = PER_NODE.search(text), NODES.search(text)
    if not said and per_node:
        said = {int(per_node[1]) * (int(nodes[1]) if nodes else 1)}
    if named and said and named not in said:
        raise Unusable(
            f"{CONTRADICTS}: it is called {path.name} and prints a world size of {', '.join(map(str, sorted(said)))}"
        )
    return named or (max(said) if said else None), "/".join(part for part in rest if part)


def row_of(name, text):
    """A row of the study: what this log says. Raises Unusable."""
    field, each, values = rates(text)
    if not values:
        raise Unusable("is a log that prints no throughput (such as 'samples/s: 812') and no time per step")
    ranks, rest = ranks_of(name, text)
    if ranks is None or ranks < 1:
        raise Unusable(
            f"prints {field.replace('_', ' ')} and not on how many ranks: call it {pathlib.PurePosixPath(name).stem}"
            "_8gpus.log, or print world_size=8"
        )
    values = sorted(value * (ranks if each else 1) for value in values)
    low, high = order_statistics(values)
    row = {"model": rest, "ranks": ranks, field: statistics.median(values), "samples": len(values), "log": name}
    return row | ({f"{field}_low": low, f"{field}_high": high} if len(values) > 1 else {})


def order_statistics(values):
    """The ends of the median's 95 % interval, of sorted values; below 6 of them, of all."""
    k, n, tail = 1, len(values), 2.0 ** -len(values) if len(values) < 1000 else 0.0
    term = tail
    for i in range(1, n // 2):  # P(X ≤ i) of a fair coin thrown n times
        term *= (n - i + 1) / i
        tail += term
        if 1 - 2 * tail < 0.95:
            break
        k = i + 1
    return values[k - 1], values[n - k]


def of_logs(logs):
    """([Results], [(file, why not)]) of {name: text}: the logs of one unit are one study, with a curve for each name
    that is left when the ranks are taken from it."""
    rows, skipped = [], []
    for name, text in logs.items():
        try:
            rows.append(row_of(name, text))
        except Unusable as why:
            skipped.append((name, str(why)))
    found = []
    for field in dict.fromkeys(field_of(row) for row in rows):
        mine = [row for row in rows if field_of(row) == field]
        models = [row["model"] for row in mine]
        if len(set(models)) == len(models):  # names that differ in more than their ranks
            mine = [dict(row, model="logs") for row in mine]
        name = f"logs_{field}.csv"
        try:
            results = reported.of_rows(name, {}, [{k: v for k, v in row.items() if k != "log"} for row in mine])
        except Unusable as why:
            skipped += [(row["log"], str(why)) for row in mine[:1]]
            continue
        results.kept = as_csv(field, mine)
        results.remarks.insert(0, said_of(field, mine))
        found.append(results)
    return found, skipped


def field_of(row):
    return next(field for field in row if field.endswith("_per_second") or field == "seconds")


def said_of(field, rows):
    words = "a step's seconds" if field == "seconds" else field.replace("_", " ")
    total = "" if field == "seconds" else ", times the ranks where a log says per GPU, else taken as those of all ranks"
    return (
        f"read from {counted(len(rows), 'log')}: the median of the lines that print {words}{total};"
        " low and high are the ends of its order statistics"
    )


def as_csv(field, rows):
    """What was read, as a file that can be read again."""
    head = ["series", "ranks", field, "low", "high", "n"]
    fields = ("model", "ranks", field, f"{field}_low", f"{field}_high", "samples")
    shown = lambda value: f"{value:.6g}" if isinstance(value, float) else str(value)
    lines = [",".join(head), *(",".join(shown(row.get(f, "")) for f in fields) for row in rows)]
    return f"# read from {', '.join(row['log'] for row in rows)}\n" + "\n".join(lines) + "\n"
