"""The predict sheets, one a week: the reader writes expectations first; only then the page shows what was measured. And
what a
learner predicted with ./lab predict before."""

import html
import json

from crossover import compared
from html_parts import note, section, table
from results import load

SCRIPT = """
<script>
document.querySelectorAll(".sheet").forEach(sheet => {
  const button = sheet.querySelector("button"), inputs = [...sheet.querySelectorAll("input")];
  const reveal = () => {
    for (const input of inputs) {
      const row = input.closest("tr"), guess = parseFloat(input.value.replace(",", "."));
      const measured = parseFloat(row.dataset.measured);
      row.querySelectorAll(".hidden").forEach(cell => cell.classList.remove("hidden"));
      const off = (100 * (guess / measured - 1)).toFixed(0) + " %";
      row.querySelector(".off").textContent = isFinite(guess) ? off : "no guess";
    }
  };
  const ready = () => { button.disabled = !inputs.every(input => input.value.trim() !== ""); };
  inputs.forEach(input => input.addEventListener("input", ready));
  button.addEventListener("click", reveal);
  ready();
});
</script>
"""


def measured_predictions(out):
    """What ./lab predict asked and measured, from predictions.json beside the page; of a report with --mine."""
    path = out / "predictions.json"
    return (
        [r for r in json.loads(path.read_text())["rows"] if r.get("measured") is not None and "ask" in r]
        if path.exists()
        else []
    )


def learners(out):
    rows = measured_predictions(out)
    if not rows:
        return ""

    def value(field):
        return lambda r: "–" if r.get(field) is None else f"{r[field]:.4g} {r['unit']}"

    def off(r):
        return f"{100 * (r['guess'] / r['measured'] - 1):+.0f} %" if r["measured"] else "–"

    rows.sort(key=lambda r: [int(part) for part in r["question"].replace("/", ".").split(".")])
    columns = {
        "exercise": lambda r: r["question"].split("/")[0],
        "question": "ask",
        "predicted": value("guess"),
        "by formula": value("formula"),
        "measured": value("measured"),
        "off by": off,
        "on": lambda r: r["date"][:10],
    }
    return section(
        "predicted",
        "What I predicted",
        [
            note("Written down with <code>./lab predict</code> before anything was measured."),
            table(rows, columns, text=True),
        ],
    )


def pick(results, **wanted):
    for row in results["rows"] if results else []:
        if all(row.get(k) == v for k, v in wanted.items()):
            return row
    return None


def both(row, name, times=1):
    """By formula, and as it ran."""
    return times * row[f"predicted_{name}"], times * row[name]


def ratio(row, other, name="seconds"):
    """`row` over `other`, likewise."""
    return row[f"predicted_{name}"] / other[f"predicted_{name}"], row[name] / other[name]


# A week's questions: text, unit, formula's value, measured value, and how that is known.


def crossovers(data):
    results = load(data, "crossover_sim_dgx-a100-hdr")
    where = "16 A100 in two nodes, an InfiniBand port each (14 µs, 23.5 GB/s; inside 3.4 µs, 235 GB/s)"
    for row in compared(results["rows"])[:1] if results else []:
        if row["seen"]:
            asked = f"{where}: up to how many KiB is {row['from']} faster than {row['to']}?"
            yield asked, "KiB", row["predicted"] / 1024, row["seen"] / 1024, "simulated"
    flat, mine = (pick(results, algorithm=name, bytes=64 << 20) for name in ("ring", "hierarchical"))
    if flat and mine:
        asked = "The same, 64 MiB: how much faster is the hierarchical all-reduce than the flat ring?"
        yield asked, "times", *ratio(flat, mine), "simulated"


def data_parallelism(data):
    ring = pick(load(data, "all_reduce_sim_dgx-a100"), algorithm="ring", bytes=64 << 20)
    naive = pick(load(data, "all_reduce_sim_dgx-a100"), algorithm="naive", bytes=64 << 20)
    if ring and naive:
        asked = "Ring all-reduce of 64 MiB on 8 A100 (α = 3.4 µs, 235 GB/s): how long?"
        yield asked, "ms", *both(ring, "seconds", 1e3), "simulated"
        yield "The naive all-reduce of the same?", "ms", *both(naive, "seconds", 1e3), "simulated"
        sent, most = (row["bytes_sent_per_rank_max"] / 2**20 for row in (ring, naive))
        yield "MiB that each rank sends in the ring?", "MiB", 2 * 7 / 8 * 64, sent, "ledger"
        yield "MiB that the busiest rank of the naive one sends?", "MiB", 7 * 64, most, "ledger"
    yield from crossovers(data)
    yield from compression(data)
    point = pick(load(data, "overhead"), parameters=100_000_000, link_gb_per_s=25)
    if point:
        asked = (
            f"Efficiency of 2 ranks over 25 GB/s: 100 M parameters, {point['tokens_per_rank']:g} tokens per"
            f" rank, {point['flop_per_second'] / 1e12:g} TFLOP/s, no overlap?"
        )
        yield asked, "%", *both(point, "efficiency", 100), "simulated"
    step, plain, alone = (
        pick(load(data, "ddp_sim_pcie-box"), algorithm=name, bucket_bytes=25 << 20, microbatches=1)
        for name in ("overlap", "no_overlap", "compute")
    )
    if step:
        step_seconds, plain_seconds, alone_seconds = (row["predicted_seconds"] for row in (step, plain, alone))
        hidden = 1 - (step_seconds - alone_seconds) / (plain_seconds - alone_seconds)
        asked = "gpt2-124m on the PCIe box, 4 ranks, 25 MiB buckets: how much of the communication does overlap hide?"
        yield asked, "%", 100 * hidden, 100 * step["hidden_fraction"], "simulated"
    mpi = pick(load(data, "all_reduce_mpi"), algorithm="ring", bytes=1 << 20)
    if mpi:
        asked = f"Ring all-reduce of 1 MiB between {mpi['ranks']} processes of this computer?"
        yield asked, "µs", *both(mpi, "seconds", 1e6), "measured"


def compression(data):
    """Bytes and time of compressed all-reduces on 8 ranks of two nodes."""
    results = load(data, "compression_sim_pcie-box-10gbe")
    for algorithm, words in (
        ("topk:0.01", "the largest 1 %, as values with their indices"),
        ("int8", "int8 by one all-gather"),
        ("int8-two-step", "int8 in two steps"),
    ):
        row = pick(results, algorithm=algorithm, ranks=8)
        if row:
            asked = f"A rank of 8 sums 25 MiB of gradients as {words}: MiB sent? (The ring: 43.75)"
            sent = row["predicted_bytes_sent_per_rank"], row["bytes_sent_per_rank_max"]
            yield asked, "MiB", *(each / 2**20 for each in sent), "ledger"
    local = pick(load(data, "local_sgd_4"), method="diloco:16")
    if local:
        asked = "GPT tiny on 4 ranks, an outer step every 16 local ones: KiB that a rank sends per step?"
        yield asked, "KiB", *both(local, "bytes_sent_per_step", 2**-10), "ledger"
    ring, top = (pick(results, algorithm=a, ranks=8) for a in ("ring", "topk:0.01"))
    if ring and top:
        asked = "How many times as fast as the ring is top-k of 1 % there, over 10 GbE?"
        yield asked, "times", *ratio(ring, top), "simulated"


def zero_stages(data):
    zero = pick(load(data, "zero_memory"), stage=1, ranks=4, category="optimizer", moment="resident")
    fsdp = pick(load(data, "zero_memory"), stage=3, ranks=4, category="parameters", moment="peak")
    if zero and fsdp:
        shape = f"GPT of {zero['parameters'] / 1e6:.3g} M parameters in bf16 on 4 ranks"
        optimizer = zero["predicted_bytes"] / 1e6, zero["measured_bytes"] / 1e6
        yield f"{shape}, ZeRO-1: MB of optimizer state per rank?", "MB", *optimizer, "ledger"
        values = (fsdp["predicted_bytes"] + fsdp["explained_bytes"]) / 1e6, fsdp["measured_bytes"] / 1e6
        yield f"{shape}, ZeRO-3, one unit per block, one gathered ahead: MB of values at most?", "MB", *values, "ledger"
    hybrid = pick(load(data, "hsdp_sim_dgx-a100-10gbe"), method="hybrid:8", microbatches=4)
    if hybrid:
        asked = (
            "GPT-2 1.5B in bf16, state sharded inside each of two nodes of 8 A100: GiB that a node sends the"
            " other in a step?"
        )
        yield asked, "GiB", *both(hybrid, "bytes_across_nodes", 2**-30), "ledger"
    stage3 = pick(load(data, "zero_sim_dgx-a100_2048"), algorithm="zero3")
    if stage3:
        asked = "GPT-2 355M in bf16 with ZeRO-3 on 8 A100: MB that a rank sends in a step?"
        yield asked, "MB", *both(stage3, "bytes_sent_per_rank", 1e-6), "ledger"
    kept, again = (
        pick(load(data, "activations"), attention="flash", recompute=how, algorithm=f"flash/{how}")
        for how in ("none", "full")
    )
    if kept and again:
        shape = f"{kept['batch_sequences']} × {kept['sequence_tokens']} tokens, flash attention"
        asked = f"{kept['model']} in {kept['dtype']}, {shape}: GiB of activations?"
        for asked, row in ((asked, kept), ("The same with full recomputation?", again)):
            yield asked, "GiB", row["predicted_bytes"] / 2**30, row["measured_bytes"] / 2**30, "ledger"
        asked = "How much more FLOP does that cost, forward and backward?"
        yield asked, "%", *both(again, "extra_flop", 100 / kept["flop"]), "counted"


def tensor_parallelism(data):
    course = [
        r
        for r in (load(data, "tp_course") or {"rows": []})["rows"]
        if r["machine"] == "pcie-box" and r["algorithm"] == "no_overlap"
    ]
    if course:
        blocks = [r for r in course if r["place"] in ("attention forward", "mlp forward")]
        (step,) = (r for r in course if r["pass"] == "step")
        asked = "12 layers, d_model 512, 8 × 512 tokens, bf16, on 2 ranks: MiB all-reduced in the blocks, forward?"
        yield asked, "MiB", 24 * 8 * 512 * 512 * 2 / 2**20, sum(r["total_bytes"] for r in blocks) / 2**20, "ledger"
        asked = "The same on the PCIe box (α = 5.7 µs, 24 GB/s): how long do these all-reduces take?"
        times = (sum(r[name] for r in blocks) * 1e3 for name in ("predicted_seconds", "seconds"))
        yield asked, "ms", *times, "simulated"
        asked = "MB of parameters on each of the 2 ranks (50,257 tokens, 512 positions, tied head)?"
        count = (50257 * 512 + 12 * (12 * 512**2 + 7 * 512)) / 2 + 512**2 + 12 * 6 * 512 + 2 * 512
        yield asked, "MB", count * 2 / 1e6, step["parameter_bytes"] / 1e6, "ledger"

    def step_of(results, **wanted):
        return pick(results, **{"algorithm": "no_overlap", "pass": "step"}, **wanted)

    for machine, p in (("pcie-box", 4), ("dgx-a100", 8)):
        row = step_of(load(data, f"tp_width_{machine}"), ranks=p, d_model=4096)
        if row:
            asked = f"d_model 4,096 on {p} ranks of {machine}: communication’s share of a step, no overlap?"
            yield asked, "%", *both(row, "communication_share", 100), "simulated"
    row = pick(load(data, "tp_width_dgx-a100"), ranks=8, d_model=4096, algorithm="overlap", **{"pass": "step"})
    if row:
        plain = step_of(load(data, "tp_width_dgx-a100"), ranks=8, d_model=4096)
        hidden = (plain["predicted_seconds"] - row["predicted_seconds"]) / (
            plain["predicted_seconds"] * plain["predicted_communication_share"]
        )
        asked = "The same on dgx-a100: how much of it do the weight gradients hide?"
        yield asked, "%", 100 * hidden, 100 * row["hidden_fraction"], "simulated"
    inside, across = (step_of(load(data, "tp_nodes_dgx-a100-hdr"), ranks=p) for p in (8, 16))
    if inside and across:
        asked = "d_model 4,096, 4 × 2,048 tokens: a step on 16 A100 in two nodes, relative to 8 in one?"
        yield asked, "times", *ratio(across, inside), "simulated"
    row = step_of(load(data, "tp_emulated_pcie-box_4"), d_model=256)
    if row:
        shape = "2 layers, d_model 256, 2 × 64 tokens in fp32 on 4 ranks of the PCIe box"
        asked = f"{shape}: communication’s share by wall clock?"
        yield asked, "%", *both(row, "communication_share", 100), "emulated"


def pipelines(data):
    results = load(data, "pipeline")
    for p, m, name in ((4, 8, "gpipe"), (4, 8, "interleaved"), (8, 32, "1f1b")):
        row = pick(results, stages=p, microbatches=m, schedule=name, transfer_seconds=0)
        if row:
            chunks = ", two chunks" if name == "interleaved" else ""
            asked = f"{name}, {p} stages, {m} microbatches{chunks}: idle / total?"
            yield asked, "%", *both(row, "bubble_of_total", 100), "simulated"
    row = pick(results, stages=8, microbatches=32, schedule="1f1b", transfer_seconds=0)
    if row:
        yield "The same run: idle / ideal?", "%", *both(row, "bubble_of_ideal", 100), "simulated"
        asked = "… and GiB of activations on stage 0, 64 MiB per microbatch?"
        yield asked, "GiB", 8 * 64 / 1024, row["activation_bytes_peak"] / 2**30, "ledger"
    row = pick(results, stages=4, microbatches=8, schedule="zb-h1", transfer_seconds=0)
    if row:
        asked = "zb-h1, 4 stages, 8 microbatches, F = B = W: idle / the longest stage’s own span?"
        yield asked, "%", *both(row, "bubble_of_span", 100), "simulated"
    row = pick(load(data, "pipeline_hops"), schedule="gpipe", transfer_seconds=0.0002)
    other = pick(load(data, "pipeline_hops"), schedule="1f1b", transfer_seconds=0.0002)
    if row and other:
        asked = "4 stages, 32 microbatches, forward 1 ms, backward 2 ms, a hop 0.2 ms: GPipe’s makespan?"
        yield asked, "ms", 35 * 3 + 6 * 0.2, row["makespan_seconds"] * 1e3, "simulated"
        yield "… and 1F1B’s?", "ms", 35 * 3 + 32 * 6 / 4 * 0.2, other["makespan_seconds"] * 1e3, "simulated"
    row = pick(load(data, "pipeline_unequal"), schedule="1f1b", last_stage=2)
    if row:
        shape = "4 stages, 8 microbatches, the last stage has twice the others’ work"
        asked = f"{shape}: what share of the time do stages work?"
        yield asked, "%", 100 * 8 / (4 + 7 * 8 / 5), 100 * row["utilisation"], "simulated"
    for m in (4, 8):
        row = pick(load(data, "pipeline_wall_2"), schedule="gpipe", microbatches=m)
        if row:
            asked = f"Two real processes, {m} microbatches: what share of the time do they work?"
            yield asked, "%", 100 - 100 * row["predicted_bubble_of_total"], 100 * row["utilisation"], "emulated"


def everything_together(data):
    plans = load(data, "plan_gpt3")
    best = next((r for r in plans["rows"] if r.get("simulated_seconds")), None) if plans else None
    if best:
        more = f"{best['schedule']} with {best['chunks']} chunks" if best["chunks"] > 1 else best["schedule"]
        shape = (
            f"GPT-3 175B on {best['gpus']:,} A100, {best['global_batch']:,} sequences, as {best['dp']} × {best['tp']} ×"
            f" {best['pp']}, {more}, microbatches of {best['microbatch']}, ZeRO-{best['zero']}"
        )
        yield f"{shape}: how long is a step?", "s", best["step_seconds"], best["simulated_seconds"], "simulated"
        memory = best["memory_bytes"] / 1e9, best["simulated_memory_bytes"] / 1e9
        yield "… GB on the fullest GPU?", "GB", *memory, "ledger"
    for name, words in (
        ("175b", "GPT-3 as 8 × 8 × 16, 192 microbatches"),
        ("1t", "1T parameters as 1 × 8 × 64, 512 microbatches"),
    ):
        row = pick(load(data, f"phantom_{name}"), chunks=1)
        if row:
            idle = 100 * (row["stages"] - 1) / row["accumulate"]
            yield f"{words}, 1F1B: idle / ideal?", "%", idle, 100 * row["bubble_of_ideal"], "simulated"
    row = pick(load(data, "phantom_1t"), stages=64)
    if row:
        h, s, vocabulary, t, layers = 25600, 2048, 51200, row["tensor_parallel"], 128 // row["stages"]
        state = 16 * ((12 * layers * h * h + vocabulary * h) / t + s * h)
        measured = sum(row[f"stage_{kind}_bytes_peak"][0] for kind in ("parameter", "gradient", "optimizer"))
        asked = (
            "The same: GB of parameters, gradients and optimizer state of a rank of stage 0 (2 layers of"
            " d_model 25,600, embedding of 51,200 tokens, 2,048 positions)?"
        )
        yield asked, "GB", state / 1e9, measured / 1e9, "ledger"
        asked = "… GB of activations there, with sequence parallelism and flash attention?"
        kept = row["stages"] * layers * 32 * s * h / t
        yield asked, "GB", kept / 1e9, row["stage_activation_bytes_peak"][0] / 1e9, "ledger"
    strong = load(data, "scale_strong")
    two, rest = pick(strong, ranks=2), [(p, pick(strong, ranks=p)) for p in (8, 16)]
    if two and two.get("karp_flatt") and all(r and r.get("efficiency") for _, r in rest):
        s = two["karp_flatt"]
        for p, row in rest:
            where = "inside the node" if p == 8 else "of two nodes"
            asked = (
                f"GPT-2 355M, DDP, batch 32: two A100 have an efficiency of {100 * two['efficiency']:.0f} %. On"
                f" {p}, {where}?"
            )
            yield asked, "%", 100 / (p * s + 1 - s), 100 * row["efficiency"], "simulated"
    bubble = next((r for r in (load(data, "why_bubble") or {"rows": []})["rows"] if r.get("cost") == "bubble"), None)
    if bubble:
        asked = "GPT-2 124M in 4 stages, 4 microbatches: how much shorter without the bubble?"
        yield asked, "%", 100 * 3 / 7, 100 * bubble["gained"], "replayed"


WEEKS = {
    "Week 21: all-reduce and data parallelism": data_parallelism,
    "Week 22: ZeRO and activations": zero_stages,
    "Week 23: tensor parallelism": tensor_parallelism,
    "Week 24: pipelines": pipelines,
    "Week 25: everything together": everything_together,
}


def sheet(questions):
    """Of (question, unit, predicted by formula, measured, how), of what was run."""
    rows = ""
    for question, unit, predicted, measured, how in questions:
        rows += (
            f'<tr data-measured="{measured:.9g}"><td>{html.escape(question)}</td><td class="guess"><input'
            f' inputmode="decimal" aria-label="your expectation, {unit}"> {unit}</td><td class="hidden">{predicted:.4g}'
            f' {unit}</td><td class="hidden">{measured:.4g} {unit} ({how})</td><td'
            f' class="hidden">{round(100 * (predicted / measured - 1), 1) + 0.0:+.1f} %</td><td class="hidden'
            ' off"></td></tr>'
        )
    return (
        '<div class="sheet"><div class="scroll" style="max-height:none" tabindex="0"><table'
        ' class="text"><thead><tr><th>question</th><th>you expect</th><th>formula</th><th>measured</th><th>formula’s'
        f' error</th><th>yours</th></tr></thead><tbody>{rows}</tbody></table></div><p><button type="button">Show what'
        " was measured</button></p></div>"
    )


def section_of(data):
    sheets = [
        f"<h3>{html.escape(title)}</h3>{sheet(questions)}"
        for title, make in WEEKS.items()
        for questions in [list(make(data))]
        if questions
    ]
    if not sheets:
        return ""
    return section(
        "predict",
        "Predict sheets",
        [
            note(
                "Write what you expect into every field of a week before you look. Then see the formula, the"
                " measurement, and how far each was off."
            ),
            *sheets,
            SCRIPT,
        ],
    )
