// Radix sort, eight bits per pass from the lowest. Tiles count their digits, one block turns the counts into positions,
// and tiles store their keys there, in order.
#include "common/devices/cuda/kernels/reduce.cuh"
#include "common/devices/cuda/kernels/scan.cuh"
#include "common/devices/cuda/kernels/sort.cuh"

namespace lockstep::kernels {

namespace {

constexpr int kBits = 8, kDigits = 1 << kBits;  // per pass
constexpr int kRounds = 4, kTile = kRounds * kThreads;
constexpr int kWarps = kThreads / kWarp;
static_assert(kDigits == kThreads, "a thread looks after one digit");

__device__ inline int digit_of(std::int32_t key, int shift) { return key >> shift & (kDigits - 1); }

/// counts[digit · tiles + tile], so that prefix sums in this order are the positions.
__global__ void __launch_bounds__(kThreads)
    count_digits_kernel(std::int32_t* counts, const std::int32_t* keys, Index n, int shift) {
  __shared__ int histogram[kDigits];
  histogram[threadIdx.x] = 0;
  __syncthreads();
  const Index first = static_cast<Index>(blockIdx.x) * kTile + threadIdx.x;
  for (int round = 0; round < kRounds; ++round) {
    const Index i = first + round * kThreads;
    if (i < n) atomicAdd(&histogram[digit_of(keys[i], shift)], 1);
  }
  __syncthreads();
  counts[static_cast<Index>(threadIdx.x) * gridDim.x + blockIdx.x] = histogram[threadIdx.x];
}

/// The participating lanes of the warp that have this digit.
__device__ inline unsigned lanes_with(int digit, bool takes_part) {
  unsigned lanes = __ballot_sync(kWholeWarp, takes_part);
#pragma unroll
  for (int bit = 0; bit < kBits; ++bit) {
    const bool set = (digit >> bit & 1) != 0;
    const unsigned with = __ballot_sync(kWholeWarp, set);
    lanes &= set ? with : ~with;
  }
  return lanes;
}

/// Each round of a tile takes kThreads keys: warps in order, and within a warp, lanes in order. If there are no places
/// to read, a key's place is its index.
__global__ void __launch_bounds__(kThreads)
    put_digits_kernel(std::int32_t* keys_out, std::int32_t* places_out, const std::int32_t* keys,
                      const std::int32_t* places, const std::int32_t* starts, Index n, int shift) {
  __shared__ int next[kDigits];             // position of the tile's next key with this digit
  __shared__ int of_warp[kWarps][kDigits];  // first each warp's count, then the position of its first key
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp, warp = thread / kWarp;
  next[thread] = starts[static_cast<Index>(thread) * gridDim.x + blockIdx.x];
  for (int round = 0; round < kRounds; ++round) {
    const Index i = static_cast<Index>(blockIdx.x) * kTile + round * kThreads + thread;
    const std::int32_t key = i < n ? keys[i] : 0;
    const int digit = digit_of(key, shift);
    for (int w = 0; w < kWarps; ++w) of_warp[w][thread] = 0;
    __syncthreads();
    const unsigned same = lanes_with(digit, i < n);
    const int before = __popc(same & ((1u << lane) - 1));
    if (i < n && before == 0) of_warp[warp][digit] = __popc(same);
    __syncthreads();
    int here = next[thread];
    for (int w = 0; w < kWarps; ++w) {
      const int count = of_warp[w][thread];
      of_warp[w][thread] = here;
      here += count;
    }
    next[thread] = here;
    __syncthreads();
    if (i < n) {
      const Index to = of_warp[warp][digit] + before;
      keys_out[to] = key;
      places_out[to] = places ? places[i] : static_cast<std::int32_t>(i);
    }
    __syncthreads();
  }
}

}  // namespace

__global__ void __launch_bounds__(kScanThreads) scan_kernel(std::int32_t* counts, Index n) {
  constexpr int kEach = 4;
  __shared__ int scratch[kWarp];
  int total = 0;
  for (Index first = 0; first < n; first += kScanThreads * kEach) {
    const Index mine = first + static_cast<Index>(threadIdx.x) * kEach;
    int values[kEach], sum = 0;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      values[j] = mine + j < n ? counts[mine + j] : 0;
      sum += values[j];
    }
    const Scanned scanned = block_scan(sum, scratch);
    int before = total + scanned.before;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      if (mine + j < n) counts[mine + j] = before;
      before += values[j];
    }
    total += scanned.total;
  }
}

std::size_t sort_bytes(std::size_t n) {
  return 4 * Cut::bytes<std::int32_t>(n) + Cut::bytes<std::int32_t>((n + kTile - 1) / kTile * kDigits);
}

Sorted sort_keys(cudaStream_t stream, void* workspace, std::size_t n, std::int64_t limit) {
  const Index count = static_cast<Index>(n), tiles = divide_up(count, kTile);
  const dim3 grid(static_cast<unsigned>(tiles));
  Cut cut(workspace);
  std::int32_t* keys[2];
  std::int32_t* places[2];
  keys[0] = cut.next<std::int32_t>(n);
  keys[1] = cut.next<std::int32_t>(n);
  places[0] = cut.next<std::int32_t>(n);
  places[1] = cut.next<std::int32_t>(n);
  auto* counts = cut.next<std::int32_t>(static_cast<std::size_t>(tiles) * kDigits);
  int from = 0;
  for (int shift = 0; shift == 0 || limit >> shift != 0; shift += kBits, from = 1 - from) {
    launch(count_digits_kernel, grid, dim3(kThreads), 0, stream, counts, keys[from], count, shift);
    launch(scan_kernel, dim3(1), dim3(kScanThreads), 0, stream, counts, tiles * kDigits);
    launch(put_digits_kernel, grid, dim3(kThreads), 0, stream, keys[1 - from], places[1 - from], keys[from],
           shift == 0 ? nullptr : places[from], counts, count, shift);
  }
  return {keys[from], places[from]};
}

}  // namespace lockstep::kernels
