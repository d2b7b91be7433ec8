// Compressed gradients: the largest elements, and eight bits per element.
//
// top_k finds the magnitude of the k-th largest element digit by digit, highest first. It makes a histogram of the
// digit over the elements that agree in the digits before; the digit is the one at which the count from above reaches
// k. Then tiles count their selected elements and write them after those of the tiles before. Counts are integers, so
// the order of additions does not affect the result.
#include "common/devices/cuda/kernels/faults.cuh"
#include "common/devices/cuda/kernels/operations.hpp"
#include "common/devices/cuda/kernels/philox.cuh"
#include "common/devices/cuda/kernels/reduce.cuh"
#include "common/devices/cuda/kernels/scan.cuh"

namespace lockstep::kernels {

namespace {

// The largest elements ------------------------------------------------------------------------------------------------

constexpr int kDigits = 2048;            // values of a digit of at most 11 bits
constexpr int kShifts[] = {20, 9, 0};    // shifts of the three digits of a magnitude's 31 bits
constexpr int kTile = kThreads * kPack;  // elements per tile

/// Bits that are ordered like magnitudes; infinity above all numbers, NaN above infinity.
__device__ inline std::uint32_t magnitude(float x) { return __float_as_uint(x) & 0x7fffffffu; }

struct Selection {
  std::uint32_t digits;  // known digits of the smallest selected magnitude
  std::int32_t wanted;   // number of selected elements with these digits
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    count_magnitudes_kernel(std::int32_t* counts, const Selection* selection, const T* x, Packs packs, int shift,
                            int shift_before) {
  __shared__ int histogram[kDigits];
  for (int i = static_cast<int>(threadIdx.x); i < kDigits; i += kThreads) histogram[i] = 0;
  __syncthreads();
  const std::uint32_t known = selection->digits;
  const int digits = 1 << (shift_before - shift);
  for_packs(packs, [&](Index i) {
    const Pack<T> pack = load(x, i, packs.n);
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      const std::uint32_t m = magnitude(widen(pack.at[j]));
      if (is_inside(i + j, packs.n) && m >> shift_before == known) atomicAdd(&histogram[m >> shift & (digits - 1)], 1);
    }
  });
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < digits; i += kThreads)
    if (histogram[i] != 0) atomicAdd(&counts[i], histogram[i]);
}

/// Finds the next digit: the largest for which enough elements have it or a larger one. One block; each thread has two
/// digits.
__global__ void __launch_bounds__(kScanThreads)
    choose_digit_kernel(Selection* selection, const std::int32_t* counts, int digits) {
  __shared__ int scratch[kWarp];
  const Selection before = *selection;
  const int high = digits - 1 - 2 * static_cast<int>(threadIdx.x);  // and high − 1, from above
  const int of_high = high >= 0 ? counts[high] : 0, of_low = high >= 1 ? counts[high - 1] : 0;
  const int above = block_scan(of_high + of_low, scratch).before;
  const std::uint32_t known = before.digits * static_cast<std::uint32_t>(digits);
  if (above < before.wanted && before.wanted <= above + of_high)
    *selection = {known + static_cast<std::uint32_t>(high), before.wanted - above};
  else if (above + of_high < before.wanted && before.wanted <= above + of_high + of_low)
    *selection = {known + static_cast<std::uint32_t>(high - 1), before.wanted - above - of_high};
}

__global__ void begin_selection_kernel(Selection* selection, std::int32_t k) { *selection = {0, k}; }

struct Found {
  int larger, equal;
};
/// Compares a thread's pack with the smallest selected magnitude.
template <class T>
__device__ inline Found compare(const Pack<T>& pack, Index i, Index n, std::uint32_t smallest) {
  Found found{0, 0};
#pragma unroll
  for (int j = 0; j < kPack; ++j) {
    const std::uint32_t m = magnitude(widen(pack.at[j]));
    found.larger += i + j < n && m > smallest ? 1 : 0;
    found.equal += i + j < n && m == smallest ? 1 : 0;
  }
  return found;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    count_found_kernel(std::int32_t* larger, std::int32_t* equal, const Selection* selection, const T* x, Index n) {
  __shared__ int scratch[kWarp];
  const Index i = static_cast<Index>(blockIdx.x) * kTile + threadIdx.x * kPack;
  const Found found = compare(load(x, i, n), i, n, selection->digits);
  const int all_larger = block_scan(found.larger, scratch).total, all_equal = block_scan(found.equal, scratch).total;
  if (threadIdx.x != 0) return;
  larger[blockIdx.x] = all_larger;
  equal[blockIdx.x] = all_equal;
}

/// Writes all larger elements, and the first `wanted` of the equal ones, in the order of x.
template <class T>
__global__ void __launch_bounds__(kThreads)
    gather_kernel(T* values, std::int32_t* indices, const std::int32_t* larger, const std::int32_t* equal,
                  const Selection* selection, const T* x, Index n) {
  __shared__ int scratch[kWarp];
  const Index i = static_cast<Index>(blockIdx.x) * kTile + threadIdx.x * kPack;
  const Pack<T> pack = load(x, i, n);
  const std::uint32_t smallest = selection->digits;
  const Found found = compare(pack, i, n, smallest);
  int larger_before = larger[blockIdx.x] + block_scan(found.larger, scratch).before;
  int equal_before = equal[blockIdx.x] + block_scan(found.equal, scratch).before;
  const int wanted = selection->wanted;
#pragma unroll
  for (int j = 0; j < kPack; ++j) {
    const std::uint32_t m = magnitude(widen(pack.at[j]));
    const bool is_larger = i + j < n && m > smallest, is_equal = i + j < n && m == smallest;
    if (is_larger || (is_equal && equal_before < wanted)) {
      const int to = larger_before + min(equal_before, wanted);
      values[to] = pack.at[j];
      indices[to] = static_cast<std::int32_t>(i + j);
    }
    larger_before += is_larger ? 1 : 0;
    equal_before += is_equal ? 1 : 0;
  }
}

/// Indices are distinct, so no two threads write the same element.
__global__ void __launch_bounds__(kThreads)
    scatter_add_kernel(Array y, Array values, const std::int32_t* indices, Index n, float factor, IndexCheck inside,
                       IndexCheck ascending) {
  const Index step = static_cast<Index>(gridDim.x) * kThreads;
  for (Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x; i < n; i += step) {
    const std::int32_t index = indices[i];
    if (!inside(index, i)) continue;
    if (i > 0 && indices[i - 1] >= index)
      ascending.record_fault(index, i);
    else
      store_float(y, index, fmaf(factor, load_float(values, i), load_float(y, index)));
  }
}

// Eight bits per element ----------------------------------------------------------------------------------------------

constexpr float kLargest = 127;
constexpr Index kPiece = 32 * kWarp;  // elements of a block for which one warp finds the maximum

/// magnitudes[b] = the largest magnitude of block b, as an integer, whose maximum does not depend on the order.
template <class T>
__global__ void __launch_bounds__(kThreads) block_maxima_kernel(std::uint32_t* magnitudes, const T* x, Index n,
                                                                Index block, Index pieces_of_block, Index pieces) {
  const Index piece = static_cast<Index>(blockIdx.x) * (kThreads / kWarp) + threadIdx.y;
  if (piece >= pieces) return;
  const Index b = piece / pieces_of_block, first = b * block + piece % pieces_of_block * kPiece;
  const Index last = min(min(n, (b + 1) * block), first + kPiece);
  if (first >= last) return;
  const Packs packs(x + first, last - first);
  std::uint32_t largest = 0;
  for (Index p = threadIdx.x; p < packs.count(); p += kWarp) {
    const Pack<T> pack = load(x + first, packs.first(p), packs.n);
#pragma unroll
    for (int j = 0; j < kPack; ++j) largest = max(largest, magnitude(widen(pack.at[j])));
  }
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    largest = max(largest, __shfl_xor_sync(kWholeWarp, largest, distance));
  if (threadIdx.x == 0) atomicMax(&magnitudes[b], largest);
}

/// Replaces the bits of each magnitude by the scale.
__global__ void __launch_bounds__(kThreads) scales_kernel(float* scales, Index blocks) {
  const Index b = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (b >= blocks) return;
  const std::uint32_t largest = __float_as_uint(scales[b]);
  scales[b] = largest >= 0x7f800000u ? __uint_as_float(0x7fc00000u) : __uint_as_float(largest) / kLargest;
}

/// Eight elements of q, for 8-byte accesses if the address allows them.
struct alignas(8) Bytes {
  std::int8_t at[kPack];
};
__device__ inline bool is_whole_bytes(const std::int8_t* q, Index i, Index n) {
  return i >= 0 && i + kPack <= n && reinterpret_cast<std::uintptr_t>(q + i) % sizeof(Bytes) == 0;
}
__device__ inline void store_bytes(std::int8_t* q, Index i, Index n, const Bytes& bytes) {
  if (is_whole_bytes(q, i, n)) {
    *reinterpret_cast<Bytes*>(q + i) = bytes;
    return;
  }
  for (int j = 0; j < kPack; ++j)
    if (is_inside(i + j, n)) q[i + j] = bytes.at[j];
}
__device__ inline Bytes load_bytes(const std::int8_t* q, Index i, Index n) {
  if (is_whole_bytes(q, i, n)) return *reinterpret_cast<const Bytes*>(q + i);
  Bytes bytes;
  for (int j = 0; j < kPack; ++j) bytes.at[j] = is_inside(i + j, n) ? q[i + j] : std::int8_t{0};
  return bytes;
}

/// x / scale, rounded down, or up with a probability equal to the fraction; `draw` is uniform in [0, 1).
__device__ inline std::int8_t rounded(float x, float scale, float draw) {
  if (!(scale > 0.0f)) return 0;
  const float value = x / scale, whole = floorf(value);
  const float result = draw < value - whole ? whole + 1.0f : whole;
  return static_cast<std::int8_t>(fminf(fmaxf(result, -kLargest), kLargest));
}

/// Scales of a pack's elements, scales[(i + j) / block], or 0 outside. Uses a single division, since 64-bit divisions
/// take as long as everything else here.
__device__ inline void load_scales(float (&values)[kPack], const float* scales, Index i, Index n, Index block) {
  Index b = max(i, Index{0}) / block, end = (b + 1) * block;
#pragma unroll
  for (int j = 0; j < kPack; ++j) {
    if (i + j == end) ++b, end += block;
    values[j] = is_inside(i + j, n) ? scales[b] : 0.0f;
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    quantise_kernel(std::int8_t* q, const float* scales, const T* x, Index n, Index block, std::uint64_t key,
                    std::uint64_t first, Index groups) {
  for_drawn_packs(n, key, first, groups, [&](Index i, const std::uint32_t (&bits)[kPack]) {
    const Pack<T> pack = load(x, i, n);
    float of_block[kPack];
    load_scales(of_block, scales, i, n, block);
    Bytes bytes;
#pragma unroll
    for (int j = 0; j < kPack; ++j) bytes.at[j] = rounded(widen(pack.at[j]), of_block[j], unit(bits[j]));
    store_bytes(q, i, n, bytes);
  });
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    add_dequantised_kernel(T* y, const std::int8_t* q, const float* scales, Packs packs, Index block, float factor) {
  for_packs(packs, [&](Index i) {
    const Pack<T> before = load(y, i, packs.n);
    const Bytes bytes = load_bytes(q, i, packs.n);
    float of_block[kPack], sum[kPack];
    load_scales(of_block, scales, i, packs.n, block);
#pragma unroll
    for (int j = 0; j < kPack; ++j)
      sum[j] = fmaf(factor * of_block[j], static_cast<float>(bytes.at[j]), widen(before.at[j]));
    store_floats(y, i, packs.n, sum);
  });
}

dim3 grid_of(Index threads, Index of_block) { return dim3(static_cast<unsigned>(divide_up(threads, of_block))); }

}  // namespace

void top_k(const Queue& queue, Array values, Array indices, Array x) {
  if (values.size == 0) return;
  const Index n = size_of(x), tiles = divide_up(n, kTile);
  constexpr std::size_t kCounts = 3 * kDigits;
  Cut cut(queue.workspace.take(Cut::bytes<Selection>(1) + Cut::bytes<std::int32_t>(kCounts) +
                               2 * Cut::bytes<std::int32_t>(static_cast<std::size_t>(tiles))));
  auto* selection = cut.next<Selection>(1);
  auto* counts = cut.next<std::int32_t>(kCounts);
  auto* larger = cut.next<std::int32_t>(static_cast<std::size_t>(tiles));
  auto* equal = cut.next<std::int32_t>(static_cast<std::size_t>(tiles));
  set_bytes(queue, counts, 0, kCounts * sizeof(std::int32_t));
  launch(begin_selection_kernel, dim3(1), dim3(1), 0, queue.stream, selection, static_cast<std::int32_t>(values.size));
  with_type(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const Packs packs(x.as<const T>(), n);
    int shift_before = 31;
    for (int digit = 0; digit < 3; ++digit) {
      const int shift = kShifts[digit];
      launch(count_magnitudes_kernel<T>, grid_for(packs.count()), dim3(kThreads), 0, queue.stream,
             counts + digit * kDigits, selection, x.as<const T>(), packs, shift, shift_before);
      launch(choose_digit_kernel, dim3(1), dim3(kScanThreads), 0, queue.stream, selection, counts + digit * kDigits,
             1 << (shift_before - shift));
      shift_before = shift;
    }
    launch(count_found_kernel<T>, grid_of(n, kTile), dim3(kThreads), 0, queue.stream, larger, equal, selection,
           x.as<const T>(), n);
    launch(scan_kernel, dim3(1), dim3(kScanThreads), 0, queue.stream, larger, tiles);
    launch(scan_kernel, dim3(1), dim3(kScanThreads), 0, queue.stream, equal, tiles);
    launch(gather_kernel<T>, grid_of(n, kTile), dim3(kThreads), 0, queue.stream, values.as<T>(),
           indices.as<std::int32_t>(), larger, equal, selection, x.as<const T>(), n);
  });
}

void scatter_add(const Queue& queue, Array y, Array values, Array indices, float factor) {
  launch(scatter_add_kernel, grid_for(size_of(values)), dim3(kThreads), 0, queue.stream, y, values,
         indices.as<const std::int32_t>(), size_of(values), factor,
         IndexCheck{queue.fault, "scatter_add: index {} at position {} is outside a slice of {}", size_of(y)},
         IndexCheck{queue.fault, "scatter_add: index {} at position {} does not come after the one before it", 0});
}

void quantise(const Queue& queue, Array q, Array scales, Array x, std::size_t block, Draw draw) {
  if (x.size == 0) return;
  const Index n = size_of(x), blocks = size_of(scales), size = static_cast<Index>(block < x.size ? block : x.size);
  const Index pieces_of_block = divide_up(size, kPiece), pieces = blocks * pieces_of_block;
  const std::uint64_t drawn = (draw.first + x.size - 1) / kPhiloxBlock - draw.first / kPhiloxBlock + 1;
  const Index groups = static_cast<Index>(drawn * (kPhiloxLanes / kPack));
  set_bytes(queue, scales.data, 0, scales.size * sizeof(float));
  with_type(x.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    launch(block_maxima_kernel<T>, grid_of(pieces, kThreads / kWarp), dim3(kWarp, kThreads / kWarp), 0, queue.stream,
           scales.as<std::uint32_t>(), x.as<const T>(), n, size, pieces_of_block, pieces);
    launch(scales_kernel, grid_of(blocks, kThreads), dim3(kThreads), 0, queue.stream, scales.as<float>(), blocks);
    launch(quantise_kernel<T>, grid_for(groups), dim3(kThreads), 0, queue.stream, q.as<std::int8_t>(),
           scales.as<const float>(), x.as<const T>(), n, size, draw.key, draw.first, groups);
  });
}

void add_dequantised(const Queue& queue, Array y, Array q, Array scales, std::size_t block, float factor) {
  if (y.size == 0) return;
  const Index size = static_cast<Index>(block < y.size ? block : y.size);
  with_type(y.dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    const Packs packs(y.as<T>(), size_of(y));
    launch(add_dequantised_kernel<T>, grid_for(packs.count()), dim3(kThreads), 0, queue.stream, y.as<T>(),
           q.as<const std::int8_t>(), scales.as<const float>(), packs, size, factor);
  });
}

}  // namespace lockstep::kernels
