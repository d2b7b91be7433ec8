"""Week 21's extras about gradients: larger batches (21.8), compression (21.9), local SGD (21.12). Standard library
only."""

from results import by, bytes_text, load, load_all, load_csv
from row_words import columns

RATES = {"1e-3": "rate 0.001 for batches of 8", "3e-3": "rate 0.003, near its best"}
RULES = {
    "small": "8 sequences",
    "none": "64, rate as it was",
    "linear": "64, rate × 8, warm-up",
    "linear_cold": "64, rate × 8, no warm-up",
    "sqrt": "64, rate × √8",
}
METHODS = {
    "none": "no compression",
    "topk": "top-k, with error feedback",
    "topk_forgets": "top-k, without",
    "int8": "int8, two steps",
}
OPTIMIZERS = {"sgd": "gradient descent, rate 0.1, k = 5 %", "adamw": "AdamW, rate 0.003, k = 1 %"}


def smooth(rows, samples):
    """(sequences seen, mean loss of the steps that saw the last `samples` of them) for each step."""
    size = samples // int(rows[0]["batch"])
    losses = [float(r["loss"]) for r in rows]
    return [
        ((i + 1) * int(rows[0]["batch"]), sum(losses[max(0, i + 1 - size) : i + 1]) / min(size, i + 1))
        for i in range(len(losses))
    ]


def runs_of(data, kind, groups, names, batch):
    """Of each group that ran as a whole, the rows of its runs by name, with their batch."""
    found = {}
    for group in groups:
        runs = {n: [dict(r, batch=batch(n)) for r in load_csv(data, f"{kind}_{group}_{n}") or []] for n in names}
        if all(runs.values()):
            found[group] = runs
    return found


def batches(data):
    """By rate, then by rule."""
    return runs_of(data, "batch", RATES, RULES, lambda rule: 8 if rule == "small" else 64)


def compressed(data):
    """By optimizer, then by method."""
    return runs_of(data, "compress", OPTIMIZERS, METHODS, lambda method: 16)


def final(rows, samples=640):
    return smooth(rows, samples)[-1][1]


def sums(data):
    """By machine: the rows of bench compression, simulated; and those of this computer."""
    found = {machine: results["rows"] for machine, results in load_all(data, "compression_sim").items()}
    measured = load(data, "compression_mpi")
    return found, measured["rows"] if measured else []


def local_runs(data):
    """By number of ranks: the rows of bench local_sgd."""
    return {ranks: results["rows"] for ranks, results in sorted(load_all(data, "local_sgd").items())}


def larger_batches(report):
    found = batches(report.data)
    if not found:
        yield report.later("batch_")
        return
    rows = [
        {"rate": RATES[rate], "batch": RULES[rule], "loss": final(run), "steps": len(run)}
        for rate, runs in found.items()
        for rule, run in runs.items()
    ]
    shown = {
        "": "rate",
        "batch and rate": "batch",
        "steps": "steps",
        "loss over the last 640 sequences": lambda r: f"{r['loss']:.3f}",
    }
    yield report.figure(
        "large_batch",
        "Two panels of training loss over sequences seen: batches of 8, and batches of 64 with the rate"
        " unscaled, scaled linearly with and without warm-up, and by the square root. At the moderate rate the"
        " linear rule with warm-up comes nearest to the small batch; at the larger one it goes too far, and the"
        " square root is nearer.",
        "<b>Real arithmetic.</b> The GPT <i>tiny</i> on the shipped corpus, one rank, AdamW; each curve sees"
        " the same 5,120 sequences. Losses are means over the last 640.",
        rows,
        shown,
        [f"batch_{rate}_{rule}.csv" for rate in found for rule in RULES],
        (found,),
    )


def compressions(report):
    trained, (simulated, measured) = compressed(report.data), sums(report.data)
    if trained:
        rows = [
            {
                "optimizer": OPTIMIZERS[o],
                "method": METHODS[m],
                "loss": final(run),
                "bytes": float(run[-1]["bytes_sent"]),
            }
            for o, runs in trained.items()
            for m, run in runs.items()
        ]
        shown = {
            "": "optimizer",
            "gradients": "method",
            "loss over the last 640 sequences": lambda r: f"{r['loss']:.3f}",
            "sent per rank and step": lambda r: bytes_text(r["bytes"]),
        }
        yield report.figure(
            "compressed_training",
            "Two panels of training loss over sequences: without compression, top-k with and without error"
            " feedback, int8. Under gradient descent with a small rate error feedback brings top-k near the"
            " uncompressed curve; under AdamW at a large rate it does not. int8 lies on the uncompressed curve in"
            " both.",
            "<b>Real arithmetic</b> on two simulated ranks: losses of the GPT <i>tiny</i>, 400 steps of 16"
            " sequences; bytes are the ledger's. An unsent element waits some 1/density steps: at a rate at which"
            " gradients change in that time, error feedback cannot help.",
            rows,
            shown,
            [f"compress_{o}_{m}.csv" for o in trained for m in METHODS],
            (trained,),
            drawn_from=(),
        )
    if simulated:
        rows = [r for mine in simulated.values() for r in mine] + measured
        shown = {
            "": lambda r: "this computer, measured" if r["backend"] == "mpi" else r["machine"] + ", simulated",
            "p": "ranks",
            "sum": "algorithm",
            **columns("array, sent by a rank, time, predicted"),
            "time, ring = 1": lambda r: f"{r['relative_seconds']:.2f}",
            "error of a sum": lambda r: f"{r['relative_error']:.2g}" if r.get("relative_error") else "–",
        }
        yield report.figure(
            "compressed_sums",
            "Bytes and time of compressed sums relative to the ring, over the number of ranks: top-k and int8 by"
            " all-gather rise with p and cross the ring; int8 in two steps stays at a quarter of the bytes.",
            "<b>Simulated</b>, 25 MiB of fp32. An all-gather's bytes grow with p, a ring's do not. Whether"
            " compression wins depends on the link: over NVLink selecting elements costs as much as is saved.",
            rows,
            shown,
            [f"compression_sim_{machine}.csv" for machine in simulated] + (["compression_mpi.csv"] if measured else []),
            (simulated,),
        )
    found = local_runs(report.data)
    if found:
        rows = [r for mine in found.values() for r in mine]
        shown = {
            "ranks": "ranks",
            "": "method",
            "sent per rank and step": lambda r: bytes_text(r["bytes_sent_per_step"]),
            "predicted": lambda r: bytes_text(r["predicted_bytes_sent_per_step"]),
            "validation loss": lambda r: f"{r['validation_loss']:.3f}",
            "state of optimizer and method": lambda r: bytes_text(r["optimizer_bytes"]),
        }
        yield report.figure(
            "bytes_and_loss",
            "Validation loss over bytes that a rank sends per step, a point for each method, a panel for each"
            " number of ranks: DDP and int8 are lowest; local SGD and DiLoCo send the least.",
            "<b>Real arithmetic</b> on simulated ranks: the GPT <i>tiny</i>, 400 steps of 16 sequences divided over"
            " the ranks, AdamW. <i>local-sgd:H</i> averages parameters every H steps, <i>diloco:H</i> takes an"
            " outer step there.",
            rows,
            shown,
            [f"local_sgd_{ranks}.csv" for ranks in found],
            (found,),
        )
    yield report.later("compress", "local_sgd_")


def ring_is_one(rows, field):
    """(ranks, value over the ring's) by method."""
    ring = {r["ranks"]: r[field] for r in by(rows, algorithm="ring")}
    names = list(dict.fromkeys(r["algorithm"] for r in rows if r["algorithm"] != "ring"))
    found = {
        name: [(r["ranks"], r[field] / ring[r["ranks"]]) for r in by(rows, algorithm=name) if r["ranks"] in ring]
        for name in names
    }
    return {name: points for name, points in found.items() if points}
