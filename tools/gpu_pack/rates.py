"""Rates of a GPU through PyTorch, a line of JSON each: products of linear layers by shape, also for seconds on end,
attention, copies, and the host's time for an operation. `plan --prices library` assumes such rates (library in
bench/machines).

    python3 rates.py OUT.jsonl [--device cpu]        cpu: tiny, only to see that it runs
"""

import argparse
import json
import statistics
import subprocess
import threading
import time

import torch
import torch.nn.functional as F

KINDS = {  # of a linear layer with x (m, k), w (n, k) and dy (m, n)
    "forward": lambda x, w, dy: x @ w.t(),
    "input": lambda x, w, dy: dy @ w,
    "weight": lambda x, w, dy: dy.t() @ x,
}


class Gpu:
    """Where and how times are taken."""

    def __init__(self, device):
        self.device, self.real, self.began = device, device != "cpu", time.time()

    def normal(self, *shape, dtype=torch.bfloat16):
        shape = shape if self.real else [min(n, 64) for n in shape]
        return torch.randn(*shape, device=self.device).to(dtype)

    def wait(self):
        if self.real:
            torch.cuda.synchronize()

    def since(self):
        return round(time.time() - self.began, 2)

    def sample(self, act, times, first=0):
        """Seconds of one act, by the GPU's clock; act(i) is told which one it is, so that operands can change."""
        if not self.real:
            act(first)
            return 1e-6
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for i in range(times):
            act(first + i)
        stop.record()
        self.wait()
        return start.elapsed_time(stop) / 1e3 / times

    def seconds(self, act):
        """The median of samples of some 2 ms: at least five, and for at least 12 ms."""
        act(0)
        self.wait()
        times = max(1, min(30, int(2e-3 / max(self.sample(act, 1), 2e-6))))
        samples = []
        while len(samples) < 5 or (self.real and sum(samples) * times < 0.012):
            samples.append(self.sample(act, times, len(samples) * times))
        return statistics.median(samples)


def shapes_of_layers():
    """(m, n, k): tokens, outputs and inputs of a block's four layers, of their shards, and of GPT-2's head."""
    for h in (768, 1024, 1280, 1600, 2048, 4096, 5120, 8192):
        for m in (2048, 4096, 8192, 16384):
            yield from ((m, 3 * h, h), (m, h, h), (m, 4 * h, h), (m, h, 4 * h))
    for h in (4096, 8192, 12288):
        for p in (2, 4, 8):
            for m in (2048, 4096):
                yield from ((m, 3 * h // p, h), (m, h, h // p), (m, 4 * h // p, h), (m, h, 4 * h // p))
    for h in (768, 1024, 4096):
        yield from ((16384, 50304, h), (4096, 50304, h))


def rate_of(m, n, k, kind, dtype, seconds):
    tflops = 2e-12 * m * n * k / seconds
    return {"m": m, "n": n, "k": k, "kind": kind, "dtype": dtype, "seconds": seconds, "tflops": tflops}


def products(gpu):
    for m, n, k in dict.fromkeys(shapes_of_layers()) if gpu.real else [(64, 64, 64)]:
        sets = [(gpu.normal(m, k), gpu.normal(n, k), gpu.normal(m, n)) for _ in range(3)]  # no cache holds all of them
        for kind, act in KINDS.items():
            took = gpu.seconds(lambda i: act(*sets[i % 3]))
            yield rate_of(m, n, k, kind, "bf16", took)


def products_in_fp8(gpu):
    one = torch.ones((), device=gpu.device)
    for m, n, k in (
        [(8192, 8192, 8192), (4096, 4096, 4096), (16384, 4096, 4096), (8192, 28672, 8192)] if gpu.real else []
    ):
        x, w = gpu.normal(m, k, dtype=torch.float8_e4m3fn), gpu.normal(n, k, dtype=torch.float8_e4m3fn)
        took = gpu.seconds(lambda i: torch._scaled_mm(x, w.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16))
        yield rate_of(m, n, k, "forward", "fp8", took)


def attention(gpu):
    """Causal: half of the scores count, and 2.5 times as many operations backward as forward."""
    for size in (64, 128):
        for t in (512, 1024, 2048, 4096, 8192, 16384) if gpu.real else (64,):
            batch, heads = max(1, 16384 // t), 16
            q, k, v = (gpu.normal(batch, heads, t, size).requires_grad_() for _ in range(3))
            flop = 2 * batch * heads * t * t * size
            for kernel in ("FLASH_ATTENTION", "CUDNN_ATTENTION") if gpu.real else ("MATH",):
                with torch.nn.attention.sdpa_kernel(getattr(torch.nn.attention.SDPBackend, kernel)):
                    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
                    dy = torch.randn_like(y)
                    forward = gpu.seconds(lambda i: F.scaled_dot_product_attention(q, k, v, is_causal=True))
                    backward = gpu.seconds(lambda i: torch.autograd.grad(y, (q, k, v), dy, retain_graph=True))
                yield {"kernel": kernel, "heads": heads, "head_size": size, "batch": batch, "positions": t,
                       "forward_tflops": 1e-12 * flop / forward,
                       "backward_tflops": 2.5e-12 * flop / backward}  # fmt: skip


def copies(gpu):
    for mib in (1, 4, 16, 64, 256, 1024) if gpu.real else (1,):
        count = max(2, min(16, 4096 // mib))
        x = [gpu.normal(mib << 18, dtype=torch.float32) for _ in range(count)]
        y = [torch.empty_like(x[0]) for _ in range(count)]
        took = gpu.seconds(lambda i: y[i % count].copy_(x[i % count]))
        yield {"mib": mib, "seconds": took, "gb_per_second_read_and_written": 2e-9 * (mib << 20) / took}


def host(gpu):
    """Seconds that the host needs to queue an operation on 8 × 8 numbers."""
    x, w = gpu.normal(8, 8, dtype=torch.float32), gpu.normal(8, 8, dtype=torch.float32)
    linear, norm = torch.nn.Linear(8, 8, device=gpu.device), torch.nn.LayerNorm(8, device=gpu.device)
    with_gradient = gpu.normal(8, 8, dtype=torch.float32).requires_grad_()
    acts = {"add": lambda: x + x, "matmul": lambda: x @ w, "linear_no_grad": lambda: F.linear(x, w),
            "linear": lambda: linear(with_gradient), "layer_norm": lambda: norm(with_gradient),
            "gelu": lambda: F.gelu(with_gradient)}  # fmt: skip
    for name, act in acts.items():
        act()
        samples = []
        for _ in range(5):
            gpu.wait()
            begin = time.perf_counter()
            for _ in range(200):
                act()
            samples.append((time.perf_counter() - begin) / 200)
        yield {"name": name, "seconds": statistics.median(samples)}


def watch(gpu, seen, ended):
    query = ["nvidia-smi", "--query-gpu=power.draw,clocks.sm,temperature.gpu", "--format=csv,noheader,nounits"]
    while gpu.real and not ended.wait(0.25):
        seen.append([gpu.since(), subprocess.run(query, capture_output=True, text=True).stdout.strip()])


def sustained(gpu):
    """The same products for 8 s: what the power limit leaves."""
    n, m, h = 8192, 8192, 4096
    square, x, wide = gpu.normal(n, n), gpu.normal(m, h), gpu.normal(m, 4 * h)
    w = [gpu.normal(*shape) for shape in ((3 * h, h), (h, h), (4 * h, h), (h, 4 * h))]
    block = [(x, w[0]), (x, w[1]), (x, w[2]), (wide, w[3])]
    cases = [("8192 cubed, bf16", [(square, square)], 2 * n**3),
             ("the four products of a block, h = 4096, 8192 tokens, bf16", block, 24 * m * h * h)]  # fmt: skip
    times = 50 if gpu.real else 1
    for name, pairs, flop in cases:
        seen, ended, rates = [], threading.Event(), []
        watcher = threading.Thread(target=watch, args=(gpu, seen, ended))
        watcher.start()
        end = time.time() + (8 if gpu.real else 0.1)
        while time.time() < end:
            begin = time.time()
            for _ in range(times):
                for a, b in pairs:
                    a @ b.t()
            gpu.wait()
            rates.append([gpu.since(), round(times * flop / (time.time() - begin) / 1e12, 1)])
        ended.set()
        watcher.join()
        yield {"name": name, "tflops": rates, "power_clock_temperature": seen}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    gpu = Gpu(arguments.device)
    parts = {"host": host, "product": products, "product in fp8": products_in_fp8, "attention": attention,
             "copy": copies, "sustained": sustained}  # fmt: skip
    with open(arguments.out, "w", encoding="utf-8") as file:
        write = lambda row: file.write(json.dumps(row) + "\n")
        write({"torch": torch.__version__, "gpu": torch.cuda.get_device_name() if gpu.real else "cpu"})
        for name, part in parts.items():
            for row in part(gpu):
                write({"rate": name} | row)
            file.flush()
            print(f"{name}: until {gpu.since()} s", flush=True)


main()
