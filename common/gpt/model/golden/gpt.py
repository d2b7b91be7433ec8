"""The GPT of common/gpt/model in PyTorch: the same layers, names, shapes and initial values by formula.

Used by make_golden.py (golden values for the tests) and bench/programs/pytorch_step.py (speed).
"""

import math

import torch
from torch import nn
from torch.nn import functional as F


def causal_attention(q, k, v):
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    t = q.shape[2]  # PyTorch before 2.0
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[3])
    later = torch.ones(t, t, dtype=torch.bool, device=q.device).triu(1)
    return scores.masked_fill(later, float("-inf")).softmax(dim=3) @ v


class Block(nn.Module):
    def __init__(self, channels, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(channels)
        self.qkv = nn.Linear(channels, 3 * channels)
        self.projection = nn.Linear(channels, channels)
        self.norm2 = nn.LayerNorm(channels)
        self.up = nn.Linear(channels, 4 * channels)
        self.down = nn.Linear(4 * channels, channels)

    def attention(self, x):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2) for part in self.qkv(x).split(c, dim=2))
        y = causal_attention(q, k, v)
        return self.projection(y.transpose(1, 2).reshape(b, t, c))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, heads, channels, vocabulary, context, tied=True):
        super().__init__()
        self.token_embedding = nn.Embedding(vocabulary, channels)
        self.position_embedding = nn.Embedding(context, channels)
        self.blocks = nn.ModuleList(Block(channels, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(channels)
        self.head = nn.Linear(channels, vocabulary, bias=False)
        if tied:
            self.head.weight = self.token_embedding.weight

    def forward(self, tokens):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.token_embedding(tokens) + self.position_embedding(positions)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    def loss(self, tokens, targets):
        logits = self(tokens)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1), ignore_index=-1)


def gpt2_init(model, layers, channels):
    """Values as GPT-2 draws them, with 0.02, its 1/sqrt(3 C), scaled to other widths."""
    deviation = 1 / math.sqrt(3 * channels)
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            nn.init.zeros_(parameter)
        elif "norm" in name:
            nn.init.ones_(parameter)
        elif name.endswith(("projection.weight", "down.weight")):
            nn.init.normal_(parameter, 0, deviation / math.sqrt(2 * layers))
        else:
            nn.init.normal_(parameter, 0, deviation)


def optimizer_of(model, learning_rate, weight_decay=0.1, fused=False):
    """AdamW whose weight decay spares norms and biases, with this project's constants; fused: one kernel, on GPUs."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(
        groups, lr=learning_rate, betas=(0.9, 0.95), eps=1e-8, **({"fused": True} if fused else {})
    )
