// Matrix products by sgemm, split over rows of c.
#include <algorithm>
#include <memory>

#include "common/device/cpu/cpu_device.hpp"
#include "common/device/cpu/device_class.hpp"
#include "common/device/cpu/sgemm.hpp"
#include "common/device/cpu/view.hpp"

namespace lockstep {

std::unique_ptr<Device> make_cpu_device(int threads) {
  cpu::use_one_thread();
  return std::make_unique<cpu::CpuDevice>(threads);
}

const char* cpu_blas_name() { return cpu::sgemm_name(); }

}  // namespace lockstep

namespace lockstep::cpu {

namespace {

constexpr std::size_t kRowsMultiple = 64;            // of a part
constexpr std::size_t kParts = 4;                    // of a product by a BLAS
constexpr double kSmallestPart = 4.0 * 1024 * 1024;  // multiply-adds: below, a thread costs more than it does

/// A BLAS may sum an element in another order when the rows around it change: it gets parts that do not depend on the
/// number of threads. Our own code does not mind, and gets one part a thread.
std::size_t rows_of_part(std::size_t m, std::size_t n, std::size_t k, int threads) {
  const std::size_t parts = splits_freely() ? static_cast<std::size_t>(threads) : kParts;
  const std::size_t share = (m + parts - 1) / parts;
  const std::size_t rows = (share + kRowsMultiple - 1) / kRowsMultiple * kRowsMultiple;
  const double work = static_cast<double>(rows) * static_cast<double>(n) * static_cast<double>(k);
  return work < kSmallestPart ? m : rows;
}

/// All of a slice as floats: where it lies, or widened into `buffer`.
const float* widen(Threads& threads, const Slice& x, float* buffer) {
  const View view(x);
  if (view.direct()) return scalar(x);
  threads.chunks(x.size(), 16 * kTile,
                 [&](std::size_t first, std::size_t last) { view.read(first, last - first, buffer + first); });
  return buffer;
}

std::size_t buffer_size(const Slice& x) { return View(x).direct() ? 0 : x.size(); }

Operand rows_from(Operand a, std::size_t row) {
  a.data += a.transposed ? row : row * a.stride;
  return a;
}

/// What the product is added to: c as it was, plus bias. Then sgemm's beta is 1; without either it is 0.
void prepare(float* c, View before, Into into, const float* bias, std::size_t first, std::size_t last, std::size_t n) {
  for (std::size_t row = first; row < last; ++row) {
    float* to = c + row * n;
    if (into == Into::accumulate) before.read(row * n, n, to);  // f32 lies there already
    if (!bias) continue;
    if (into == Into::overwrite) {
      std::copy_n(bias, n, to);
    } else {
#pragma omp simd
      for (std::size_t j = 0; j < n; ++j) to[j] += bias[j];
    }
  }
}

}  // namespace

void CpuDevice::matmul(const Matrix& c, const Matrix& a, const Matrix& b, Into into, const Slice& bias) {
  const std::size_t m = c.rows, n = c.columns, k = a.n();
  const View result(c.slice);
  const std::size_t size_a = buffer_size(a.slice), size_b = buffer_size(b.slice), size_c = buffer_size(c.slice);
  const auto buffer = scratch_.take(size_a + size_b + size_c + bias.size());
  const Operand from_a{widen(threads_, a.slice, buffer.data()), a.columns, a.transposed};
  const Operand from_b{widen(threads_, b.slice, buffer.data() + size_a), b.columns, b.transposed};
  float* to = result.place(0, buffer.data() + size_a + size_b);
  const float* add = bias.empty() ? nullptr : View(bias).read(0, n, buffer.data() + size_a + size_b + size_c);
  const float beta = into == Into::accumulate || add ? 1.0f : 0.0f;
  threads_.chunks(m, rows_of_part(m, n, k, threads_.count()), [&](std::size_t first, std::size_t last) {
    prepare(to, result, into, add, first, last, n);
    sgemm(scratch_, last - first, n, k, rows_from(from_a, first), from_b, beta, to + first * n, n);
    if (!result.direct()) result.write(first * n, (last - first) * n, to + first * n);
  });
}

}  // namespace lockstep::cpu
