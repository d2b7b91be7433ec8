# The model and the text: put your own here.
import itertools
import math
import os

import torch
import torch.nn.functional as F
from torch import nn

TEXT = "data/austen.txt"  # or what the variable TEXT says
LAYERS, HEADS, KEY_HEADS, WIDTH, MLP_WIDTH = 2, 4, 4, 64, 256
VOCABULARY, CONTEXT, SEQUENCE, TIED = 256, 64, 64, True
RMS_NORM, SWIGLU, BIAS, ROPE_BASE = False, False, True, 0
STEPS, WARMUP, WEIGHT_DECAY, SEED = 200, 20, 0.1, 1

positions = torch.arange(SEQUENCE)  # a program moves them to its device


def norm():
    return nn.RMSNorm(WIDTH, eps=1e-5) if RMS_NORM else nn.LayerNorm(WIDTH)


def rotated(x):  # x: batch, heads, positions, size of a head
    half = x.shape[-1] // 2
    angles = positions[:, None] * ROPE_BASE ** (-torch.arange(half, device=x.device) / half)
    cos, sin, a, b = angles.cos().to(x.dtype), angles.sin().to(x.dtype), x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        size = WIDTH // HEADS
        self.q = nn.Linear(WIDTH, WIDTH, bias=BIAS)
        self.k = nn.Linear(WIDTH, KEY_HEADS * size, bias=BIAS)
        self.v = nn.Linear(WIDTH, KEY_HEADS * size, bias=BIAS)
        self.projection = nn.Linear(WIDTH, WIDTH, bias=BIAS)

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for f in (self.q, self.k, self.v))
        if ROPE_BASE:
            q, k = rotated(q), rotated(k)
        sums = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=KEY_HEADS < HEADS)
        return self.projection(sums.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDTH, MLP_WIDTH, bias=BIAS) if SWIGLU else None
        self.up = nn.Linear(WIDTH, MLP_WIDTH, bias=BIAS)
        self.down = nn.Linear(MLP_WIDTH, WIDTH, bias=BIAS)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x) if SWIGLU else F.gelu(self.up(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.attention, self.norm2, self.mlp = norm(), Attention(), norm(), Mlp()

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, WIDTH)
        self.position = None if ROPE_BASE else nn.Embedding(CONTEXT, WIDTH)

    def forward(self, tokens):
        x = self.token(tokens)
        return x if ROPE_BASE else x + self.position(positions)


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.linear = norm(), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, x):
        return self.linear(self.norm(x))


def initialise(module):
    for name, parameter in module.named_parameters():
        if parameter.dim() > 1:
            into_sum = "projection" in name or "down" in name  # what is added to the residual stream
            nn.init.normal_(parameter, std=0.02 / (2 * LAYERS) ** 0.5 if into_sum else 0.02)


def seeded(place, kind):  # the same values on every rank, and in every part of a pipeline
    torch.manual_seed(1000003 * SEED + place)
    module = kind()
    initialise(module)
    return module


class Model(nn.Module):
    """Blocks first ... last - 1, embedding before block 0 and head after the last: all, or a pipeline's part."""

    def __init__(self, first=0, last=LAYERS):
        super().__init__()
        self.embedding = seeded(0, Embedding) if first == 0 else None
        self.blocks = nn.ModuleDict({str(i): seeded(1 + i, Block) for i in range(first, last)})
        self.head = seeded(1 + LAYERS, Head) if last == LAYERS else None
        if TIED and self.embedding and self.head:
            self.head.linear.weight = self.embedding.token.weight

    def forward(self, x):
        if self.embedding:
            x = self.embedding(x)
        for block in self.blocks.values():
            x = block(x)
        return self.head(x) if self.head else x


def loss_of(logits, targets):
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def groups_of(model):  # norms and biases do not decay
    return [
        {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": WEIGHT_DECAY},
        {"params": [p for p in model.parameters() if p.dim() <= 1], "weight_decay": 0.0},
    ]


def factor(step):  # of the learning rate
    if step < WARMUP:
        return (step + 1) / WARMUP
    return 0.55 + 0.45 * math.cos(math.pi * min(1, (step - WARMUP) / max(1, STEPS - WARMUP)))


class Text(torch.utils.data.Dataset):
    """The bytes of a file as tokens, in windows of SEQUENCE."""

    def __init__(self):
        with open(os.environ.get("TEXT", TEXT), "rb") as file:
            self.tokens = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)

    def __len__(self):
        return (len(self.tokens) - 1) // SEQUENCE

    def __getitem__(self, i):
        window = self.tokens[i * SEQUENCE : (i + 1) * SEQUENCE + 1].long()
        return window[:-1], window[1:]


def batches(loader, sampler, first):  # from batch `first` on: each epoch in another order
    def all_batches():
        for epoch in itertools.count():
            sampler.set_epoch(epoch)
            count = 0
            for batch in loader:
                count += 1
                yield batch
            if count == 0:
                raise ValueError("the text is too short for one batch")

    return itertools.islice(all_batches(), first, None)
