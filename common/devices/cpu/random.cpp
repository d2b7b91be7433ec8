// Counter-based random numbers.
//
// Global element e of a tensor belongs to block e / 256. Its 32 bits are word (e / 64) mod 4 of Philox's output for
// counter 64 · (e / 256) + e mod 64; the key is a hash of (seed, tensor, step). A value depends on nothing else, and
// blocks are always computed whole, so every sharding and every number of threads draws the same bits. Uniform: the
// upper 24 bits. Normal: Box–Muller on words 0 and 1, and on words 2 and 3.
#include <algorithm>
#include <cmath>

#include "common/devices/cpu/device_class.hpp"
#include "common/devices/cpu/functions.hpp"
#include "common/devices/cpu/philox.hpp"
#include "common/devices/cpu/view.hpp"
#include "common/devices/random_key.hpp"

namespace lockstep::cpu {

namespace {

constexpr std::size_t kRandomLanes = kPhiloxLanes, kRandomBlock = kPhiloxBlock;

/// Turns two words of each lane into two normal values.
void box_muller(float* values, const std::uint32_t* bits) {
#pragma omp simd
  for (std::size_t j = 0; j < kRandomLanes; ++j) {
    const float radius = std::sqrt(-2.0f * logarithm(1.0f - unit(bits[j])));  // of a number in (0, 1]
    const SineCosine direction = sine_cosine(unit(bits[kRandomLanes + j]));
    values[j] = radius * direction.cosine;
    values[kRandomLanes + j] = radius * direction.sine;
  }
}

/// Fills x from whole blocks; make(values, block) computes the kRandomBlock floats of a block.
template <class Make>
void fill_blocks(Threads& threads, const Slice& x, std::uint64_t first_element, const Make& make) {
  const View view(x);
  const std::uint64_t first_block = first_element / kRandomBlock, last = first_element + x.size();
  const std::size_t blocks = static_cast<std::size_t>((last + kRandomBlock - 1) / kRandomBlock - first_block);
  threads.chunks(blocks, 16, [&](std::size_t from, std::size_t to) {
    for (std::uint64_t block = first_block + from; block < first_block + to; ++block) {
      float values[kRandomBlock];
      make(values, block);
      const std::uint64_t begin = std::max(first_element, block * kRandomBlock),
                          end = std::min(last, (block + 1) * kRandomBlock);
      view.write(static_cast<std::size_t>(begin - first_element), static_cast<std::size_t>(end - begin),
                 values + (begin - block * kRandomBlock));
    }
  });
}

}  // namespace

void CpuDevice::random_normal(const Slice& x, Random random, float mean, float deviation) {
  const std::uint64_t key = key_of(random);
  fill_blocks(threads_, x, random.first, [&](float* values, std::uint64_t block) {
    std::uint32_t bits[kRandomBlock];
    philox(bits, block, key);
    box_muller(values, bits);
    box_muller(values + 2 * kRandomLanes, bits + 2 * kRandomLanes);
#pragma omp simd
    for (std::size_t i = 0; i < kRandomBlock; ++i) values[i] = mean + deviation * values[i];
  });
}

void CpuDevice::random_uniform(const Slice& x, Random random, float low, float high) {
  const std::uint64_t key = key_of(random);
  const float below_high = std::nextafter(high, low);
  fill_blocks(threads_, x, random.first, [&](float* values, std::uint64_t block) {
    std::uint32_t bits[kRandomBlock];
    philox(bits, block, key);
#pragma omp simd
    for (std::size_t i = 0; i < kRandomBlock; ++i) {
      const float value = low + (high - low) * unit(bits[i]);
      values[i] = value < below_high ? value : below_high;  // rounding may have reached `high`
    }
  });
}

}  // namespace lockstep::cpu
