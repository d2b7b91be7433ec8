"""check_export.py FOLDER: PyTorch's logits of what ./lab export wrote there against trained_logits of gpt2.txt, or of
llama_trained.txt.

By our model in PyTorch (gpt.py, llama.py), and by transformers where that is installed. Exits with 1 where one differs
by 1e-5.
"""

import json
import math
import os
import sys

import torch
from torch.nn import functional as F

import make_llama_golden
from gpt import Gpt

FOLDER = os.path.dirname(os.path.abspath(__file__))
INSIDE = {
    "ln_1": "norm1",
    "attn.c_attn": "qkv",
    "attn.c_proj": "projection",
    "ln_2": "norm2",
    "mlp.c_fc": "up",
    "mlp.c_proj": "down",
}
OUTSIDE = {"wte": "token_embedding", "wpe": "position_embedding", "ln_f": "norm", "lm_head": "head"}


def attention(q, k, v, is_causal):
    """What PyTorch has since 2.0."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return scores.masked_fill(later, -math.inf).softmax(-1) @ v


if not hasattr(F, "scaled_dot_product_attention"):
    F.scaled_dot_product_attention = attention


def read(path):
    """A safetensors file, of fp32."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        numbers = bytearray(file.read())
    header.pop("__metadata__", None)
    return {
        name: (
            torch.frombuffer(
                numbers,
                dtype=torch.float32,
                offset=said["data_offsets"][0],
                count=(said["data_offsets"][1] - said["data_offsets"][0]) // 4,
            ).view(said["shape"])
        )
        for name, said in header.items()
    }


def ours(name, tensor):
    """GPT-2's name and matrix as gpt.py has them."""
    module, kind = name.removeprefix("transformer.").rsplit(".", 1)
    if not module.startswith("h."):
        return f"{OUTSIDE[module]}.{kind}", tensor
    _, layer, part = module.split(".", 2)
    matrix = kind == "weight" and not part.startswith("ln")
    return f"blocks.{layer}.{INSIDE[part]}.{kind}", tensor.T if matrix else tensor


def gpt2_of(config, tensors):
    model = Gpt(config["n_layer"], config["n_head"], config["n_embd"], config["vocab_size"], config["n_positions"])
    weights = dict(ours(*item) for item in tensors.items())
    model.load_state_dict({"head.weight": weights["token_embedding.weight"], **weights})
    return model


def llama_of(config, tensors):
    model = make_llama_golden.model_of(config)
    make_llama_golden.load(model, tensors)
    return model


def main(folder):
    with open(folder + "/config.json", encoding="utf-8") as file:
        config = json.load(file)
    llama = config["model_type"] == "llama"
    with open(FOLDER + ("/llama_trained.txt" if llama else "/gpt2.txt"), encoding="utf-8") as file:
        expected = next(
            torch.tensor([float(v) for v in line.split()[2:]]) for line in file if line.startswith("trained")
        )
    tokens = torch.tensor([[(17 * n + 5) % config["vocab_size"] for n in range(16)]])
    model = (llama_of if llama else gpt2_of)(config, read(folder + "/model.safetensors"))
    programs = {"PyTorch": lambda: model(tokens)}
    try:
        import transformers

        theirs = transformers.LlamaForCausalLM if llama else transformers.GPT2LMHeadModel
        programs["transformers"] = lambda: theirs.from_pretrained(folder).eval()(tokens).logits
    except ImportError:
        pass
    for name, logits in programs.items():
        with torch.no_grad():
            gap = float((logits().flatten()[-len(expected) :] - expected).abs().max())
        print(f"{name}: {len(expected)} logits, off by at most {gap:.1e}")
        if gap > 1e-5:
            sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
