#!/usr/bin/env python3
"""That .ci/kernels.py finds what it is there for, in kernels that have it: .ci/kernels_test.py NVCC"""

import sys
import tempfile
from pathlib import Path

import kernels

PLANTED = """
#include <cuda_fp16.h>
__global__ void copies_one_by_one(float* y, const float* x) {
  for (int i = 0; i < 4; ++i) y[8 * threadIdx.x + i + 1] = x[8 * threadIdx.x + i + 1];
}
__global__ void copies_fours(float4* y, const float4* x) { y[threadIdx.x] = x[threadIdx.x]; }
__global__ void __launch_bounds__(1024, 2) spills(float* y, const float* x) {
  float kept[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) kept[i] = x[threadIdx.x + 1024 * i];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 64; ++i) y[threadIdx.x + 1024 * i] = kept[63 - i] * kept[(7 * i) % 64];
}
__global__ void has_an_array(float* y, int n) {
  float kept[32];
  for (int i = 0; i < 32; ++i) kept[i] = y[i];
  for (int i = 0; i < n; ++i) kept[(i * i) % 32] += 1;
  y[threadIdx.x] = kept[n % 32];
}
"""


def main():
    wide = ["LDG.128", "STG.128"]
    promises = {"copies_one_by_one": wide, "copies_fours": [*wide, "HMMA"], "is_not_there": wide}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "planted.cu"
        source.write_text(PLANTED)
        count, wrong = kernels.judge(sys.argv[1], [source], "90", promises)
    assert count == 4, count
    texts = sorted(what.split(": ", 1)[1] for what in wrong)
    expected = [
        "copies_fours has no HMMA",
        "copies_one_by_one has no LDG.128",
        "copies_one_by_one has no STG.128",
        "has_an_array: ",
        "no kernel is called is_not_there",
        "spills: ",
    ]
    assert len(texts) == len(expected) and all(map(str.startswith, texts, expected)), texts
    assert " 0 of spill stores" in texts[3] and " 0 of spill stores" not in texts[5], texts
    print("what is planted in kernels is found")


if __name__ == "__main__":
    main()
