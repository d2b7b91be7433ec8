"""ddp.cpp in PyTorch: the same sampler, model, losses and step, with DistributedDataParallel (gloo) for the sums.

torchrun --standalone --nproc_per_node 2 ddp.py TEXT [--epochs 1] [--checkpoint FILE] ...
"""

import argparse
import contextlib
import datetime
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy

CONTEXT, EMBEDDING, HIDDEN, BYTES = 8, 16, 64, 256

line = argparse.ArgumentParser()
line.add_argument("text")
line.add_argument("--checkpoint")
for name, value in {"epochs": 1, "batch": 256, "microbatch": 32, "samples": 10**9, "warmup": 20, "seed": 1}.items():
    line.add_argument(f"--{name}", type=int, default=value)
for name, value in {"log-every": 10, "save-every": 50, "timeout": 60}.items():
    line.add_argument(f"--{name}", type=int, default=value)
for name, value in {"rate": 0.2, "clip": 1.0}.items():
    line.add_argument(f"--{name}", type=float, default=value)
options = line.parse_args()

# 1. The rendezvous: torchrun's environment. On GPUs: torch.cuda.set_device(int(os.environ["LOCAL_RANK"])), and "nccl".
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=options.timeout))  # 6. also of each collective
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)


# 3. Random numbers that depend on a seed and a place alone.
def draw(seed, place):
    mask = 2**64 - 1
    z = ((seed * 0xD1342543DE82EF95 + place + 1) * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


# 4. The sampler. (DistributedSampler repeats samples until they divide evenly; this one does not.)
def order_of(epoch, samples):
    return sorted(range(CONTEXT, CONTEXT + samples), key=lambda s: draw(options.seed * 1000 + epoch + 1, s))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        places = iter(range(10**9))  # parameters in the order of ddp.cpp's array
        for name, shape in {
            "embedding": (BYTES, EMBEDDING),
            "first": (CONTEXT * EMBEDDING + 1, HIDDEN),
            "second": (HIDDEN + 1, BYTES),
        }.items():
            values = [(draw(options.seed, next(places)) >> 40) * 2**-24 * 0.2 - 0.1 for _ in range(shape[0] * shape[1])]
            self.register_parameter(name, torch.nn.Parameter(torch.tensor(values).reshape(shape)))

    def forward(self, contexts):
        x = self.embedding[contexts].flatten(1)
        h = torch.tanh(x @ self.first[:-1] + self.first[-1])
        return h @ self.second[:-1] + self.second[-1]


# 5. What is saved, by rank 0 and under another name first; every rank reads it (with a common file system).
def save():
    if rank == 0 and options.checkpoint:
        torch.save([state, model.module.state_dict(), optimizer.state_dict()], options.checkpoint + ".part")
        os.replace(options.checkpoint + ".part", options.checkpoint)


def step_of(order, count):  # 7. one step of a global batch
    optimizer.zero_grad()
    mine, loss = order[state["position"] + rank : state["position"] + count : ranks], 0.0
    pieces = [mine[i : i + options.microbatch] for i in range(0, len(mine), options.microbatch)] or [[]]
    for samples in pieces:
        contexts = torch.tensor([[text[s - CONTEXT + i] for i in range(CONTEXT)] for s in samples], dtype=torch.long)
        targets = torch.tensor([text[s] for s in samples], dtype=torch.long)
        with contextlib.nullcontext() if samples is pieces[-1] else model.no_sync():
            summed = cross_entropy(model(contexts.reshape(-1, CONTEXT)), targets, reduction="sum")
            (summed * ranks / count).backward()  # DDP divides by the number of ranks; we mean the number of samples
        loss += summed.item()
    torch.nn.utils.clip_grad_norm_(model.parameters(), options.clip)
    for group in optimizer.param_groups:
        group["lr"] = options.rate * min(1, (state["step"] + 1) / options.warmup)
    optimizer.step()
    return loss


stop_wanted = []
for number in signal.SIGTERM, signal.SIGINT, signal.SIGUSR1:
    signal.signal(number, lambda *_: stop_wanted.append(True))
with open(options.text, "rb") as file:
    text = file.read()
samples = min(options.samples, len(text) - CONTEXT)
model = torch.nn.parallel.DistributedDataParallel(Model())
optimizer = torch.optim.SGD(model.parameters(), lr=options.rate, momentum=0.9)
state = {"step": 0, "epoch": 0, "position": 0}
if options.checkpoint and os.path.exists(options.checkpoint):
    state, weights, moments = torch.load(options.checkpoint)
    model.module.load_state_dict(weights)
    optimizer.load_state_dict(moments)
since, done = time.perf_counter(), 0
while state["epoch"] < options.epochs:
    order = order_of(state["epoch"], samples)
    while state["position"] < samples:
        count = min(options.batch, samples - state["position"])
        both = torch.tensor([step_of(order, count), float(bool(stop_wanted))], dtype=torch.float64)
        dist.all_reduce(both)
        state["step"] += 1
        state["position"] += count
        done += count
        if rank == 0 and state["step"] % options.log_every == 0:
            rate = done / (time.perf_counter() - since)
            print(f"step {state['step']}, epoch {state['epoch']}, loss {both[0] / count:.6f}, {rate:.0f} samples/s")
            since, done = time.perf_counter(), 0
        if both[1] > 0 or state["step"] % options.save_every == 0:
            save()
        if both[1] > 0:
            sys.exit(75)
    state["epoch"] += 1
    state["position"] = 0
save()
dist.destroy_process_group()  # 8. everybody arrives here
