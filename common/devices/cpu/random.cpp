// Counter-based random numbers.
//
// Global element e of a tensor belongs to block e / 256. Its 32 bits are word (e / 64) mod 4 of Philox's output for
// counter 64 · (e / 256) + e mod 64; the key is a hash of (seed, tensor, step). A value depends on nothing else, and
// blocks are always computed whole, so every sharding and every number of threads draws the same bits. Uniform: the
// upper 24 bits. Normal: Box–Muller on words 0 and 1, and on words 2 and 3.
#include <cmath>

#include "common/devices/cpu/device_class.hpp"
#include "common/devices/cpu/functions.hpp"
#include "common/devices/cpu/philox.hpp"
#include "common/devices/cpu/view.hpp"

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

}  // namespace

void CpuDevice::random_normal(const Slice& x, Random random, float mean, float deviation) {
  const View view(x);
  for_draws(threads_, random, x.size(),
            [&](std::size_t at, std::size_t n, const std::uint32_t* bits, std::size_t first) {
              float values[kRandomBlock];
              box_muller(values, bits);
              box_muller(values + 2 * kRandomLanes, bits + 2 * kRandomLanes);
#pragma omp simd
              for (std::size_t i = 0; i < kRandomBlock; ++i) values[i] = mean + deviation * values[i];
              view.write(at, n, values + first);
            });
}

void CpuDevice::random_uniform(const Slice& x, Random random, float low, float high) {
  const View view(x);
  const float below_high = std::nextafter(high, low);
  for_draws(threads_, random, x.size(),
            [&](std::size_t at, std::size_t n, const std::uint32_t* bits, std::size_t first) {
              float values[kRandomBlock];
#pragma omp simd
              for (std::size_t i = 0; i < kRandomBlock; ++i) {
                const float value = low + (high - low) * unit(bits[i]);
                values[i] = value < below_high ? value : below_high;  // rounding may have reached `high`
              }
              view.write(at, n, values + first);
            });
}

void CpuDevice::dropout(const Slice& y, const Slice& x, Random random, float p) {
  const View to(y), from(x);
  const float factor = 1 / (1 - p);
  for_draws(threads_, random, x.size(),
            [&](std::size_t at, std::size_t n, const std::uint32_t* bits, std::size_t first) {
              float buffer[kRandomBlock];
              const float* in = from.read(at, n, buffer);
              float* out = to.place(at, buffer);
#pragma omp simd
              for (std::size_t i = 0; i < n; ++i) out[i] = unit(bits[first + i]) < p ? 0.0f : in[i] * factor;
              to.write(at, n, out);
            });
}

}  // namespace lockstep::cpu
