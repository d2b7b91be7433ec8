"""The predict sheet: the reader writes expectations first; only then the page shows what was measured."""

import html

from html_parts import note, section
from results import load

SCRIPT = """
<script>
(() => {
  const sheet = document.getElementById("sheet"), button = document.getElementById("reveal");
  const inputs = [...sheet.querySelectorAll("input")];
  const reveal = () => {
    for (const input of inputs) {
      const row = input.closest("tr"), guess = parseFloat(input.value.replace(",", ".")), measured = parseFloat(row.dataset.measured);
      row.querySelectorAll(".hidden").forEach(cell => cell.classList.remove("hidden"));
      row.querySelector(".off").textContent = isFinite(guess) ? (100 * (guess / measured - 1)).toFixed(0) + " %" : "no guess";
    }
  };
  const ready = () => { button.disabled = !inputs.every(input => input.value.trim() !== ""); };
  inputs.forEach(input => input.addEventListener("input", ready));
  button.addEventListener("click", reveal);
  ready();
})();
</script>
"""


def pick(results, **wanted):
    for row in results["rows"] if results else []:
        if all(row.get(k) == v for k, v in wanted.items()):
            return row
    return None


def questions(data):
    """(question, unit, predicted by formula, measured, how), of what was run."""
    found = []
    ring = pick(load(data, "all_reduce_sim_dgx-a100"), algorithm="ring", bytes=64 << 20)
    naive = pick(load(data, "all_reduce_sim_dgx-a100"), algorithm="naive", bytes=64 << 20)
    if ring and naive:
        found.append(("Ring all-reduce of 64 MiB on 8 A100 (α = 3.4 µs, 235 GB/s): how long?", "ms", ring["predicted_seconds"] * 1e3, ring["seconds"] * 1e3, "simulated"))
        found.append(("The naive all-reduce of the same?", "ms", naive["predicted_seconds"] * 1e3, naive["seconds"] * 1e3, "simulated"))
        found.append(("MiB that each rank sends in the ring?", "MiB", 2 * 7 / 8 * 64, ring["bytes_sent_per_rank_max"] / 2**20, "ledger"))
        found.append(("MiB that the busiest rank of the naive one sends?", "MiB", 7 * 64, naive["bytes_sent_per_rank_max"] / 2**20, "ledger"))
    point = pick(load(data, "overhead"), parameters=100_000_000, link_gb_per_s=25)
    if point:
        found.append((f"Efficiency of 2 ranks over 25 GB/s: 100 M parameters, {point['tokens_per_rank']:g} tokens a rank, {point['flop_per_second'] / 1e12:g} TFLOP/s, no overlap?", "%",
                      100 * point["predicted_efficiency"], 100 * point["efficiency"], "simulated"))
    step = pick(load(data, "ddp_sim_pcie-box"), algorithm="overlap", bucket_bytes=25 << 20, microbatches=1)
    if step:
        plain = pick(load(data, "ddp_sim_pcie-box"), algorithm="no_overlap", bucket_bytes=25 << 20, microbatches=1)
        alone = pick(load(data, "ddp_sim_pcie-box"), algorithm="compute", bucket_bytes=25 << 20, microbatches=1)["predicted_seconds"]
        hidden = 1 - (step["predicted_seconds"] - alone) / (plain["predicted_seconds"] - alone)
        found.append(("gpt2-124m on the PCIe box, 4 ranks, 25 MiB buckets: how much of the communication does overlap hide?", "%", 100 * hidden, 100 * step["hidden_fraction"], "simulated"))
    zero = pick(load(data, "zero_memory"), stage=1, ranks=4, category="optimizer", moment="resident")
    fsdp = pick(load(data, "zero_memory"), stage=3, ranks=4, category="parameters", moment="peak")
    if zero and fsdp:
        shape = f"GPT of {zero['parameters'] / 1e6:.3g} M parameters in bf16 on 4 ranks"
        found.append((f"{shape}, ZeRO-1: MB of optimizer state on a rank?", "MB", zero["predicted_bytes"] / 1e6, zero["measured_bytes"] / 1e6, "ledger"))
        found.append((f"{shape}, ZeRO-3, units of a block, one gathered ahead: MB of values at most?", "MB", (fsdp["predicted_bytes"] + fsdp["explained_bytes"]) / 1e6,
                      fsdp["measured_bytes"] / 1e6, "ledger"))
    stage3 = pick(load(data, "zero_sim_dgx-a100_2048"), algorithm="zero3")
    if stage3:
        found.append(("GPT-2 355M in bf16 with ZeRO-3 on 8 A100: MB that a rank sends in a step?", "MB", stage3["predicted_bytes_sent_per_rank"] / 1e6,
                      stage3["bytes_sent_per_rank"] / 1e6, "ledger"))
    kept, again = (pick(load(data, "activations"), attention="flash", recompute=how, algorithm=f"flash/{how}") for how in ("none", "full"))
    if kept and again:
        shape = f"{kept['model']} in {kept['dtype']}, {kept['batch_sequences']} × {kept['sequence_tokens']} tokens, flash attention"
        found.append((f"{shape}: GiB of activations?", "GiB", kept["predicted_bytes"] / 2**30, kept["measured_bytes"] / 2**30, "ledger"))
        found.append(("The same with full recomputation?", "GiB", again["predicted_bytes"] / 2**30, again["measured_bytes"] / 2**30, "ledger"))
        found.append(("How much more FLOP does that cost, forward and backward?", "%", 100 * again["predicted_extra_flop"] / kept["flop"], 100 * again["extra_flop"] / kept["flop"], "counted"))
    mpi = pick(load(data, "all_reduce_mpi"), algorithm="ring", bytes=1 << 20)
    if mpi:
        found.append((f"Ring all-reduce of 1 MiB between {mpi['ranks']} processes of this computer?", "µs", mpi["predicted_seconds"] * 1e6, mpi["seconds"] * 1e6, "measured"))
    return found


def section_of(data):
    rows = ""
    for question, unit, predicted, measured, how in questions(data):
        rows += (f'<tr data-measured="{measured:.9g}"><td>{html.escape(question)}</td><td class="guess"><input inputmode="decimal" aria-label="your expectation, {unit}"> {unit}</td>'
                 f'<td class="hidden">{predicted:.4g} {unit}</td><td class="hidden">{measured:.4g} {unit} ({how})</td><td class="hidden">{100 * (predicted / measured - 1):+.1f} %</td>'
                 f'<td class="hidden off"></td></tr>')
    if not rows:
        return ""
    return section("predict", "Predict sheet", [
        note("Write what you expect into every field before you look. Then see the formula, the measurement, and how far each was off."),
        f'<div class="scroll" style="max-height:none" tabindex="0"><table id="sheet" class="text"><thead><tr><th>question</th><th>you expect</th><th>formula</th><th>measured</th>'
        f'<th>formula’s error</th><th>yours</th></tr></thead><tbody>{rows}</tbody></table></div><p><button id="reveal" type="button">Show what was measured</button></p>', SCRIPT])
