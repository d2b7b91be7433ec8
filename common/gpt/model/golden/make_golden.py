#!/usr/bin/env python3
"""Writes golden.txt and llama.txt, which common/gpt/tests/model_gradient_test.cpp compares the model with: losses,
logits, gradients, AdamW steps.

  python3 common/gpt/model/golden/make_golden.py > common/gpt/model/golden/golden.txt
  python3 common/gpt/model/golden/make_golden.py llama > common/gpt/model/golden/llama.txt

Computed by PyTorch in double precision, from values and tokens that both sides make by the formulas below.
A line is: key, how many values, the values.
"""

import math
import sys

import torch

from gpt import Gpt, optimizer_of
from llama import Llama

LAYERS, HEADS, CHANNELS, VOCABULARY, CONTEXT = 2, 3, 24, 29, 10
SEQUENCES, LENGTH = 3, 8
FFN, BASE = 40, 500.0  # of Llama; with a small base the slow pairs turn visibly in 8 positions
STEPS, LEARNING_RATE, MAX_NORM = 6, 1e-2, 1.0


def initial(name, tensor, size):
    """Element i of tensor t: a small fraction of (7919 i + 104729 t) mod 2003, around 1 for norm weights."""
    i = torch.arange(size, dtype=torch.int64)
    u = ((7919 * i + 104729 * tensor) % 2003).double() / 2003 - 0.5
    value = 1 + 0.25 * u if "norm" in name and name.endswith("weight") else 0.5 * u
    return value.float().double()  # what fp32 holds


def line(key, values):
    print(key, len(values), *(f"{float(v.detach() if torch.is_tensor(v) else v):.9g}" for v in values))


def gpt(tied):
    return Gpt(LAYERS, HEADS, CHANNELS, VOCABULARY, CONTEXT, tied)


def llama(heads, kv_heads, tied):
    return Llama(LAYERS, heads, CHANNELS, VOCABULARY, kv_heads, FFN, BASE, tied)


def case(name, model):
    model = model.double()
    parameters = list(model.named_parameters())
    with torch.no_grad():
        for t, (key, p) in enumerate(parameters):
            p.copy_(initial(key, t, p.numel()).view_as(p))
    n = torch.arange(SEQUENCES * LENGTH)
    tokens = ((31 * n * n + 7 * n + 3) % VOCABULARY).view(SEQUENCES, LENGTH)
    targets = ((17 * n + 5) % VOCABULARY).view(SEQUENCES, LENGTH)
    targets.view(-1)[5] = -1  # counts nothing

    line(f"{name}.sizes", [p.numel() for _, p in parameters])
    line(f"{name}.logits", model(tokens).flatten()[:64])
    loss = model.loss(tokens, targets)
    loss.backward()
    line(f"{name}.gradient_norms", [p.grad.norm() for _, p in parameters])
    line(
        f"{name}.gradient_samples",
        [p.grad.flatten()[k * (p.numel() - 1) // 3] for _, p in parameters for k in range(4)],
    )
    line(f"{name}.total_norm", [math.sqrt(sum(float(p.grad.norm()) ** 2 for _, p in parameters))])

    optimizer = optimizer_of(model, LEARNING_RATE)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model.loss(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()
        losses.append(loss)
    line(f"{name}.losses", losses)
    line(f"{name}.final_samples", [p.flatten()[k * (p.numel() - 1) // 3] for _, p in parameters for k in range(4)])


if __name__ == "__main__":
    if sys.argv[1:] == ["llama"]:
        case("llama", llama(heads=6, kv_heads=2, tied=False))
        case("llama_tied", llama(heads=3, kv_heads=3, tied=True))
    else:
        case("tied", gpt(True))
        case("untied", gpt(False))
