#!/usr/bin/env python3
"""The training step of ./lab train and ./lab bench gpt in PyTorch, for comparison: same model, shapes and optimizer.

  python3 bench/programs/pytorch_step.py --model small --batch 64 --sequence 64 --steps 50 --data data/austen.txt
  python3 bench/programs/pytorch_step.py --model gpt2-124m --device cuda --dtype bf16 --batch 16 --sequence 1024
  --compile both

Eager, and with --compile also through torch.compile. bf16 is PyTorch's own mixed precision: fp32 parameters, autocast
around forward and loss. Without --data the tokens are random and each step has the same ones. Prints tokens a second
(median step, waiting for the device) and the loss. Where RANK and WORLD_SIZE are set, as torchrun sets them, it is one
rank of DistributedDataParallel over Gloo, on the CPU, and --batch is that rank's. Needs PyTorch; nothing else in the
project does.
"""

import argparse
import contextlib
import datetime
import json
import math
import os
import statistics
import subprocess
import sys
import time

sys.path.insert(
    0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "common", "gpt", "model", "golden")
)

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

from gpt import Gpt, gpt2_init, optimizer_of  # noqa: E402

# layers, heads, channels, vocabulary, context: common/gpt/model/config.cpp
PRESETS = {
    "tiny": (2, 2, 64, 256, 32),
    "small": (4, 6, 192, 256, 64),
    "gpt2-124m": (12, 12, 768, 50257, 1024),
    "gpt2-355m": (24, 16, 1024, 50257, 1024),
}


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="small", choices=PRESETS)
    for name in ("layers", "heads", "d_model", "vocabulary", "sequence"):
        parser.add_argument("--" + name.replace("_", "-"), type=int, help="instead of the model's")
    for name, value in dict(batch=64, accumulate=1, steps=50, warmup=20, threads=2, seed=1).items():
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--samples", type=int, help="instead of --steps: steps to time after six untimed ones")
    parser.add_argument(
        "--budget", type=float, default=20.0, help="seconds that --samples may take; at least five anyway"
    )
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--data", help="a text, read as bytes")
    parser.add_argument("--untied", action="store_true")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--dtype", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--compile", default="no", choices=["no", "yes", "both"])
    parser.add_argument("--report-every", type=int, default=20)
    parser.add_argument("--json", help="write context and rows to this file, as the benchmarks do")
    o = parser.parse_args()
    for name, value in zip(("layers", "heads", "d_model", "vocabulary", "sequence"), PRESETS[o.model]):
        setattr(o, name, getattr(o, name) or value)
    o.ranks = int(os.environ.get("WORLD_SIZE", 1))
    if o.device == "cuda" and not torch.cuda.is_available():
        parser.error("no CUDA device: leave out --device")
    if o.ranks > 1 and (o.device != "cpu" or o.accumulate > 1):
        parser.error("several ranks: on the CPU, and without --accumulate")
    return o


def learning_rate(step, o):
    """Linear warm-up, then a cosine down to a tenth."""
    if step < o.warmup:
        return o.lr * (step + 1) / o.warmup
    done = (step - o.warmup) / max(1, o.steps - o.warmup)
    return o.lr * (0.1 + 0.45 * (1 + math.cos(math.pi * done)))


def batches(o):
    """Yields (tokens, targets): windows of the text, or the same random tokens again and again."""
    rows = o.batch // o.accumulate
    if not o.data:
        tokens = torch.randint(0, o.vocabulary, (rows, o.sequence + 1)).to(o.device)
        while True:
            yield tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    with open(o.data, "rb") as file:
        data = torch.tensor(list(file.read()), dtype=torch.long).to(o.device)
    while True:
        starts = torch.randint(0, len(data) - o.sequence - 1, (rows,)).tolist()
        yield (
            torch.stack([data[s : s + o.sequence] for s in starts]),
            torch.stack([data[s + 1 : s + o.sequence + 1] for s in starts]),
        )


def wait_for(o):
    if o.device == "cuda":
        torch.cuda.synchronize()


class LossOf(torch.nn.Module):
    """What DistributedDataParallel and torch.compile wrap: a model whose result is its loss."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens, targets):
        return self.model.loss(tokens, targets)


def slowest(seconds, o):
    """Of all ranks."""
    longest = torch.tensor([seconds], dtype=torch.float64)
    if o.ranks > 1:
        dist.all_reduce(longest, op=dist.ReduceOp.MAX)
    return longest.item()


def autocast(o):
    return torch.autocast(o.device, torch.bfloat16) if o.dtype == "bf16" else contextlib.nullcontext()


def step_flop_per_token(o):
    """6 a matrix parameter and token, and 6 L C T for causal attention: GptConfig::step_flop."""
    matrices = 12 * o.layers * o.d_model**2 + o.vocabulary * o.d_model
    return 6 * matrices + 6 * o.layers * o.d_model * o.sequence


UNTIMED = 5  # the first steps compile, choose algorithms and allocate


def train(o, compiled):
    """Trains. Returns the seconds of the steps that count, the first loss and the last, and how many parameters."""
    torch.manual_seed(o.seed)
    with torch.device(o.device) if o.device == "cuda" else contextlib.nullcontext():  # no context before PyTorch 2.0
        model = Gpt(o.layers, o.heads, o.d_model, o.vocabulary, o.sequence, not o.untied)
    gpt2_init(model, o.layers, o.d_model)
    optimizer = optimizer_of(model, o.lr, fused=o.device == "cuda")
    loss_of = LossOf(model)
    if o.ranks > 1:
        loss_of = torch.nn.parallel.DistributedDataParallel(loss_of)
    if compiled:
        loss_of = torch.compile(loss_of)
    data, seconds, losses_seen, steps, step = batches(o), [], [], o.steps, 0
    while step < steps:
        wait_for(o)
        if o.ranks > 1:
            dist.barrier()
        begin = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, o)
        losses = []
        for _ in range(o.accumulate):
            with autocast(o):
                loss = loss_of(*next(data)) / o.accumulate
            loss.backward()
            losses.append(loss.detach())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        wait_for(o)
        seconds.append(time.perf_counter() - begin)
        losses_seen.append(sum(loss.item() for loss in losses))
        if o.samples and step == UNTIMED:  # which takes as long as the others
            steps = UNTIMED + 1 + max(5, min(o.samples, int(o.budget / slowest(seconds[-1], o))))
        if not o.samples and (step % o.report_every == 0 or step + 1 == steps):
            print(
                f"step {step + 1:5d}  loss {losses_seen[-1]:.4f}  {o.batch * o.sequence / seconds[-1]:.0f} tokens/s",
                flush=True,
            )
        step += 1
    counted = seconds[UNTIMED + 1 :] if o.samples else seconds[min(UNTIMED, len(seconds) - 1) :]
    return counted, losses_seen, sum(p.numel() for p in model.parameters())


def commit():
    """Of this file's repository, or of the pack for a rented GPU."""
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    try:
        with open(os.path.join(root, "commit.txt")) as file:
            return file.read().strip()
    except OSError:
        told = subprocess.run(
            ["git", "-C", root, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            capture_output=True,
            text=True,
        )
        return told.stdout.strip() or "unknown"


def write(path, o, rows):
    device = torch.cuda.get_device_name() if o.device == "cuda" else f"CPU, {o.threads} threads"
    context = {
        "machine": device,
        "cores": o.threads,
        "compiler": "PyTorch",
        "build": "Release",
        "commit": commit(),
        "versions": {"torch": torch.__version__, "cuda": torch.version.cuda},
        "command": "pytorch_step",
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    with open(path + ".part", "w") as file:
        json.dump({"context": context, "rows": rows}, file, indent=1)
    os.replace(path + ".part", path)


def main():
    o = options()
    torch.set_num_threads(o.threads)
    torch.set_float32_matmul_precision("high" if o.dtype == "bf16" else "highest")
    if o.ranks > 1:
        dist.init_process_group("gloo")
    rows = []
    for compiled in {"no": [False], "yes": [True], "both": [False, True]}[o.compile]:
        seconds, losses, parameters = train(o, compiled)
        median = statistics.median(seconds)
        kind = "compiled" if compiled else "eager"
        tokens = o.ranks * o.batch * o.sequence / median
        flop = tokens * step_flop_per_token(o)
        rows.append(
            {
                "algorithm": kind,
                "model": o.model,
                "parameters": parameters,
                "dtype": o.dtype,
                "batch_sequences": o.ranks * o.batch,
                "sequence_tokens": o.sequence,
                "backend": "pytorch",
                "ranks": o.ranks,
                "samples": len(seconds),
                "seconds": median,
                "sample_seconds": seconds,
                "tokens_per_second": tokens,
                "flop_per_second": flop,
                "first_loss": losses[0],
                "last_loss": losses[-1],
            }
        )
        print(
            f"PyTorch {torch.__version__}, {kind}, {o.device}, {o.dtype}, {parameters} parameters: "
            f"median step {median * 1e3:.1f} ms, {tokens:.0f} tokens/s, {flop / 1e12:.3g} TFLOP/s",
            flush=True,
        )
        if o.json:
            write(o.json, o, rows)  # now: compiling may fail, or take longer than there is time
    if o.ranks > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
