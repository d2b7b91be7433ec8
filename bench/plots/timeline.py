"""A trace as the report reads it: rows of events, one row a queue of a rank. Standard library only."""

import json
import re
from dataclasses import dataclass, field

MOST_ROWS = 40
STEP = re.compile(r"([FBIW])(\d+)(?:\.(\d+))?$")  # of a pipeline: its work, microbatch, chunk
LINK = re.compile(
    r"(down|up) (even|odd|around)(?:, back)?$"
)  # a queue of a pipeline's link (24.1), and which way it goes
WORK = {"F": "forward", "B": "backward", "I": "backward, input gradient", "W": "backward, weight gradients"}


@dataclass
class Event:
    name: str
    begin: float  # seconds
    end: float


@dataclass
class Row:
    """A queue of a rank; without work, its transfers alone."""

    rank: int
    queue: str
    compute: list = field(default_factory=list)
    wait: list = field(default_factory=list)
    transfer: list = field(default_factory=list)
    region: list = field(default_factory=list)

    def works(self):
        return bool(self.compute or self.wait)

    def all(self):
        return self.compute + self.wait + self.transfer + self.region


def rows_of(path):
    """The Rows of a file in Chrome's trace-event format that one of our commands wrote, by rank, then as they stand
    there."""
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    queues = {
        (e["pid"], e["tid"]): re.sub(r"(: transfers)?( \(\d+\))?$", "", e["args"]["name"])
        for e in events
        if e["name"] == "thread_name"
    }
    rows = {}
    spans = [e for e in events if e["ph"] == "X"]
    pipeline = all(STEP.match(e["name"]) for e in spans if e["cat"] == "compute")
    for e in spans:
        queue, event = queues[e["pid"], e["tid"]], Event(e["name"], e["ts"] / 1e6, (e["ts"] + e["dur"]) / 1e6)
        link = LINK.match(queue) if pipeline and e["cat"] == "transfer" else None
        for key, moved in messages_of(e, event, link[1]) if link else [((e["pid"], queue), event)]:
            if not link or moved.end > moved.begin:
                getattr(rows.setdefault(key, Row(*key)), e["cat"]).append(moved)
    order = lambda key: (key[0], key[1] != "main", key[1] if pipeline else "")
    return [rows[key] for key in sorted(rows, key=order)]


def title_of(path):
    """What the trace is called; "" where it does not say."""
    return json.loads(path.read_text(encoding="utf-8")).get("otherData", {}).get("title", "")


def messages_of(e, event, way):
    """What a stage receives on a link, as its sender's: a receive is posted long before its bytes move."""
    return [
        ((peer, way), Event(event.name, event.end - seconds, event.end))
        for kind, peer, _, _, seconds, *_ in e["args"].get("messages", [])
        if kind == "receive"
    ]


def drawable(path):
    """(the Rows of a trace, ""), or ([], why it is no figure)."""
    try:
        rows = rows_of(path)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return [], f"no figure: {path.name} is no trace of ours"
    if not rows:
        return [], f"no figure: {path.name} has no events"
    why = f"no figure: a timeline of {len(rows)} queues is for ui.perfetto.dev"
    return ([], why) if len(rows) > MOST_ROWS else (rows, "")


def is_pipeline(rows):
    return all(STEP.match(event.name) for row in rows for event in row.compute)


def kinds(row):
    """{what is done: its events}, arithmetic by what a pipeline's steps are called."""
    parts = {}
    for event in row.compute:
        step = STEP.match(event.name)
        parts.setdefault(WORK[step[1]] if step else "computing", []).append(event)
    return parts | {"waiting": row.wait, "bytes moving": row.transfer}


def outermost(regions):
    """Regions that lie in no other."""
    found = []
    for region in sorted(regions, key=lambda r: (r.begin, -r.end)):
        if not found or region.begin >= found[-1].end:
            found.append(region)
    return found


def merged(events, gap):
    """(begin, length) of events as they are seen: those closer than `gap` seconds are one."""
    found = []
    for event in sorted(events, key=lambda e: e.begin):
        if found and event.begin - found[-1][1] < gap:
            found[-1][1] = max(found[-1][1], event.end)
        else:
            found.append([event.begin, event.end])
    return [(begin, end - begin) for begin, end in found]
