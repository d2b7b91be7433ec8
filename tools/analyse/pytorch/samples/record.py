"""Writes the traces beside it: PyTorch on the CPU over Gloo, one file per rank.

    python3 record.py CASE FOLDER

ddp: 2 ranks, rank 1 sleeps 0.2 s before each step. fsdp: 4 ranks. mismatch: 2 ranks, of which one gathers where the
other reduces, and missing: one does not take part; both write what the flight recorder holds then.
"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, schedule

RANKS = {"ddp": 2, "fsdp": 4, "mismatch": 2, "missing": 2}


def outermost(events):
    """Without operations that a thread runs within another one: these say no more."""
    kept, end = [], {}
    for event in sorted(events, key=lambda e: (e["ts"], -e["dur"])):
        if event["cat"] == "cpu_op" and event["ts"] + event["dur"] <= end.get(event["tid"], 0):
            continue
        if event["name"].startswith("aten::"):
            end[event["tid"]] = event["ts"] + event["dur"]
        kept.append(event)
    return kept


def trim(path):
    """Keeps the events that ./lab why reads, one a line, and of their arguments the collectives' sizes."""
    with open(path) as file:
        trace = json.load(file)
    events = [e for e in trace["traceEvents"] if e.get("ph") == "X" and e.get("cat") in ("cpu_op", "user_annotation")]
    lines = []
    for event in outermost(events):
        kept = {key: event[key] for key in ("ph", "cat", "name", "tid")}
        kept["ts"], kept["dur"] = round(event["ts"], 1), round(event["dur"], 1)
        if event["name"].startswith("gloo:"):
            kept["args"] = {key: event["args"][key] for key in ("Input type", "Input Dims")}
        lines.append(json.dumps(kept, separators=(",", ":")))
    head = {key: trace[key] for key in ("schemaVersion", "distributedInfo")}
    with open(path, "w") as file:
        file.write(json.dumps(head)[:-1] + ', "traceEvents": [\n' + ",\n".join(lines) + "\n]}\n")


def train(case, rank, folder):
    torch.manual_seed(0)
    blocks = [torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU()) for _ in range(3)]
    model = torch.nn.Sequential(*blocks)
    if case == "fsdp":
        for block in blocks:
            fully_shard(block)
        fully_shard(model)
    else:
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    path = os.path.join(folder, f"{case}-rank{rank}.json")
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=1, warmup=1, active=2),
        record_shapes=True,
        on_trace_ready=lambda p: p.export_chrome_trace(path),
    ) as profiler:
        for _ in range(4):
            if case == "ddp" and rank == 1:
                time.sleep(0.2)
            optimizer.zero_grad()
            model(torch.randn(64, 256)).pow(2).mean().backward()
            optimizer.step()
            profiler.step()
    trim(path)


def stop(case, rank, folder):
    x = torch.ones(1024)
    for _ in range(3):
        dist.all_reduce(x)
    pending = []
    if case == "mismatch" and rank == 1:
        pending.append(dist.all_gather([torch.empty(1024) for _ in range(2)], x, async_op=True))
    elif rank == 0:
        pending.append(dist.all_reduce(x, async_op=True))
    time.sleep(1)
    dump = json.loads(torch._C._distributed_c10d._dump_fr_trace_json(True, False))
    with open(os.path.join(folder, f"{case}-rank{rank}.json"), "w") as file:
        json.dump(dump, file, indent=1)
    os._exit(0)  # nobody waits for the collective


def main(rank, case, folder):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29613", TORCH_FR_BUFFER_SIZE="100")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS[case])
    (train if case in ("ddp", "fsdp") else stop)(case, rank, folder)
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.multiprocessing.spawn(main, sys.argv[1:3], nprocs=RANKS[sys.argv[1]])
