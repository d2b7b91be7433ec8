"""A Llama in PyTorch, as transformers' LlamaForCausalLM computes it, with this project's names: RMSNorm, rotary
positions
(a head's first half turned with its second), grouped queries, SwiGLU, no biases. "qkv" is the rows of q, of k and of v,
"up" those of the gate and of up.

Used by make_llama_golden.py (golden values for the tests) and check_export.py.
"""

import torch
from torch import nn
from torch.nn import functional as F


class RmsNorm(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)


def turned(x, base):
    """x: batch, heads, positions, channels."""
    positions, channels = x.shape[-2:]
    speeds = base ** (-torch.arange(0, channels, 2, dtype=torch.float64) / channels)
    angles = torch.arange(positions, dtype=torch.float64)[:, None] * speeds
    cosines, sines = (torch.cat([f(angles), f(angles)], dim=-1).to(x.dtype) for f in (torch.cos, torch.sin))
    first, second = x.chunk(2, dim=-1)
    return x * cosines + torch.cat([-second, first], dim=-1) * sines


class Block(nn.Module):
    def __init__(self, channels, heads, kv_heads, ffn, base):
        super().__init__()
        self.heads, self.kv_heads, self.head_size, self.base = heads, kv_heads, channels // heads, base
        self.norm1 = RmsNorm(channels)
        self.qkv = nn.Linear(channels, (heads + 2 * kv_heads) * self.head_size, bias=False)
        self.projection = nn.Linear(channels, channels, bias=False)
        self.norm2 = RmsNorm(channels)
        self.up = nn.Linear(channels, 2 * ffn, bias=False)
        self.down = nn.Linear(ffn, channels, bias=False)

    def attention(self, x):
        b, t, c = x.shape
        sizes = [self.heads * self.head_size, self.kv_heads * self.head_size, self.kv_heads * self.head_size]
        q, k, v = (part.view(b, t, -1, self.head_size).transpose(1, 2) for part in self.qkv(x).split(sizes, dim=2))
        q, k = turned(q, self.base), turned(k, self.base)
        k, v = (part.repeat_interleave(self.heads // self.kv_heads, dim=1) for part in (k, v))
        scores = q @ k.transpose(2, 3) / self.head_size**0.5
        hidden = torch.ones(t, t, dtype=torch.bool).triu(1)
        y = scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v
        return self.projection(y.transpose(1, 2).reshape(b, t, c))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        gate, up = self.up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, layers, heads, channels, vocabulary, kv_heads, ffn, base=500000.0, tied=False):
        super().__init__()
        self.token_embedding = nn.Embedding(vocabulary, channels)
        self.blocks = nn.ModuleList(Block(channels, heads, kv_heads, ffn, base) for _ in range(layers))
        self.norm = RmsNorm(channels)
        self.head = nn.Linear(channels, vocabulary, bias=False)
        if tied:
            self.head.weight = self.token_embedding.weight

    def forward(self, tokens):
        x = self.token_embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    def loss(self, tokens, targets):
        logits = self(tokens)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1), ignore_index=-1)
