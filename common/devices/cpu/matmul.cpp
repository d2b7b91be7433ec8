// Matrix products by sgemm, split by rows of c.
#include <algorithm>
#include <memory>
#include <utility>

#include "common/devices/cpu/cpu_device.hpp"
#include "common/devices/cpu/device_class.hpp"
#include "common/devices/cpu/sgemm.hpp"
#include "common/devices/cpu/view.hpp"

namespace lockstep {

std::unique_ptr<Device> make_cpu_device(int threads) {
  cpu::use_one_thread();
  return std::make_unique<cpu::CpuDevice>(threads);
}

const char* cpu_blas_name() { return cpu::sgemm_name(); }

}  // namespace lockstep

namespace lockstep::cpu {

namespace {

constexpr std::size_t kRowsMultiple = 64;            // rows of a part are a multiple of this
constexpr std::size_t kParts = 4;                    // parts of a product by a BLAS
constexpr double kSmallestPart = 4.0 * 1024 * 1024;  // multiply-adds; below, a thread costs more than it saves

/// A BLAS may sum an element in a different order when the rows around it change, so its parts do not depend on the
/// number of threads. Without a BLAS the order is fixed, and each thread gets one part.
std::size_t rows_of_part(std::size_t m, std::size_t n, std::size_t k, int threads) {
  const std::size_t parts = splits_freely() ? static_cast<std::size_t>(threads) : kParts;
  const std::size_t share = (m + parts - 1) / parts;
  const std::size_t rows = (share + kRowsMultiple - 1) / kRowsMultiple * kRowsMultiple;
  const double work = static_cast<double>(rows) * static_cast<double>(n) * static_cast<double>(k);
  return work < kSmallestPart ? m : rows;
}

/// A whole slice as floats: in place, or widened into `buffer`.
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

/// Rows of a panel with `width` floats per row: one or two megabytes, whatever the number of threads.
std::size_t rows_of_panel(std::size_t width) {
  constexpr std::size_t kFloats = std::size_t{1} << 19;
  return std::max<std::size_t>(4, kFloats / width / kRowsMultiple) * kRowsMultiple;  // a BLAS copies b for each
}

struct Range {
  std::size_t first = 0, last = 0;
  std::size_t size() const { return last - first; }
};

/// Rows and columns of op(x) as floats: in place, or widened into `buffer`.
Operand block_of(const Matrix& x, Range rows, Range columns, float* buffer) {
  if (x.transposed) std::swap(rows, columns);
  const View view(x.slice);
  const std::size_t offset = rows.first * x.columns + columns.first;
  if (view.direct()) return {scalar(x.slice) + offset, x.columns, x.transposed};
  if (columns.size() == x.columns) {
    view.read(offset, rows.size() * x.columns, buffer);
  } else {
    for (std::size_t row = 0; row < rows.size(); ++row)
      view.read(offset + row * x.columns, columns.size(), buffer + row * columns.size());
  }
  return {buffer, columns.size(), x.transposed};
}

/// Initialises `c` with the terms that the product is added to: rows [first, last) of c as it was, plus bias. sgemm's
/// beta is then 1; with neither it is 0.
void prepare(float* c, View before, Into into, const float* bias, std::size_t first, std::size_t last, std::size_t n) {
  for (std::size_t row = first; row < last; ++row) {
    float* to = c + (row - first) * n;
    if (into == Into::accumulate) before.read(row * n, n, to);  // f32 is already in place
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

// 32 bits: in place. 16 bits: each panel is widened, multiplied and rounded while in a core's cache ------------------

void CpuDevice::matmul(const Matrix& c, const Matrix& a, const Matrix& b, Into into, const Slice& bias) {
  const std::size_t m = c.rows, n = c.columns, k = a.n();
  const auto bias_buffer = scratch_.take(bias.size());
  const float* add = bias.empty() ? nullptr : View(bias).read(0, n, bias_buffer.data());
  if (!View(a.slice).direct() || !View(b.slice).direct() || !View(c.slice).direct())
    return m >= k ? matmul_by_rows(c, a, b, into, add) : matmul_by_terms(c, a, b, into, add);
  const Operand from_a{scalar(a.slice), a.columns, a.transposed}, from_b{scalar(b.slice), b.columns, b.transposed};
  const float beta = into == Into::accumulate || add ? 1.0f : 0.0f;
  threads_.chunks(m, rows_of_part(m, n, k, threads_.count()), [&](std::size_t first, std::size_t last) {
    float* to = scalar(c.slice) + first * n;
    prepare(to, View(c.slice), into, add, first, last, n);
    sgemm(scratch_, last - first, n, k, rows_from(from_a, first), from_b, beta, to, n);
  });
}

/// Panels are rows of c and of op(a); b is widened once.
void CpuDevice::matmul_by_rows(const Matrix& c, const Matrix& a, const Matrix& b, Into into, const float* bias) {
  const std::size_t m = c.rows, n = c.columns, k = a.n(), rows = rows_of_panel(k + n);
  const auto buffer_b = scratch_.take(buffer_size(b.slice));
  const Operand from_b{widen(threads_, b.slice, buffer_b.data()), b.columns, b.transposed};
  const View result(c.slice);
  const float beta = into == Into::accumulate || bias ? 1.0f : 0.0f;
  threads_.chunks(m, rows, [&](std::size_t first, std::size_t last) {
    const auto buffer = scratch_.take((last - first) * (k + n));
    const Operand from_a = block_of(a, {first, last}, {0, k}, buffer.data());
    float* to = result.place(first * n, buffer.data() + (last - first) * k);
    prepare(to, result, into, bias, first, last, n);
    sgemm(scratch_, last - first, n, k, from_a, from_b, beta, to, n);
    if (!result.direct()) result.write(first * n, (last - first) * n, to);
  });
}

/// Panels are terms of the sums: columns of op(a), rows of op(b). c is small and stays in 32 bits until the end.
void CpuDevice::matmul_by_terms(const Matrix& c, const Matrix& a, const Matrix& b, Into into, const float* bias) {
  const std::size_t m = c.rows, n = c.columns, k = a.n(), terms = rows_of_panel(m + n);
  const View result(c.slice);
  const auto buffer_c = scratch_.take(buffer_size(c.slice));
  float* to = result.place(0, buffer_c.data());
  const std::size_t part = rows_of_part(m, n, terms, threads_.count());
  const auto buffer = scratch_.take(terms * (m + n));
  for (std::size_t first = 0; first < k; first += terms) {
    const Range panel{first, std::min(k, first + terms)};
    Operand from_a, from_b;
    threads_.chunks(2, 1, [&](std::size_t operand, std::size_t) {
      if (operand == 0)
        from_a = block_of(a, {0, m}, panel, buffer.data());
      else
        from_b = block_of(b, panel, {0, n}, buffer.data() + terms * m);
    });
    const bool begin = first == 0, end = panel.last == k;
    const float beta = begin && into == Into::overwrite && !bias ? 0.0f : 1.0f;
    threads_.chunks(m, part, [&](std::size_t row, std::size_t last) {
      if (begin) prepare(to + row * n, result, into, bias, row, last, n);
      sgemm(scratch_, last - row, n, panel.last - first, rows_from(from_a, row), from_b, beta, to + row * n, n);
      if (end && !result.direct()) result.write(row * n, (last - row) * n, to + row * n);
    });
  }
}

}  // namespace lockstep::cpu
