// Rotary positions (arXiv 2104.09864), paired as in transformers' Llama: channel i of the first half of a head rotates
// with channel i of the second half.
#include <cmath>
#include <vector>

#include "common/devices/cpu/device_class.hpp"
#include "common/devices/cpu/view.hpp"

namespace lockstep::cpu {

namespace {

/// Cosines, then sines, of each position's angles: positions × head_size / 2 each.
struct Angles {
  Angles(RotaryShape shape, float base, Turn way) : half(shape.head_size / 2), count(shape.positions * half) {
    table.resize(2 * count);
    for (std::size_t i = 0; i < half; ++i) {
      const double speed = std::pow(static_cast<double>(base), -static_cast<double>(i) / static_cast<double>(half));
      for (std::size_t t = 0; t < shape.positions; ++t) {
        const double angle = static_cast<double>(shape.first + t) * speed * (way == Turn::forward ? 1 : -1);
        table[t * half + i] = static_cast<float>(std::cos(angle));
        table[count + t * half + i] = static_cast<float>(std::sin(angle));
      }
    }
  }
  const float* cosines(std::size_t position) const { return table.data() + position * half; }
  const float* sines(std::size_t position) const { return table.data() + count + position * half; }

  std::size_t half, count;
  std::vector<float> table;
};

}  // namespace

void CpuDevice::rotate_positions(const Slice& x, RotaryShape shape, float base, Turn way) {
  const Angles angles(shape, base, way);
  const std::size_t d = shape.head_size, half = d / 2, width = (shape.turning + shape.staying) * d;
  const View view(x);
  const std::size_t grain = std::max<std::size_t>(1, 8 * kTile / width);
  threads_.chunks(shape.batch * shape.positions, grain, [&](std::size_t first, std::size_t last) {
    const auto buffer = scratch_.take(d);
    for (std::size_t row = first; row < last; ++row) {
      const float *cosines = angles.cosines(row % shape.positions), *sines = angles.sines(row % shape.positions);
      for (std::size_t head = 0; head < shape.turning; ++head) {
        const std::size_t at = row * width + head * d;
        const float* in = view.read(at, d, buffer.data());
        float* out = view.place(at, buffer.data());
        for (std::size_t i = 0; i < half; ++i) {
          const float a = in[i], b = in[i + half];
          out[i] = a * cosines[i] - b * sines[i];
          out[i + half] = b * cosines[i] + a * sines[i];
        }
        view.write(at, d, out);
      }
    }
  });
}

}  // namespace lockstep::cpu
