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


def crossovers(data):
    found = []
    results = load(data, "crossover_sim_dgx-a100-hdr")
    where = "16 A100 in two nodes, an InfiniBand port each (14 µs, 23.5 GB/s; inside 3.4 µs, 235 GB/s)"
    for row in compared(results["rows"])[:1] if results else []:
        if row["seen"]:
            found.append(
                (
                    f"{where}: up to how many KiB is {row['from']} faster than {row['to']}?",
                    "KiB",
                    row["predicted"] / 1024,
                    row["seen"] / 1024,
                    "simulated",
                )
            )
    flat, mine = (pick(results, algorithm=name, bytes=64 << 20) for name in ("ring", "hierarchical"))
    if flat and mine:
        found.append(
            (
                "The same, 64 MiB: how much faster is the hierarchical all-reduce than the flat ring?",
                "times",
                flat["predicted_seconds"] / mine["predicted_seconds"],
                flat["seconds"] / mine["seconds"],
                "simulated",
            )
        )
    return found


def data_parallelism(data):
    found = []
    ring = pick(load(data, "all_reduce_sim_dgx-a100"), algorithm="ring", bytes=64 << 20)
    naive = pick(load(data, "all_reduce_sim_dgx-a100"), algorithm="naive", bytes=64 << 20)
    if ring and naive:
        found.append(
            (
                "Ring all-reduce of 64 MiB on 8 A100 (α = 3.4 µs, 235 GB/s): how long?",
                "ms",
                ring["predicted_seconds"] * 1e3,
                ring["seconds"] * 1e3,
                "simulated",
            )
        )
        found.append(
            (
                "The naive all-reduce of the same?",
                "ms",
                naive["predicted_seconds"] * 1e3,
                naive["seconds"] * 1e3,
                "simulated",
            )
        )
        found.append(
            (
                "MiB that each rank sends in the ring?",
                "MiB",
                2 * 7 / 8 * 64,
                ring["bytes_sent_per_rank_max"] / 2**20,
                "ledger",
            )
        )
        found.append(
            (
                "MiB that the busiest rank of the naive one sends?",
                "MiB",
                7 * 64,
                naive["bytes_sent_per_rank_max"] / 2**20,
                "ledger",
            )
        )
    found += crossovers(data) + compression(data)
    point = pick(load(data, "overhead"), parameters=100_000_000, link_gb_per_s=25)
    if point:
        found.append(
            (
                (
                    f"Efficiency of 2 ranks over 25 GB/s: 100 M parameters, {point['tokens_per_rank']:g} tokens per"
                    f" rank, {point['flop_per_second'] / 1e12:g} TFLOP/s, no overlap?"
                ),
                "%",
                100 * point["predicted_efficiency"],
                100 * point["efficiency"],
                "simulated",
            )
        )
    step = pick(load(data, "ddp_sim_pcie-box"), algorithm="overlap", bucket_bytes=25 << 20, microbatches=1)
    if step:
        plain = pick(load(data, "ddp_sim_pcie-box"), algorithm="no_overlap", bucket_bytes=25 << 20, microbatches=1)
        alone = pick(load(data, "ddp_sim_pcie-box"), algorithm="compute", bucket_bytes=25 << 20, microbatches=1)[
            "predicted_seconds"
        ]
        hidden = 1 - (step["predicted_seconds"] - alone) / (plain["predicted_seconds"] - alone)
        found.append(
            (
                "gpt2-124m on the PCIe box, 4 ranks, 25 MiB buckets: how much of the communication does overlap hide?",
                "%",
                100 * hidden,
                100 * step["hidden_fraction"],
                "simulated",
            )
        )
    mpi = pick(load(data, "all_reduce_mpi"), algorithm="ring", bytes=1 << 20)
    if mpi:
        found.append(
            (
                f"Ring all-reduce of 1 MiB between {mpi['ranks']} processes of this computer?",
                "µs",
                mpi["predicted_seconds"] * 1e6,
                mpi["seconds"] * 1e6,
                "measured",
            )
        )
    return found


def compression(data):
    """Bytes and time of compressed all-reduces on 8 ranks of two nodes."""
    results = load(data, "compression_sim_pcie-box-10gbe")
    found = []
    for algorithm, words in (
        ("topk:0.01", "the largest 1 %, as values with their indices"),
        ("int8", "int8 by one all-gather"),
        ("int8-two-step", "int8 in two steps"),
    ):
        row = pick(results, algorithm=algorithm, ranks=8)
        if row:
            found.append(
                (
                    f"A rank of 8 sums 25 MiB of gradients as {words}: MiB sent? (The ring: 43.75)",
                    "MiB",
                    row["predicted_bytes_sent_per_rank"] / 2**20,
                    row["bytes_sent_per_rank_max"] / 2**20,
                    "ledger",
                )
            )
    local = pick(load(data, "local_sgd_4"), method="diloco:16")
    if local:
        found.append(
            (
                "GPT tiny on 4 ranks, an outer step every 16 local ones: KiB that a rank sends per step?",
                "KiB",
                local["predicted_bytes_sent_per_step"] / 1024,
                local["bytes_sent_per_step"] / 1024,
                "ledger",
            )
        )
    ring, top = (pick(results, algorithm=a, ranks=8) for a in ("ring", "topk:0.01"))
    if ring and top:
        found.append(
            (
                "How many times as fast as the ring is top-k of 1 % there, over 10 GbE?",
                "times",
                ring["predicted_seconds"] / top["predicted_seconds"],
                ring["seconds"] / top["seconds"],
                "simulated",
            )
        )
    return found


def zero_stages(data):
    found = []
    zero = pick(load(data, "zero_memory"), stage=1, ranks=4, category="optimizer", moment="resident")
    fsdp = pick(load(data, "zero_memory"), stage=3, ranks=4, category="parameters", moment="peak")
    if zero and fsdp:
        shape = f"GPT of {zero['parameters'] / 1e6:.3g} M parameters in bf16 on 4 ranks"
        found.append(
            (
                f"{shape}, ZeRO-1: MB of optimizer state per rank?",
                "MB",
                zero["predicted_bytes"] / 1e6,
                zero["measured_bytes"] / 1e6,
                "ledger",
            )
        )
        found.append(
            (
                f"{shape}, ZeRO-3, one unit per block, one gathered ahead: MB of values at most?",
                "MB",
                (fsdp["predicted_bytes"] + fsdp["explained_bytes"]) / 1e6,
                fsdp["measured_bytes"] / 1e6,
                "ledger",
            )
        )
    hybrid = pick(load(data, "hsdp_sim_dgx-a100-10gbe"), method="hybrid:8", microbatches=4)
    if hybrid:
        found.append(
            (
                (
                    "GPT-2 1.5B in bf16, state sharded inside each of two nodes of 8 A100: GiB that a node sends the"
                    " other in a step?"
                ),
                "GiB",
                hybrid["predicted_bytes_across_nodes"] / 2**30,
                hybrid["bytes_across_nodes"] / 2**30,
                "ledger",
            )
        )
    stage3 = pick(load(data, "zero_sim_dgx-a100_2048"), algorithm="zero3")
    if stage3:
        found.append(
            (
                "GPT-2 355M in bf16 with ZeRO-3 on 8 A100: MB that a rank sends in a step?",
                "MB",
                stage3["predicted_bytes_sent_per_rank"] / 1e6,
                stage3["bytes_sent_per_rank"] / 1e6,
                "ledger",
            )
        )
    kept, again = (
        pick(load(data, "activations"), attention="flash", recompute=how, algorithm=f"flash/{how}")
        for how in ("none", "full")
    )
    if kept and again:
        shape = (
            f"{kept['model']} in {kept['dtype']}, {kept['batch_sequences']} × {kept['sequence_tokens']} tokens, flash"
            " attention"
        )
        found.append(
            (
                f"{shape}: GiB of activations?",
                "GiB",
                kept["predicted_bytes"] / 2**30,
                kept["measured_bytes"] / 2**30,
                "ledger",
            )
        )
        found.append(
            (
                "The same with full recomputation?",
                "GiB",
                again["predicted_bytes"] / 2**30,
                again["measured_bytes"] / 2**30,
                "ledger",
            )
        )
        found.append(
            (
                "How much more FLOP does that cost, forward and backward?",
                "%",
                100 * again["predicted_extra_flop"] / kept["flop"],
                100 * again["extra_flop"] / kept["flop"],
                "counted",
            )
        )
    return found


def tensor_parallelism(data):
    found = []
    course = [
        r
        for r in (load(data, "tp_course") or {"rows": []})["rows"]
        if r["machine"] == "pcie-box" and r["algorithm"] == "no_overlap"
    ]
    if course:
        blocks = [r for r in course if r["place"] in ("attention forward", "mlp forward")]
        (step,) = (r for r in course if r["pass"] == "step")
        shape = "12 layers, d_model 512, 8 × 512 tokens, bf16, on 2 ranks"
        found.append(
            (
                f"{shape}: MiB all-reduced in the blocks, forward?",
                "MiB",
                24 * 8 * 512 * 512 * 2 / 2**20,
                sum(r["total_bytes"] for r in blocks) / 2**20,
                "ledger",
            )
        )
        found.append(
            (
                "The same on the PCIe box (α = 5.7 µs, 24 GB/s): how long do these all-reduces take?",
                "ms",
                sum(r["predicted_seconds"] for r in blocks) * 1e3,
                sum(r["seconds"] for r in blocks) * 1e3,
                "simulated",
            )
        )
        found.append(
            (
                "MB of parameters on each of the 2 ranks (50,257 tokens, 512 positions, tied head)?",
                "MB",
                ((50257 * 512 + 12 * (12 * 512**2 + 7 * 512)) / 2 + 512**2 + 12 * 6 * 512 + 2 * 512) * 2 / 1e6,
                step["parameter_bytes"] / 1e6,
                "ledger",
            )
        )
    for machine, p in (("pcie-box", 4), ("dgx-a100", 8)):
        row = pick(load(data, f"tp_width_{machine}"), ranks=p, d_model=4096, algorithm="no_overlap", **{"pass": "step"})
        if row:
            found.append(
                (
                    f"d_model 4,096 on {p} ranks of {machine}: communication’s share of a step, no overlap?",
                    "%",
                    100 * row["predicted_communication_share"],
                    100 * row["communication_share"],
                    "simulated",
                )
            )
    row = pick(load(data, "tp_width_dgx-a100"), ranks=8, d_model=4096, algorithm="overlap", **{"pass": "step"})
    if row:
        plain = pick(load(data, "tp_width_dgx-a100"), ranks=8, d_model=4096, algorithm="no_overlap", **{"pass": "step"})
        hidden = (plain["predicted_seconds"] - row["predicted_seconds"]) / (
            plain["predicted_seconds"] * plain["predicted_communication_share"]
        )
        found.append(
            (
                "The same on dgx-a100: how much of it do the weight gradients hide?",
                "%",
                100 * hidden,
                100 * row["hidden_fraction"],
                "simulated",
            )
        )
    inside, across = (
        pick(load(data, "tp_nodes_dgx-a100-hdr"), ranks=p, algorithm="no_overlap", **{"pass": "step"}) for p in (8, 16)
    )
    if inside and across:
        found.append(
            (
                "d_model 4,096, 4 × 2,048 tokens: a step on 16 A100 in two nodes, relative to 8 in one?",
                "times",
                across["predicted_seconds"] / inside["predicted_seconds"],
                across["seconds"] / inside["seconds"],
                "simulated",
            )
        )
    row = pick(load(data, "tp_emulated_pcie-box_4"), d_model=256, algorithm="no_overlap", **{"pass": "step"})
    if row:
        found.append(
            (
                (
                    "2 layers, d_model 256, 2 × 64 tokens in fp32 on 4 ranks of the PCIe box: communication’s share by"
                    " wall clock?"
                ),
                "%",
                100 * row["predicted_communication_share"],
                100 * row["communication_share"],
                "emulated",
            )
        )
    return found


def pipelines(data):
    found = []
    results = load(data, "pipeline")
    for p, m, name in ((4, 8, "gpipe"), (4, 8, "interleaved"), (8, 32, "1f1b")):
        row = pick(results, stages=p, microbatches=m, schedule=name, transfer_seconds=0)
        if row:
            chunks = ", two chunks" if name == "interleaved" else ""
            found.append(
                (
                    f"{name}, {p} stages, {m} microbatches{chunks}: idle / total?",
                    "%",
                    100 * row["predicted_bubble_of_total"],
                    100 * row["bubble_of_total"],
                    "simulated",
                )
            )
    row = pick(results, stages=8, microbatches=32, schedule="1f1b", transfer_seconds=0)
    if row:
        found.append(
            (
                "The same run: idle / ideal?",
                "%",
                100 * row["predicted_bubble_of_ideal"],
                100 * row["bubble_of_ideal"],
                "simulated",
            )
        )
        found.append(
            (
                "… and GiB of activations on stage 0, 64 MiB per microbatch?",
                "GiB",
                8 * 64 / 1024,
                row["activation_bytes_peak"] / 2**30,
                "ledger",
            )
        )
    row = pick(results, stages=4, microbatches=8, schedule="zb-h1", transfer_seconds=0)
    if row:
        found.append(
            (
                "zb-h1, 4 stages, 8 microbatches, F = B = W: idle / the longest stage’s own span?",
                "%",
                100 * row["predicted_bubble_of_span"],
                100 * row["bubble_of_span"],
                "simulated",
            )
        )
    row = pick(load(data, "pipeline_hops"), schedule="gpipe", transfer_seconds=0.0002)
    other = pick(load(data, "pipeline_hops"), schedule="1f1b", transfer_seconds=0.0002)
    if row and other:
        shape = "4 stages, 32 microbatches, forward 1 ms, backward 2 ms, a hop 0.2 ms"
        found.append(
            (f"{shape}: GPipe’s makespan?", "ms", 35 * 3 + 6 * 0.2, row["makespan_seconds"] * 1e3, "simulated")
        )
        found.append(("… and 1F1B’s?", "ms", 35 * 3 + 32 * 6 / 4 * 0.2, other["makespan_seconds"] * 1e3, "simulated"))
    row = pick(load(data, "pipeline_unequal"), schedule="1f1b", last_stage=2)
    if row:
        found.append(
            (
                (
                    "4 stages, 8 microbatches, the last stage has twice the others’ work: what share of the time do"
                    " stages work?"
                ),
                "%",
                100 * 8 / (4 + 7 * 8 / 5),
                100 * row["utilisation"],
                "simulated",
            )
        )
    for m in (4, 8):
        row = pick(load(data, "pipeline_wall_2"), schedule="gpipe", microbatches=m)
        if row:
            found.append(
                (
                    f"Two real processes, {m} microbatches: what share of the time do they work?",
                    "%",
                    100 - 100 * row["predicted_bubble_of_total"],
                    100 * row["utilisation"],
                    "emulated",
                )
            )
    return found


def everything_together(data):
    found = []
    plans = load(data, "plan_gpt3")
    best = next((r for r in plans["rows"] if r.get("simulated_seconds")), None) if plans else None
    if best:
        more = f"{best['schedule']} with {best['chunks']} chunks" if best["chunks"] > 1 else best["schedule"]
        shape = (
            f"GPT-3 175B on {best['gpus']:,} A100, {best['global_batch']:,} sequences, as {best['dp']} × {best['tp']} ×"
            f" {best['pp']}, {more}, microbatches of {best['microbatch']}, ZeRO-{best['zero']}"
        )
        found.append(
            (f"{shape}: how long is a step?", "s", best["step_seconds"], best["simulated_seconds"], "simulated")
        )
        found.append(
            (
                "… GB on the fullest GPU?",
                "GB",
                best["memory_bytes"] / 1e9,
                best["simulated_memory_bytes"] / 1e9,
                "ledger",
            )
        )
    for name, words in (
        ("175b", "GPT-3 as 8 × 8 × 16, 192 microbatches"),
        ("1t", "1T parameters as 1 × 8 × 64, 512 microbatches"),
    ):
        row = pick(load(data, f"phantom_{name}"), chunks=1)
        if row:
            found.append(
                (
                    f"{words}, 1F1B: idle / ideal?",
                    "%",
                    100 * (row["stages"] - 1) / row["accumulate"],
                    100 * row["bubble_of_ideal"],
                    "simulated",
                )
            )
    row = pick(load(data, "phantom_1t"), stages=64)
    if row:
        h, s, vocabulary, t, layers = 25600, 2048, 51200, row["tensor_parallel"], 128 // row["stages"]
        state = 16 * ((12 * layers * h * h + vocabulary * h) / t + s * h)
        measured = sum(row[f"stage_{kind}_bytes_peak"][0] for kind in ("parameter", "gradient", "optimizer"))
        found.append(
            (
                (
                    "The same: GB of parameters, gradients and optimizer state of a rank of stage 0 (2 layers of"
                    " d_model 25,600, embedding of 51,200 tokens, 2,048 positions)?"
                ),
                "GB",
                state / 1e9,
                measured / 1e9,
                "ledger",
            )
        )
        found.append(
            (
                "… GB of activations there, with sequence parallelism and flash attention?",
                "GB",
                row["stages"] * layers * 32 * s * h / t / 1e9,
                row["stage_activation_bytes_peak"][0] / 1e9,
                "ledger",
            )
        )
    strong = load(data, "scale_strong")
    two, rest = pick(strong, ranks=2), [(p, pick(strong, ranks=p)) for p in (8, 16)]
    if two and two.get("karp_flatt") and all(r and r.get("efficiency") for _, r in rest):
        s = two["karp_flatt"]
        for p, row in rest:
            where = "inside the node" if p == 8 else "of two nodes"
            found.append(
                (
                    (
                        f"GPT-2 355M, DDP, batch 32: two A100 have an efficiency of {100 * two['efficiency']:.0f} %. On"
                        f" {p}, {where}?"
                    ),
                    "%",
                    100 / (p * s + 1 - s),
                    100 * row["efficiency"],
                    "simulated",
                )
            )
    bubble = next((r for r in (load(data, "why_bubble") or {"rows": []})["rows"] if r.get("cost") == "bubble"), None)
    if bubble:
        found.append(
            (
                "GPT-2 124M in 4 stages, 4 microbatches: how much shorter without the bubble?",
                "%",
                100 * 3 / 7,
                100 * bubble["gained"],
                "replayed",
            )
        )
    return found


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
        for questions in [make(data)]
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
