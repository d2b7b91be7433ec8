"""The files of a folder, or one file, as Results: what our commands wrote, and what others did. Standard library
only."""

import json
import pathlib

import nccl_tests
import reported
import torch_logs
from sources import CONTEXT, Results, Unusable, check_number, check_speedups, code_of, is_reported

STUDY = "study.txt"  # launch/scaling.sbatch keeps there which study a folder holds
LONE_TRACE = "is a trace alone: called NAME.trace beside the results NAME.json of its run, it becomes a timeline"
NOT_READ = "is none of the files that are read: .json, .csv, and logs (.log, .out, .txt)"
LOSSES = "has the losses of ./lab train --csv, step by step: a report draws those of the runs that it made itself"
LOGS = (".log", ".out", ".txt")
# Of a report beside its folder `data`, as bench/report/report.sh empties them.
PAGES = ("index.html", "methods.md", "predictions.json", "writeup.md", "figures", "paper", "slides")
LARGEST = 64 << 20  # bytes of a log


def read(path, name, machine=None):
    """A JSON file, of one of our commands or of others. machine: what collectives of nccl-tests are predicted for.
    Raises Unusable."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise Unusable("is no text") from None
    except json.JSONDecodeError as error:
        raise Unusable(
            f"is broken JSON, line {error.lineno}: {error.msg}" if path.stat().st_size else "is empty"
        ) from None
    except (OSError, RecursionError) as error:
        raise Unusable(f"cannot be read: {getattr(error, 'strerror', None) or 'nested too deep'}") from None
    if isinstance(document, dict) and "traceEvents" in document:
        raise Unusable(LONE_TRACE)
    if nccl_tests.is_document(document):
        return nccl_tests.of_document(document, name, machine)
    if not isinstance(document, dict) or not isinstance(document.get("rows"), list):
        raise Unusable('holds no results: not of the form {"context": {…}, "rows": […]}')
    context, rows = document.get("context", {}), document["rows"]
    if not isinstance(context, dict):
        raise Unusable('holds no results: not of the form {"context": {…}, "rows": […]}')
    missing = [] if is_reported(context) else [field for field in CONTEXT if field not in context]
    if missing:
        raise Unusable(f"does not say where it comes from: its context lacks {', '.join(missing)}")
    if not rows:
        raise Unusable("has no rows")
    for i, row in enumerate(rows):
        if not isinstance(row, dict):
            raise Unusable(f"has a row {i + 1} that is no object")
        for field, value in row.items():
            check_number(i, field, value)
    trace = path.with_suffix(".trace")
    results = Results(name, context, rows, trace if trace.exists() else None)
    if results.reported():
        return reported.of_document(results)
    if code_of(context) == "reference":  # a learner's answers may say anything
        check_speedups(results)
    return results


def text_of(path):
    if path.stat().st_size > LARGEST:
        raise Unusable(f"is larger than {LARGEST >> 20} MiB: keep the lines that print the throughput")
    try:
        text = path.read_text(encoding="utf-8-sig", errors="strict" if path.suffix == ".csv" else "replace")
    except UnicodeDecodeError:
        raise Unusable("is no text in UTF-8") from None
    if not text.strip():
        raise Unusable("is empty")
    return text


def read_folder(folder, machine=None):
    """([Results …], [(file, why not) …]) of a file, or of all files in a folder and those below it, by name. machine:
    as for read."""
    alone = folder.is_file()
    paths = [folder] if alone else sorted(p for p in folder.rglob("*") if p.is_file())
    root = folder.parent if alone else folder
    found, skipped, logs = [], [], {}
    for path in paths:
        if not alone and is_made_by_a_report(path):
            continue
        name = path.relative_to(root).as_posix()
        try:
            if path.suffix == ".json":
                found.append(read(path, name, machine))
            elif alone or not is_beside(path):
                read_text(path, name, machine, found, logs)
        except Unusable as why:
            skipped.append((name, str(why)))
    ours = {
        pathlib.PurePath(results.name).parent for results in found if not results.reported()
    }  # logs of our commands
    more, less = torch_logs.of_logs({n: text for n, text in logs.items() if pathlib.PurePath(n).parent not in ours})
    return sorted(found + more, key=lambda results: results.name), sorted(skipped + less)


def is_beside(path):
    """Whether a file says once more, or says why not, what a JSON file of the same run says."""
    beside = lambda *suffixes: any(path.with_suffix(suffix).exists() for suffix in suffixes)
    return (
        path.suffix in (".failed", ".later")
        or (path.suffix == ".log" and beside(".failed", ".json", ".csv"))
        or (path.suffix in (".csv", ".trace") and beside(".json"))
        or (path.suffix == ".csv" and beside(".log") and is_losses(path))  # a report made it
        or path.name == STUDY
    )


def is_made_by_a_report(path):
    """Whether a report drew it, or drew from it: its pages and figures, and in its data the traces without results."""
    for folder in path.parents:
        if (folder / "methods.md").is_file() and (folder / "data").is_dir():
            first = path.relative_to(folder).parts[0]
            return first in PAGES or (first == "data" and path.suffix == ".trace")
    return False


def is_losses(path):
    return path.read_bytes().startswith(b"step,loss,")


def read_text(path, name, machine, found, logs):
    """A file that is no JSON, added to `found`; or, of torchrun, to `logs`, of which several make one study."""
    if path.suffix == ".trace":
        raise Unusable(LONE_TRACE)
    if path.suffix != ".csv" and path.suffix not in LOGS:
        raise Unusable(NOT_READ)
    text = text_of(path)
    if is_losses(path):
        raise Unusable(LOSSES)
    if path.suffix == ".csv":
        found.append(reported.read_csv(text, name))
    elif nccl_tests.is_output(text):
        found.append(nccl_tests.of_output(text, name, machine))
    else:
        logs[name] = text
