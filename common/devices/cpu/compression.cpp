// Compressed gradients: the largest elements, and eight bits per element.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <vector>

#include "common/devices/cpu/device_class.hpp"
#include "common/devices/cpu/philox.hpp"
#include "common/devices/cpu/view.hpp"

namespace lockstep::cpu {

namespace {

constexpr std::size_t kGrain = 16 * kTile;
constexpr float kLargest = 127;

/// Bits that are ordered like magnitudes; infinity above all numbers, NaN above infinity.
std::uint32_t magnitude(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7fffffffu; }

std::uint32_t largest_magnitude(const float* x, std::size_t n) {
  std::uint32_t largest = 0;
#pragma omp simd reduction(max : largest)
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t here = std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffu;
    largest = here > largest ? here : largest;
  }
  return largest;
}

float scale_of(std::uint32_t largest) {
  return largest >= 0x7f800000u ? std::numeric_limits<float>::quiet_NaN() : std::bit_cast<float>(largest) / kLargest;
}

/// x / scale, rounded down, or up with a probability equal to the fraction; `draw` is uniform in [0, 1).
std::int8_t rounded(float x, float scale, float draw) {
  if (!(scale > 0)) return 0;
  const float value = x / scale, whole = std::floor(value);
  const float result = draw < value - whole ? whole + 1 : whole;
  return static_cast<std::int8_t>(std::clamp(result, -kLargest, kLargest));
}

void check_index(const std::int32_t* indices, std::size_t i, std::size_t size) {
  if (indices[i] < 0 || static_cast<std::size_t>(indices[i]) >= size)
    throw std::out_of_range(fmt::format("index {} at position {} is outside a slice of {}", indices[i], i, size));
  if (i > 0 && indices[i - 1] >= indices[i])
    throw std::out_of_range(
        fmt::format("index {} at position {} does not come after the one before it", indices[i], i));
}

}  // namespace

void CpuDevice::top_k(const Slice& values, const Slice& indices, const Slice& x) {
  const std::size_t k = values.size(), n = x.size();
  std::vector<std::uint32_t> magnitudes(n);
  const View from(x);
  threads_.chunks(n, kGrain, [&](std::size_t first, std::size_t last) {
    for_tiles(first, last, [&](std::size_t i, std::size_t count) {
      float buffer[kTile];
      const float* in = from.read(i, count, buffer);
      for (std::size_t j = 0; j < count; ++j) magnitudes[i + j] = magnitude(in[j]);
    });
  });
  std::vector<std::uint32_t> order = magnitudes;
  const auto smallest = order.begin() + static_cast<std::ptrdiff_t>(k) - 1;
  std::nth_element(order.begin(), smallest, order.end(), std::greater<>());
  const std::uint32_t threshold = *smallest;
  // All larger elements now come before `smallest`; the rest of the k elements are ties with it.
  std::size_t ties =
      k - static_cast<std::size_t>(std::count_if(order.begin(), smallest, [&](auto m) { return m > threshold; }));
  auto* to = static_cast<char*>(values.data());
  auto* index = static_cast<std::int32_t*>(indices.data());
  const std::size_t width = bytes_of(x.dtype());
  for (std::size_t i = 0, out = 0; out < k; ++i) {
    if (magnitudes[i] < threshold || (magnitudes[i] == threshold && ties == 0)) continue;
    if (magnitudes[i] == threshold) --ties;
    std::memcpy(to + out * width, static_cast<const char*>(x.data()) + i * width, width);
    index[out++] = static_cast<std::int32_t>(i);
  }
}

void CpuDevice::scatter_add(const Slice& y, const Slice& values, const Slice& indices, float factor) {
  const auto* index = static_cast<const std::int32_t*>(indices.data());
  for (std::size_t i = 0; i < indices.size(); ++i) check_index(index, i, y.size());
  const View to(y);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const auto at = static_cast<std::size_t>(index[i]);
    float buffer = 0;
    const float sum = *to.read(at, 1, &buffer) + factor * load_as_float(values.data(), i, values.dtype());
    to.write(at, 1, &sum);
  }
}

void CpuDevice::quantise(const Slice& q, const Slice& scales, const Slice& x, std::size_t block, Random random) {
  const View from(x);
  float* scale = scalar(scales);
  const std::size_t n = x.size();
  threads_.chunks(scales.size(), std::max<std::size_t>(1, kGrain / block), [&](std::size_t first, std::size_t last) {
    for (std::size_t b = first; b < last; ++b) {
      std::uint32_t largest = 0;
      for_tiles(b * block, std::min(n, (b + 1) * block), [&](std::size_t i, std::size_t count) {
        float buffer[kTile];
        largest = std::max(largest, largest_magnitude(from.read(i, count, buffer), count));
      });
      scale[b] = scale_of(largest);
    }
  });
  auto* to = static_cast<std::int8_t*>(q.data());
  for_draws(threads_, random, n, [&](std::size_t at, std::size_t count, const std::uint32_t* bits, std::size_t first) {
    float buffer[kPhiloxBlock];
    const float* in = from.read(at, count, buffer);
    for (std::size_t j = 0; j < count; ++j) to[at + j] = rounded(in[j], scale[(at + j) / block], unit(bits[first + j]));
  });
}

void CpuDevice::add_dequantised(const Slice& y, const Slice& q, const Slice& scales, std::size_t block, float factor) {
  const View view(y);
  const auto* from = static_cast<const std::int8_t*>(q.data());
  const float* scale = scalar(scales);
  threads_.chunks(y.size(), kGrain, [&](std::size_t first, std::size_t last) {
    for_tiles(first, last, [&](std::size_t i, std::size_t n) {
      float buffer[kTile];
      const float* before = view.read(i, n, buffer);
      float* to = view.place(i, buffer);
      for (std::size_t j = 0; j < n; ++j)
        to[j] = before[j] + factor * scale[(i + j) / block] * static_cast<float>(from[i + j]);
      view.write(i, n, to);
    });
  });
}

}  // namespace lockstep::cpu
