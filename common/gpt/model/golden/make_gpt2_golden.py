#!/usr/bin/env python3
"""Writes gpt2.safetensors and gpt2.txt, which tools/train/weights_test.cpp compares --init and ./lab export with.

  python3 common/gpt/model/golden/make_gpt2_golden.py        (needs torch, transformers and safetensors)

The file is what Hugging Face's GPT2LMHeadModel saves. From its weights transformers computes logits, trains in double
precision on the batches that ./lab train draws, and computes the logits again: three programs' agreement, not our own.
A line is: key, how many values, the values.
"""

import os

import torch
from torch.nn import functional as F

FOLDER = os.path.dirname(os.path.abspath(__file__))
LAYERS, HEADS, CHANNELS, VOCABULARY, CONTEXT = 2, 4, 24, 256, 32
SEQUENCES, LENGTH, STEPS, SEED = 8, 16, 5, 1
PEAK, WARMUP, MAX_NORM = 0.03, 10, 1.0
TEXT = [(31 * n * n + 7 * n + 3) % 251 for n in range(2000)]  # what the test writes as a text of bytes
MASK = (1 << 64) - 1


def mix(value):
    """splitmix64, as common/ has it."""
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def batch(step):
    """The rows that Corpus::batch draws from the nine tenths of the text that are for training."""
    train = TEXT[: len(TEXT) - int(len(TEXT) * 0.1)]
    rows = []
    for row in range(SEQUENCES):
        place = mix(mix(mix(SEED) ^ step) ^ row) * (len(train) - LENGTH) >> 64
        rows.append(train[place : place + LENGTH + 1])
    rows = torch.tensor(rows)
    return rows[:, :-1], rows[:, 1:]


def line(file, key, values):
    print(key, len(values), *(f"{float(v):.9g}" for v in values), file=file)


def golden(model, logits_of, path, peak=PEAK):
    """Logits of tokens by formula, losses of five steps, and logits after them."""
    probe = torch.tensor([[(17 * n + 5) % VOCABULARY for n in range(LENGTH)]])
    groups = [
        {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=1.0, betas=(0.9, 0.95), eps=1e-8)
    with open(path, "w", encoding="utf-8") as file:
        line(file, "logits", logits_of(probe).detach().flatten()[-2 * VOCABULARY :])
        losses = []
        for step in range(STEPS):
            for group in optimizer.param_groups:
                group["lr"] = peak * (step + 1) / WARMUP
            inputs, targets = batch(step)
            optimizer.zero_grad()
            loss = F.cross_entropy(logits_of(inputs).view(-1, VOCABULARY), targets.reshape(-1))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
            optimizer.step()
            losses.append(loss.detach())
        line(file, "losses", losses)
        line(file, "trained_logits", logits_of(probe).detach().flatten()[-2 * VOCABULARY :])


def main():
    import transformers

    torch.manual_seed(20)
    config = transformers.GPT2Config(
        n_layer=LAYERS,
        n_head=HEADS,
        n_embd=CHANNELS,
        n_positions=CONTEXT,
        vocab_size=VOCABULARY,
        resid_pdrop=0,
        embd_pdrop=0,
        attn_pdrop=0,
        initializer_range=0.1,
    )
    model = transformers.GPT2LMHeadModel(config)
    with torch.no_grad():  # biases and norms that are not 0 and 1
        for name, p in model.named_parameters():
            if p.dim() == 1:
                p.add_(0.1 * torch.randn_like(p))
    model.save_pretrained(FOLDER + "/gpt2_saved", safe_serialization=True)
    os.replace(FOLDER + "/gpt2_saved/model.safetensors", FOLDER + "/gpt2.safetensors")
    for left in os.listdir(FOLDER + "/gpt2_saved"):
        os.remove(FOLDER + "/gpt2_saved/" + left)
    os.rmdir(FOLDER + "/gpt2_saved")

    model = model.double().eval()
    golden(model, lambda tokens: model(tokens).logits, FOLDER + "/gpt2.txt")


if __name__ == "__main__":
    main()
