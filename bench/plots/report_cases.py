"""Contexts, rows and traces that the report's tests share."""

import copy
import json
import pathlib
import tempfile
import unittest

import sources

CONTEXT = {
    "machine": "a processor",
    "cores": 4,
    "compiler": "GNU 12.2",
    "build": "Release",
    "versions": {"lockstep": "1", "mpi": "Open MPI"},
    "commit": "147044b6b6c8-dirty",
    "date": "2026-01-02T03:04:05Z",
}
STEP = {
    "backend": "mpi",
    "machine": "host",
    "ranks": 2,
    "algorithm": "overlap",
    "scaling": "strong",
    "seconds": 0.5,
    "seconds_low": 0.4,
    "seconds_high": 0.7,
    "samples": 31,
    "compute_seconds": 0.4,
    "exposed_seconds": 0.1,
    "speedup": 1.6,
    "efficiency": 0.8,
    "karp_flatt": 0.25,
    "serial_seconds": 0.8,
    "fits_cores": True,
}
RING = {
    "backend": "sim",
    "machine": "dgx-a100",
    "ranks": 8,
    "algorithm": "ring",
    "seconds": 1e-3,
    "predicted_seconds": 9e-4,
    "bytes": 1 << 20,
    "algbw_gb_per_s": 1.0,
    "busbw_gb_per_s": 1.75,
    "samples": 1,
    "verified": True,
}

TRAIN = {
    "backend": "sim",
    "machine": "dgx-a100",
    "ranks": 4,
    "parameters": 1000,
    "seconds": 1e-3,
    "tokens_per_second": 1e3,
    "replicas": 4,
    "stages": 1,
    "schedule": "1f1b",
    "tensor_parallel": 1,
    "compress": "",
    "zero": 0,
}
PLAN = {
    "kind": "plan",
    "model": "gpt3-175b",
    "cluster": "dgx-a100x2",
    "gpus": 16,
    "dp": 2,
    "tp": 2,
    "pp": 4,
    "microbatch": 2,
    "microbatches": 8,
    "schedule": "interleaved",
    "chunks": 3,
    "zero": 1,
    "recompute": "none",
    "step_seconds": 1.5,
    "compute_seconds": 1.0,
    "bubble_seconds": 0.5,
}


FOREIGN = {
    "machine": "8 GPUs",
    "cores": 64,
    "compiler": "none",
    "build": "none",
    "versions": {"torch": "2.3"},
    "commit": "none",
    "date": "2026-01-02",
}  # of somebody's own program


def sums(ranks=4, **more):
    """Rows of bench compression: the ring, top-k and int8."""
    one = {
        "backend": "sim",
        "machine": "dgx-a100",
        "ranks": ranks,
        "bytes": 1 << 20,
        "samples": 1,
        "predicted_seconds": 1e-3,
        **more,
    }
    return [
        dict(
            one,
            algorithm=name,
            seconds=1e-3 * time,
            bytes_sent_per_rank_max=1e6 * sent,
            relative_seconds=time,
            relative_bytes=sent,
            ranks_to_break_even=least,
        )
        for name, time, sent, least in (
            ("ring", 1.0, 1.0, 1),
            ("topk:0.01", 0.5, 0.04, 100),
            ("int8", 1.2, 0.25 * ranks / 2, None),
        )
    ]


class InFolder(unittest.TestCase):
    """A test with a folder, `home`, in which it writes results."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)

    def write(self, name, rows, **context):
        path = self.home / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"context": {**CONTEXT, **context}, "rows": rows}))


def words_on(figure):
    return [text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))]


def results(name, rows, **context):
    return sources.Results(name, {**CONTEXT, **context}, copy.deepcopy(rows))


def trace_text(queues=1):
    """Two stages: F0, F1 and a B0 that waits; the second has its transfers in a lane of their own; chrome's times are
    µs."""
    events = [{"ph": "M", "name": "thread_name", "pid": 0, "tid": 0, "args": {"name": "main"}}]
    events += [
        {"ph": "X", "name": name, "cat": kind, "pid": 0, "tid": 0, "ts": at, "dur": length, "args": {}}
        for name, kind, at, length in (
            ("F0", "compute", 0, 10),
            ("F1.1", "compute", 10, 10),
            ("wait", "wait", 20, 5),
            ("B0", "compute", 25, 20),
        )
    ]
    for rank in range(1, queues + 1):
        events += [
            {"ph": "M", "name": "thread_name", "pid": rank, "tid": 0, "args": {"name": "down: transfers (2)"}},
            {"ph": "X", "name": "send", "cat": "transfer", "pid": rank, "tid": 0, "ts": 10, "dur": 2.5, "args": {}},
        ]
    return json.dumps({"traceEvents": events})
