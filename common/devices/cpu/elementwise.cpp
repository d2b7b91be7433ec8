// fill, copy, cast, add, scale: memory-bound; threads help if a slice does not fit a core's caches.
#include <cstring>

#include "common/devices/cpu/device_class.hpp"
#include "common/devices/cpu/view.hpp"

namespace lockstep::cpu {

namespace {

constexpr std::size_t kElementGrain = 32 * kTile;  // elements per chunk

template <class T>
void fill_chunk(T* x, std::size_t n, T value) {
  for (std::size_t i = 0; i < n; ++i) x[i] = value;
}

void add_floats(float* z, const float* x, const float* y, std::size_t n) {
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i) z[i] = x[i] + y[i];
}

/// Integers wrap around.
void add_integers(std::int32_t* z, const std::int32_t* x, const std::int32_t* y, std::size_t n) {
#pragma omp simd
  for (std::size_t i = 0; i < n; ++i)
    z[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(x[i]) + static_cast<std::uint32_t>(y[i]));
}

void add_tiles(View z, View x, View y, std::size_t first, std::size_t last) {
  for_tiles(first, last, [&](std::size_t i, std::size_t n) {
    float buffer_x[kTile], buffer_y[kTile];
    float* sum = z.place(i, buffer_x);
    add_floats(sum, x.read(i, n, buffer_x), y.read(i, n, buffer_y), n);
    z.write(i, n, sum);
  });
}

}  // namespace

void CpuDevice::fill(const Slice& x, float value) {
  threads_.chunks(x.size(), kElementGrain, [&](std::size_t first, std::size_t last) {
    const std::size_t n = last - first;
    switch (x.dtype()) {
      case DType::f32: return fill_chunk(static_cast<float*>(x.data()) + first, n, value);
      case DType::bf16: return fill_chunk(halves(x.data()) + first, n, to_bf16(value));
      case DType::f16: return fill_chunk(halves(x.data()) + first, n, to_f16(value));
      case DType::i32:
        return fill_chunk(static_cast<std::int32_t*>(x.data()) + first, n, static_cast<std::int32_t>(value));
      case DType::i8:
        return fill_chunk(static_cast<std::int8_t*>(x.data()) + first, n, static_cast<std::int8_t>(value));
    }
  });
}

void CpuDevice::copy(const Slice& y, const Slice& x) {
  if (y.data() == x.data()) return;
  threads_.chunks(x.bytes(), 4 * kElementGrain, [&](std::size_t first, std::size_t last) {
    std::memcpy(static_cast<char*>(y.data()) + first, static_cast<const char*>(x.data()) + first, last - first);
  });
}

void CpuDevice::cast(const Slice& y, const Slice& x) {
  const View to(y), from(x);
  threads_.chunks(x.size(), kElementGrain, [&](std::size_t first, std::size_t last) {
    for_tiles(first, last, [&](std::size_t i, std::size_t n) {
      float buffer[kTile];
      to.write(i, n, from.read(i, n, to.place(i, buffer)));
    });
  });
}

void CpuDevice::add(const Slice& z, const Slice& x, const Slice& y) {
  const View to(z), from_x(x), from_y(y);
  threads_.chunks(z.size(), kElementGrain, [&](std::size_t first, std::size_t last) {
    if (z.dtype() == DType::f32)
      add_floats(scalar(z) + first, scalar(x) + first, scalar(y) + first, last - first);
    else if (z.dtype() == DType::i32)
      add_integers(static_cast<std::int32_t*>(z.data()) + first, static_cast<const std::int32_t*>(x.data()) + first,
                   static_cast<const std::int32_t*>(y.data()) + first, last - first);
    else
      add_tiles(to, from_x, from_y, first, last);
  });
}

void CpuDevice::scale(const Slice& x, float factor) {
  const View view(x);
  threads_.chunks(x.size(), kElementGrain, [&](std::size_t first, std::size_t last) {
    for_tiles(first, last, [&](std::size_t i, std::size_t n) {
      float buffer[kTile];
      const float* from = view.read(i, n, buffer);
      float* to = view.place(i, buffer);
#pragma omp simd
      for (std::size_t j = 0; j < n; ++j) to[j] = from[j] * factor;
      view.write(i, n, to);
    });
  });
}

void CpuDevice::scale(const Slice& x, const Slice& factor) { scale(x, *scalar(factor)); }

void CpuDevice::scale_if(const Slice& x, float factor, const Slice& condition) {
  if (*scalar(condition) == 0) return;
  if (factor == 0) return fill(x, 0);  // also for NaN
  scale(x, factor);
}

void CpuDevice::at_least(const Slice& flag, const Slice& x, float threshold) {
  *scalar(flag) = *scalar(x) >= threshold ? 1.0f : 0.0f;
}

}  // namespace lockstep::cpu
