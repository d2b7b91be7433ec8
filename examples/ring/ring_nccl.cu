// The ring all-reduce of 21.2 in NCCL's words; one process, and each GPU of this computer is a rank.
//
//   nvcc -O3 ring_nccl.cu -o ring_nccl -lnccl && ./ring_nccl [NUMBERS]
#include <cuda_runtime.h>
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

void check(cudaError_t status) { if (status != cudaSuccess) std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(status)), std::exit(2); }
void check(ncclResult_t status) { if (status != ncclSuccess) std::fprintf(stderr, "NCCL: %s\n", ncclGetErrorString(status)), std::exit(2); }

struct Rank { ncclComm_t comm; cudaStream_t stream; float *data, *scratch; };

__global__ void add(float* to, const float* from, long count) {
  const long i = blockIdx.x * long(blockDim.x) + threadIdx.x;
  if (i < count) to[i] += from[i];
}

void ring_all_reduce(std::vector<Rank>& ranks, long n) {  // only queues: the host goes on at once
  const int p = ranks.size();
  auto begin = [&](int chunk) { return n * chunk / p; };
  for (int step = 0; step < 2 * (p - 1); ++step) {  // p − 1 that add, then p − 1 that replace
    check(ncclGroupStart());
    for (int r = 0; r < p; ++r) {
      const int out = (r - step - 1 + 2 * p) % p, in = (r - step - 2 + 2 * p) % p;
      float* target = step < p - 1 ? ranks[r].scratch : ranks[r].data + begin(in);
      check(ncclSend(ranks[r].data + begin(out), begin(out + 1) - begin(out), ncclFloat, (r + 1) % p, ranks[r].comm, ranks[r].stream));
      check(ncclRecv(target, begin(in + 1) - begin(in), ncclFloat, (r + p - 1) % p, ranks[r].comm, ranks[r].stream));
    }
    check(ncclGroupEnd());
    for (int r = 0; r < p && step < p - 1; ++r) {
      const int in = (r - step - 2 + 2 * p) % p;
      const long count = begin(in + 1) - begin(in);
      check(cudaSetDevice(r));
      if (count > 0) add<<<(count + 255) / 256, 256, 0, ranks[r].stream>>>(ranks[r].data + begin(in), ranks[r].scratch, count);
      check(cudaGetLastError());
    }
  }
}

double all_done(std::vector<Rank>& ranks) {  // the time by the clock, in seconds
  for (Rank& rank : ranks) check(cudaStreamSynchronize(rank.stream));
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int main(int argc, char** argv) {
  const long n = argc > 1 ? std::atol(argv[1]) : 1 << 22;  // fp32 numbers of each rank
  int p = 0;
  check(cudaGetDeviceCount(&p));
  std::vector<Rank> ranks(p);
  std::vector<ncclComm_t> comms(p);
  check(ncclCommInitAll(comms.data(), p, nullptr));
  std::vector<float> host(n);
  std::vector<double> seconds;
  long wrong = 0;
  for (int r = 0; r < p; ++r) {
    ranks[r].comm = comms[r];
    check(cudaSetDevice(r));
    check(cudaStreamCreateWithFlags(&ranks[r].stream, cudaStreamNonBlocking));
    check(cudaMalloc(&ranks[r].data, n * sizeof(float)));
    check(cudaMalloc(&ranks[r].scratch, (n / p + 1) * sizeof(float)));
  }
  for (int turn = 0; turn < 8; ++turn) {  // the first is not timed
    for (int r = 0; r < p; ++r) {
      for (long i = 0; i < n; ++i) host[i] = (r + 1) * (r + 1) * (i % 97 + 1);
      check(cudaMemcpy(ranks[r].data, host.data(), n * sizeof(float), cudaMemcpyDefault));
    }
    for (int r = 0; r < p; ++r) check(cudaSetDevice(r)), check(cudaDeviceSynchronize());
    const double from = all_done(ranks);
    ring_all_reduce(ranks, n);
    const double time = all_done(ranks) - from;
    if (turn > 0) seconds.push_back(time);
    for (Rank& rank : ranks) {
      check(cudaMemcpy(host.data(), rank.data, n * sizeof(float), cudaMemcpyDefault));
      for (long i = 0; i < n; ++i) wrong += host[i] != p * (p + 1) * (2 * p + 1) / 6 * (i % 97 + 1);  // Σ (r + 1)²
    }
  }
  std::sort(seconds.begin(), seconds.end());
  const double time = seconds[seconds.size() / 2];
  std::printf("NCCL: %d ranks, %ld bytes, %s; median %.3f ms, busbw %.2f GB/s\n", p, 4 * n, wrong ? "WRONG" : "right",
              time * 1e3, 2.0 * (p - 1) / p * 4 * n / time / 1e9);
  for (Rank& rank : ranks) check(cudaFree(rank.data)), check(cudaFree(rank.scratch)), check(cudaStreamDestroy(rank.stream)), check(ncclCommDestroy(rank.comm));
  return wrong != 0;
}
