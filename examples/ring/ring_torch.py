"""The ring all-reduce of 21.2 in PyTorch's words, on processors (gloo); each rank is a process.

torchrun --standalone --nproc_per_node 2 ring_torch.py [NUMBERS]
"""

import statistics
import sys
import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo")
r, p = dist.get_rank(), dist.get_world_size()
n = int(sys.argv[1]) if len(sys.argv) > 1 else 1 << 22  # fp32 numbers of each rank


def ring_all_reduce(data):
    chunks = [data[n * i // p : n * (i + 1) // p] for i in range(p)]
    scratch = torch.empty(n // p + 1)
    for step in range(2 * (p - 1)):  # p − 1 that add, then p − 1 that replace
        outgoing, incoming = chunks[(r - step - 1) % p], chunks[(r - step - 2) % p]
        received = scratch[: len(incoming)] if step < p - 1 else incoming
        batch = [dist.P2POp(dist.isend, outgoing, (r + 1) % p), dist.P2POp(dist.irecv, received, (r - 1) % p)]
        for work in dist.batch_isend_irecv(batch):
            work.wait()
        if step < p - 1:
            incoming += received


seconds, pattern, wrong = [], torch.arange(n) % 97 + 1.0, torch.zeros(1)
for turn in range(8):  # the first is not timed
    data = (r + 1) ** 2 * pattern
    dist.barrier()
    begin = time.perf_counter()
    ring_all_reduce(data)
    took = torch.tensor([time.perf_counter() - begin])
    dist.all_reduce(took, op=dist.ReduceOp.MAX)
    seconds += [took.item()] if turn > 0 else []
    wrong += (data != p * (p + 1) * (2 * p + 1) // 6 * pattern).sum()  # Σ (r + 1)²
dist.all_reduce(wrong)
if r == 0:
    took = statistics.median(seconds)
    print(
        f"PyTorch: {p} ranks, {4 * n} bytes, {'WRONG' if wrong else 'right'}; median {took * 1e3:.3f} ms, "
        f"busbw {2 * (p - 1) / p * 4 * n / took / 1e9:.2f} GB/s"
    )
dist.destroy_process_group()
sys.exit(1 if wrong else 0)
