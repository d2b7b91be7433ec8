#!/usr/bin/env python3
"""The training step of ./lab train in PyTorch, for comparison: same model, shapes, data order rule, optimizer, threads.

  python3 bench/pytorch_step.py --layers 4 --d-model 192 --heads 6 --batch 64 --sequence 64 --steps 50 --data data/austen.txt

Prints tokens a second (median step) and the loss. Needs PyTorch; nothing else in the project does.
"""

import argparse
import math
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common", "model", "golden"))

import torch  # noqa: E402

from gpt import Gpt, gpt2_init, optimizer_of  # noqa: E402


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in dict(layers=4, heads=6, d_model=192, vocabulary=256, batch=64, sequence=64, accumulate=1, steps=50,
                            warmup=20, threads=2, seed=1).items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=value)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--data", default="data/austen.txt")
    parser.add_argument("--untied", action="store_true")
    parser.add_argument("--report-every", type=int, default=20)
    return parser.parse_args()


def learning_rate(step, o):
    """Linear warm-up, then a cosine down to a tenth."""
    if step < o.warmup:
        return o.lr * (step + 1) / o.warmup
    done = (step - o.warmup) / max(1, o.steps - o.warmup)
    return o.lr * (0.1 + 0.45 * (1 + math.cos(math.pi * done)))


def batch_of(data, o):
    starts = torch.randint(0, len(data) - o.sequence - 1, (o.batch // o.accumulate,)).tolist()
    return (torch.stack([data[s : s + o.sequence] for s in starts]),
            torch.stack([data[s + 1 : s + o.sequence + 1] for s in starts]))


def main():
    o = options()
    torch.set_num_threads(o.threads)
    torch.manual_seed(o.seed)
    data = torch.tensor(list(open(o.data, "rb").read()), dtype=torch.long)
    model = Gpt(o.layers, o.heads, o.d_model, o.vocabulary, o.sequence, not o.untied)
    gpt2_init(model, o.layers, o.d_model)
    optimizer = optimizer_of(model, o.lr)
    seconds = []
    for step in range(o.steps):
        begin = time.perf_counter()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, o)
        total = 0.0
        for _ in range(o.accumulate):
            loss = model.loss(*batch_of(data, o)) / o.accumulate
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - begin)
        if step % o.report_every == 0 or step + 1 == o.steps:
            print(f"step {step + 1:5d}  loss {total:.4f}  {o.batch * o.sequence / seconds[-1]:.0f} tokens/s", flush=True)
    median = statistics.median(seconds[min(3, len(seconds) - 1):])
    parameters = sum(p.numel() for p in model.parameters())
    print(f"PyTorch {torch.__version__}, {o.threads} threads, {parameters} parameters: median step {median * 1e3:.1f} ms, "
          f"{o.batch * o.sequence / median:.0f} tokens/s")


if __name__ == "__main__":
    main()
