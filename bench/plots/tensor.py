"""The report's section on week 23: what tensor parallelism sends, and what that costs. Standard library only."""

from html_parts import note, table
from results import by, bytes_text, load, load_all, load_csv, losses, percent, seconds_text
from row_words import MACHINE_NAMES, columns


def course(report):
    """The course's account: 12 layers, d_model 512, 8 × 512 tokens, two ranks; counted by the ledger on each
    machine."""
    results = load(report.data, "tp_course")
    if not results:
        return ""
    first = by(results["rows"], machine="dgx-a100")
    places = [r for r in first if r["pass"] in ("forward", "backward") and r["algorithm"] == "no_overlap"]
    blocks = [r for r in places if r["place"] in ("attention forward", "mlp forward")]
    count, size = sum(r["collectives"] for r in blocks), blocks[0]["bytes_each"]
    step = by(first, algorithm="no_overlap", **{"pass": "step"})[0]
    account = table(
        places,
        {
            "sum of": "place",
            "pass": "pass",
            "all-reduces": "collectives",
            "of each": lambda r: bytes_text(r["bytes_each"]),
            "together": lambda r: bytes_text(r["total_bytes"]),
        },
    )
    rows = []
    for machine in dict.fromkeys(r["machine"] for r in results["rows"]):
        here = by(results["rows"], machine=machine, algorithm="no_overlap")
        sums, one = (
            [r for r in here if r["place"] in ("attention forward", "mlp forward")],
            by(here, **{"pass": "step"})[0],
        )
        rows.append(
            {
                "machine": MACHINE_NAMES.get(machine, machine),
                "seconds": sum(r["seconds"] for r in sums),
                "predicted": sum(r["predicted_seconds"] for r in sums),
                "share": one["communication_share"],
                "step": one["seconds"],
            }
        )
    times = table(
        rows,
        {
            "machine": "machine",
            f"the {count} all-reduces, predicted": lambda r: seconds_text(r["predicted"]),
            "simulated": "seconds",
            "of a pass of 50 ms": lambda r: percent(r["seconds"] / 50e-3),
            "the whole step": lambda r: seconds_text(r["step"]),
            "communication’s share of it": lambda r: percent(r["share"]),
        },
    )
    return (
        note(
            "<b>The course’s account, from the ledger.</b> 12 layers, d_model 512, 8 × 512 tokens, bf16, two ranks:"
            f" {count} all-reduces of {bytes_text(size)} forward in the blocks, {bytes_text(count * size)} in all, and"
            f" as many backward; embedding, head and loss have theirs. A rank holds {step['parameter_bytes'] / 1e6:.1f}"
            f" MB of parameters, {step['replicated_bytes'] / 1e6:.2f} MB of which every rank has whole: positions,"
            " norms, and the biases of projection and down."
        )
        + account
        + note(
            "How long the all-reduces of the forward pass take on each machine. 3 ms, 6 % of 50 ms, is right for the"
            " course’s link of 32 GB/s; but an A100 does not need 50 ms:"
        )
        + times
    )


STEP = columns("machine, p, d_model, variant, computing, step, predicted, exposed, hidden, share") | {
    "share predicted": lambda r: percent(r["predicted_communication_share"]),
}


def step_rows(results):
    return [r for r in results["rows"] if r["pass"] == "step"]


def shares(report):
    machines, emulated, twins = (load_all(report.data, f"tp_{what}") for what in ("width", "emulated", "twin"))
    if not machines:
        return ""
    rows = [r for results in machines.values() for r in step_rows(results) if r["algorithm"] == "no_overlap"]
    processes = " and ".join(map(str, sorted({r["ranks"] for results in emulated.values() for r in results["rows"]})))
    wall = (
        " Right: measured by wall clock on MPI processes that do real arithmetic, exchange real messages and sleep"
        f" until the machine’s times have passed ({processes} processes, 2 layers, 2 × 64 tokens; lines are the"
        " simulator’s). Steps so small are all launches on the PCIe box, which d_model does not lengthen: there the"
        " share still grows. Whiskers: the range of the samples."
        if emulated
        else ""
    )
    return report.figure(
        "tp_share",
        "Communication's share of a step over d_model: on PCIe from 85 to 51 per cent with four ranks, on NVLink below"
        " that and falling; emulated steps lie on the simulated lines.",
        "<b>Simulated</b>: 12 layers, 8 × 512 tokens, bf16, no overlap. White points: predicted, a ring’s formula for"
        " each all-reduce over the modelled arithmetic. Communication grows with d_model, arithmetic with its square,"
        f" so that the share falls; it rises with p.{wall}",
        rows,
        STEP,
        [f"tp_width_{m}.csv" for m in machines] + [f"tp_emulated_{m}.csv" for m in emulated],
        (machines, emulated, twins),
        drawn_from=[f"tp_width_{m}" for m in machines]
        + [f"tp_{how}_{m}" for how in ("emulated", "twin") for m in emulated],
    )


def overlap(report):
    machines, emulated, measured = (
        load_all(report.data, "tp_width"),
        load_all(report.data, "tp_emulated"),
        load(report.data, "tp_mpi"),
    )
    if not machines:
        return ""
    rows = [r for results in machines.values() for r in step_rows(results) if r["d_model"] == 2048] + [
        r for results in emulated.values() for r in step_rows(results) if r["d_model"] == 128
    ]
    parts = [
        report.figure(
            "tp_overlap",
            "Bars of step time for nothing sent, sums on main, sums beside the weights' gradients, and tokens sharded"
            " as well; overlap lowers each, most where arithmetic is long.",
            "<b>Overlap on and off.</b> The input’s gradient is all-reduced on a second queue while main computes the"
            " weights’ gradient; nothing can hide the forward all-reduces, so at most half is hidden. Dashes:"
            " predicted; an all-reduce is hidden for as long as the product beside it takes. <i>Rows sharded too</i>:"
            " sequence parallelism; an all-reduce becomes a gather and a scatter, and a third gather is needed"
            " backward, where it overlaps: 1.25 times the bytes for 1/p of the activations that were whole. Whiskers:"
            " the range of the samples.",
            rows,
            STEP,
            [f"tp_width_{m}.csv" for m in machines] + [f"tp_emulated_{m}.csv" for m in emulated],
            (machines, emulated),
        )
    ]
    if measured:
        shown = step_rows(measured)
        refused = "" if shown[0]["fits_cores"] else " The share is refused: ranks have no core each."
        parts.append(
            note(
                f"<b>Measured</b> without emulation on {shown[0]['ranks']} MPI processes of this computer, medians of"
                f" {shown[0]['samples']} samples with 95 % intervals. The processes share memory bandwidth and caches,"
                f" and what moves messages needs a core as well.{refused}"
            )
            + table(
                shown,
                columns("d_model, variant, step")
                | {"from": "seconds_low", "to": "seconds_high"}
                | columns("exposed, share"),
            )
        )
    return "".join(parts)


def nodes(report):
    clusters = load_all(report.data, "tp_nodes")
    if not clusters:
        return ""
    rows = [r for results in clusters.values() for r in step_rows(results) if r["algorithm"] != "sequence_parallel"]
    times = {(r["machine"], r["ranks"]): r["seconds"] for r in rows if r["algorithm"] == "no_overlap"}
    cliff = " and ".join(f"{times[m, 16] / times[m, 8]:.1f} times as long on {m}" for m in clusters)
    return report.figure(
        "tp_nodes",
        "Step time over ranks on two clusters: falling until 8 ranks, one node, then several times higher at 16"
        " and 32.",
        "<b>The cliff</b>, simulated: the same step, 4 × 2,048 tokens, on more and more ranks. 16 ranks on two nodes"
        f" take {cliff} as 8 on one: every all-reduce waits for the slow link. Tensor parallelism stays inside the"
        " node.",
        rows,
        STEP,
        [f"tp_nodes_{m}.csv" for m in clusters],
        (clusters,),
    )


def ring(report):
    results = load(report.data, "tp_ring")
    if not results:
        return ""
    rows = results["rows"]
    first, longest = rows[0], max(r["positions"] for r in rows)
    times = {r["algorithm"]: r["seconds"] for r in by(rows, positions=longest, **{"pass": "forward"})}
    worst = max(abs(r["predicted_seconds"] / r["seconds"] - 1) for r in rows)
    return report.figure(
        "tp_ring",
        "Time of ring attention over the sequence's length, contiguous above zig-zag, and memory of a rank, which grows"
        " in proportion.",
        f"<b>Ring attention</b> (23.6), simulated: one layer, {first['ranks']} ranks of {first['machine']} that share"
        " one sequence. With the contiguous split the last rank has almost twice the mean of the work, and all wait"
        f" for it: at {longest:,} positions it takes {times['contiguous'] / times['zigzag']:.2f} times as long as"
        " zig-zag. Short sequences gain less, since their messages are not hidden. White points: predicted, p steps of"
        f" the longer of arithmetic and message, at most {percent(worst)} apart.",
        rows,
        {
            "positions": "positions",
            "cut": "algorithm",
            "pass": "pass",
            "predicted": "predicted_seconds",
            "simulated": "seconds",
            "busiest / mean": lambda r: f"{r['imbalance']:.2f}",
            "peak": lambda r: bytes_text(r["peak_bytes"]),
        },
        ["tp_ring.csv"],
        (rows,),
    )


def training(report):
    runs = {name: load_csv(report.data, f"train_tp_{name}") for name in ("serial", "4", "4_rows")}
    serial, shared, sharded = runs.values()
    if not all(runs.values()):
        return ""
    shown, named, gap = losses({"serial": serial, "--tp 4": shared, "--sequence-parallel": sharded})
    return report.figure(
        "tp_training",
        "Losses of the serial program and of four ranks that share every layer lie on each other.",
        "<b>Losses</b> of <code>./lab train --tp 4</code> on the shipped corpus, with and without"
        f" <code>--sequence-parallel</code>, on the serial program’s: at most {gap:.2g} nats apart in"
        f" {len(runs['serial'])} steps, since sums over ranks round in another order.",
        shown,
        named,
        [f"train_tp_{name}.csv" for name in runs],
        (serial, {"--tp 4": shared, "--tp 4 --sequence-parallel": sharded}),
        "losses",
    )


def parts(report):
    for make in (course, shares, overlap, nodes, ring, training):
        yield make(report)
    yield report.later("tp_", "train_tp_")
