#!/usr/bin/env python3
"""Writes llama_trained.txt, which tools/train/weights_test.cpp and check_export.py compare --init and ./lab export
with,
for the model of llama.json, as make_gpt2_golden.py does for GPT-2.

  python3 common/gpt/model/golden/make_llama_golden.py             (needs torch)
  python3 common/gpt/model/golden/make_llama_golden.py FILE        its initial weights alone, a safetensors file

llama.py computes logits, trains in double precision on the batches that ./lab train draws, and computes the logits
again. Initial weights are by the formula of make_golden.py. Where transformers is installed, its LlamaForCausalLM must
give the same logits.
"""

import json
import os
import struct
import sys

import torch

from llama import Llama
from make_golden import initial
from make_gpt2_golden import golden

FOLDER = os.path.dirname(os.path.abspath(__file__))
INSIDE = {
    "norm1": ["input_layernorm"],
    "norm2": ["post_attention_layernorm"],
    "projection": ["self_attn.o_proj"],
    "qkv": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    "up": ["mlp.gate_proj", "mlp.up_proj"],
    "down": ["mlp.down_proj"],
}
OUTSIDE = {"token_embedding": "model.embed_tokens", "norm": "model.norm", "head": "lm_head"}


def model_of(config):
    return Llama(
        config["num_hidden_layers"],
        config["num_attention_heads"],
        config["hidden_size"],
        config["vocab_size"],
        config["num_key_value_heads"],
        config["intermediate_size"],
        config["rope_theta"],
        config["tie_word_embeddings"],
    )


def places(model):
    """transformers' name of a tensor, ours, its first row and rows."""
    for name, tensor in model.state_dict().items():
        module = name.removesuffix(".weight")
        if not module.startswith("blocks."):
            yield OUTSIDE[module] + ".weight", name, 0, tensor.shape[0]
            continue
        _, layer, part = module.split(".")
        channels, rows = model.norm.weight.shape[0], tensor.shape[0]
        sizes = {"qkv": [channels, (rows - channels) // 2, (rows - channels) // 2], "up": [rows // 2, rows // 2]}
        first = 0
        for theirs, size in zip(INSIDE[part], sizes.get(part, [rows])):
            yield f"model.layers.{layer}.{theirs}.weight", name, first, size
            first += size


def theirs(model):
    """State of transformers' model."""
    state = model.state_dict()
    return {name: state[ours][first : first + rows] for name, ours, first, rows in places(model)}


def load(model, tensors):
    """The inverse of theirs()."""
    state = model.state_dict()
    for name, ours, first, rows in places(model):
        state[ours][first : first + rows] = tensors[name]
    model.load_state_dict(state)


def write(path, tensors):
    """A safetensors file, of fp32."""
    header, at = {}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at + 4 * tensor.numel()]}
        at += 4 * tensor.numel()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(tensor.float().contiguous().numpy().tobytes())


def main():
    with open(FOLDER + "/llama.json", encoding="utf-8") as file:
        config = json.load(file)
    model = model_of(config).double()
    with torch.no_grad():
        for t, (name, p) in enumerate(model.named_parameters()):
            p.copy_(initial(name, t, p.numel()).view_as(p))
    if len(sys.argv) > 1:
        write(sys.argv[1], theirs(model))
        return
    try:
        import transformers
    except ImportError:
        transformers = None
    if transformers:
        other = transformers.LlamaForCausalLM(
            transformers.LlamaConfig(**config)
        ).eval()  # some versions know fp32 alone
        other.load_state_dict({name: tensor.float() for name, tensor in theirs(model).items()})
        tokens = torch.tensor([[(17 * n + 5) % config["vocab_size"] for n in range(16)]])
        gap = float((other(tokens).logits - model(tokens)).abs().max())
        if gap > 1e-5:
            sys.exit(f"transformers' logits differ by {gap:.1e}")
    golden(model, model, FOLDER + "/llama_trained.txt", peak=0.01)


if __name__ == "__main__":
    main()
