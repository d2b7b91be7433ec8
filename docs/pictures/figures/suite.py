"""What the suite's programs say, for the figures: rows of their JSON files, and traces of runs in virtual time."""

import json
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]


def lab(*arguments):
    done = subprocess.run(["./lab", *arguments], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"./lab {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")


def results(*arguments):
    """The context and the rows that a command writes with --json."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "rows.json"
        lab(*arguments, "--json", str(path))
        found = json.loads(path.read_text())
        return found["context"], found["rows"]


def rows(*arguments):
    return results(*arguments)[1]


class Trace:
    """A run's events: of each rank and queue the spans, in the order of time; seconds."""

    def __init__(self, path):
        self.events = json.loads(pathlib.Path(path).read_text())["traceEvents"]
        self.queues = {(e["pid"], e["tid"]): e["args"]["name"] for e in self.events if e["name"] == "thread_name"}

    def spans(self, rank, queue, category):
        found = [
            e
            for e in self.events
            if e["ph"] == "X" and e["pid"] == rank and e["cat"] == category and self.queues[rank, e["tid"]] == queue
        ]
        return [(e["ts"] / 1e6, (e["ts"] + e["dur"]) / 1e6, e) for e in sorted(found, key=lambda e: e["ts"])]

    def blocks(self, rank, category):
        """Memory: (from, until, bytes)."""
        args = [e["args"] for e in self.events if e["name"] == "block" and e["pid"] == rank]
        return [(*a["seconds"], a["bytes"]) for a in args if a["category"] == category]


def check_trace(part, test, ranks, size):
    """The trace of one test of an exercise, run with the reference."""
    case = ["--ranks", str(ranks), "--size", str(size)]
    path = ROOT / "outputs" / f"trace-{part}-{test}-ranks-{ranks}-size-{size}.json"
    path.unlink(missing_ok=True)
    lab("check", "--solution", part, *case, "--trace", "--again")
    return Trace(path)


def bench(name, contenders, *arguments):
    """The rows of a benchmark, and a trace of one run of each of these contenders."""
    with tempfile.TemporaryDirectory() as folder:
        found = rows("bench", name, *arguments, "--timeline", f"{folder}/run")
        return found, [Trace(f"{folder}/run_{contender}.trace") for contender in contenders]


def schedule_trace(schedule, stages, microbatches):
    """A pipeline's run, and the row of its numbers."""
    shape = ["--schedule", schedule, "--stages", str(stages), "--microbatches", str(microbatches)]
    with tempfile.TemporaryDirectory() as folder:
        row = rows("pipeline", *shape, "--no-chart", "--trace", f"{folder}/run.json")[0]
        return Trace(f"{folder}/run.json"), row
