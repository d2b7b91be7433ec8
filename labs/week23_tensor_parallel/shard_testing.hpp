// Shared by the tests of this week: matrices of small whole numbers, so that every product and sum is exact in fp32 and
// compared with ==; and the comparison of one rank's tensor with the serial one, in words.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/arithmetic.hpp"
#include "common/runtime/run.hpp"
#include "common/testing/cases.hpp"
#include "common/testing/drawn.hpp"

namespace lockstep::week23 {

/// A row-major matrix on the host. A vector is one row.
struct HostMatrix {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<float> values;

  float at(std::size_t row, std::size_t column) const { return values[row * columns + column]; }
};

/// Rows [first, first + count).
inline HostMatrix cut_rows(const HostMatrix& whole, std::size_t first, std::size_t count) {
  const auto begin = whole.values.begin() + static_cast<std::ptrdiff_t>(first * whole.columns);
  return {count, whole.columns, {begin, begin + static_cast<std::ptrdiff_t>(count * whole.columns)}};
}

/// Columns [first, first + count).
inline HostMatrix cut_columns(const HostMatrix& whole, std::size_t first, std::size_t count) {
  HostMatrix part{whole.rows, count, {}};
  for (std::size_t row = 0; row < whole.rows; ++row)
    for (std::size_t column = first; column < first + count; ++column) part.values.push_back(whole.at(row, column));
  return part;
}

/// `part` becomes columns [first, …) of `whole`.
inline void put_columns(HostMatrix& whole, std::size_t first, const HostMatrix& part) {
  for (std::size_t row = 0; row < part.rows; ++row)
    for (std::size_t column = 0; column < part.columns; ++column)
      whole.values[row * whole.columns + first + column] = part.at(row, column);
}

/// Whole numbers from −3 to 3 that depend on `kind` and the element, so that no two tensors or rows are equal. With
/// --seed each kind's are drawn.
inline HostMatrix numbers(int kind, std::size_t rows, std::size_t columns) {
  HostMatrix matrix{rows, columns, {}};
  const std::size_t from = testing::drawn({23, static_cast<std::uint64_t>(kind)}, 1 << 20);
  for (std::size_t i = 0; i < rows * columns; ++i) {
    const std::size_t mixed = ((i + from) * 2654435761u + static_cast<std::size_t>(kind) * 40503u) >> 7;
    matrix.values.push_back(static_cast<float>(mixed % 7) - 3);
  }
  return matrix;
}

/// The same in eighths, for nonlinear functions.
inline HostMatrix eighths(int kind, std::size_t rows, std::size_t columns) {
  HostMatrix matrix = numbers(kind, rows, columns);
  for (float& value : matrix.values) value /= 8;
  return matrix;
}

/// a·b, with a or b transposed.
enum class Transposed { none, a, b };
inline HostMatrix product(const HostMatrix& a, const HostMatrix& b, Transposed transposed) {
  const bool ta = transposed == Transposed::a, tb = transposed == Transposed::b;
  HostMatrix c{ta ? a.columns : a.rows, tb ? b.rows : b.columns, {}};
  const std::size_t inner = ta ? a.rows : a.columns;
  for (std::size_t i = 0; i < c.rows; ++i)
    for (std::size_t j = 0; j < c.columns; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < inner; ++k)
        sum += static_cast<double>(ta ? a.at(k, i) : a.at(i, k)) * (tb ? b.at(j, k) : b.at(k, j));
      c.values.push_back(static_cast<float>(sum));
    }
  return c;
}

/// y = x·Wᵀ + bias, and the gradients, on one rank.
struct SerialLinear {
  HostMatrix x, weight, bias, dy;
  SerialLinear(std::size_t rows, std::size_t in, std::size_t out)
      : x(numbers(1, rows, in)), weight(numbers(2, out, in)), bias(numbers(3, 1, out)), dy(numbers(4, rows, out)) {}
  HostMatrix y() const {
    HostMatrix y = product(x, weight, Transposed::b);
    for (std::size_t i = 0; i < y.values.size(); ++i) y.values[i] += bias.values[i % y.columns];
    return y;
  }
  HostMatrix dx() const { return product(dy, weight, Transposed::none); }
  HostMatrix dweight() const { return product(dy, x, Transposed::a); }
  HostMatrix dbias() const { return product({1, dy.rows, std::vector<float>(dy.rows, 1)}, dy, Transposed::none); }
};

/// Sizes of cases, smallest first, of which --seed draws the last: up to `more` − 1 larger.
inline std::function<std::vector<std::size_t>(int)> drawn_sizes(std::vector<std::size_t> sizes, std::uint64_t more) {
  sizes.back() += testing::drawn({23, sizes.size()}, more);
  return testing::sizes_of(std::move(sizes));
}

inline Slice uploaded(Rank me, const HostMatrix& matrix, Category category = Category::activation) {
  Slice slice = me.allocate(matrix.values.size(), DType::f32, category);
  upload(me, slice, matrix.values);
  return slice;
}

inline Slice unwritten(Rank me, std::size_t count) { return me.allocate(count, DType::f32, Category::activation); }
inline Slice zeros(Rank me, const Slice& like) {
  Slice gradient = me.allocate(like.size(), DType::f32, Category::gradient);
  fill(me, gradient, 0);
  return gradient;
}
/// A gradient that holds 1 everywhere before: it must gain, not be replaced.
inline Slice ones(Rank me, const Slice& like) {
  Slice gradient = me.allocate(like.size(), DType::f32, Category::gradient);
  fill(me, gradient, 1);
  return gradient;
}

inline void append(Values& seen, const std::vector<float>& values) {
  seen.insert(seen.end(), values.begin(), values.end());
}

/// Reads what ranks returned, tensor after tensor, and says the first thing that is wrong.
class Reader {
 public:
  Reader(const Values& seen, int rank) : seen_(seen), rank_(rank) {}

  /// Compares the next tensor with the right one; `also` are wrong answers and their meanings.
  struct Explained {
    HostMatrix value;
    std::string meaning;
  };
  Reader& expect(const std::string& name, const HostMatrix& exact, const std::vector<Explained>& also = {}) {
    const std::size_t first = at_;
    at_ += exact.values.size();
    if (!complaint_.empty()) return *this;
    for (std::size_t i = 0; i < exact.values.size(); ++i) {
      const double value = seen_.at(first + i);
      if (value == exact.values[i]) continue;
      complaint_ = fmt::format("rank {}: {}, row {}, column {} is {:g}, expected {:g}", rank_, name, i / exact.columns,
                               i % exact.columns, value, exact.values[i]);
      for (const Explained& other : also)
        if (matches(first, other.value)) return complaint_ += ": " + other.meaning, *this;
      if (value != value) complaint_ += ": uninitialised memory";
      return *this;
    }
    return *this;
  }
  const std::string& complaint() const { return complaint_; }

 private:
  bool matches(std::size_t first, const HostMatrix& other) const {
    for (std::size_t i = 0; i < other.values.size(); ++i)
      if (seen_.at(first + i) != other.values[i]) return false;
    return true;
  }

  const Values& seen_;
  int rank_;
  std::size_t at_ = 0;
  std::string complaint_;
};

/// a plus `times` b's first row, row by row; or plus b where it has as many rows.
inline HostMatrix plus(HostMatrix a, const HostMatrix& b, float times = 1) {
  for (std::size_t i = 0; i < a.values.size(); ++i) a.values[i] += times * b.values[i % b.values.size()];
  return a;
}

inline HostMatrix plus_one(HostMatrix matrix) { return plus(std::move(matrix), {1, 1, {1}}); }

/// The matrix of every rank after `ranks` ranks sum their equal parts of the columns.
inline HostMatrix sum_of_columns(const HostMatrix& whole, int ranks) {
  const std::size_t own = whole.columns / static_cast<std::size_t>(ranks);
  HostMatrix sum = cut_columns(whole, 0, own);
  for (std::size_t first = own; first < whole.columns; first += own) sum = plus(sum, cut_columns(whole, first, own));
  return sum;
}

/// A tensor that p ranks return sharded, and one rank returns whole.
struct Part {
  std::string name;
  std::size_t own = 0;                                                ///< elements on each of the p ranks
  std::size_t whole = 0;                                              ///< elements of the serial one
  std::function<std::size_t(std::size_t rank, std::size_t i)> place;  ///< where element i of a rank's lies in the whole
  std::function<std::string()> explain = {};                          ///< what it is instead, where that can be told
};
inline Part same_on_all(std::string name, std::size_t count) {
  return {std::move(name), count, count, [](std::size_t, std::size_t i) { return i; }};
}
inline Part cut_by_rows(std::string name, std::size_t rows, std::size_t columns, int ranks) {
  const std::size_t own = rows * columns / static_cast<std::size_t>(ranks);
  return {std::move(name), own, rows * columns, [own](std::size_t rank, std::size_t i) { return rank * own + i; }};
}
inline Part cut_by_columns(std::string name, std::size_t rows, std::size_t columns, int ranks) {
  const std::size_t own = columns / static_cast<std::size_t>(ranks);
  return {std::move(name), rows * own, rows * columns,
          [own, columns](std::size_t rank, std::size_t i) { return i / own * columns + rank * own + i % own; }};
}

/// The distance that an element of `tensor` may have from the same one computed in another order, after `roundings`
/// roundings of fp32 in a row. Each is off by at most u = 2^-24 of a sum as large as the tensor's values are; with
/// either sign, so that the errors of K of them grow as √K (Higham and Mary, "A New Approach to Probabilistic Rounding
/// Error Analysis", SIAM J. Sci. Comput. 41(5), 2019: λ√K·u). The values' root mean square stands for their size,
/// because an element that is small by cancellation has the errors of the large terms that it was summed from. λ = 8:
/// of what was measured up to 128 ranks the largest is 2.
inline double rounding_tolerance(std::span<const double> tensor, std::size_t roundings) {
  double squares = 0;
  for (const double value : tensor) squares += value * value;
  const double size = std::sqrt(squares / static_cast<double>(std::max<std::size_t>(1, tensor.size())));
  return 8 * std::sqrt(static_cast<double>(roundings)) * 0x1p-24 * size;
}

/// Says what a tensor that must be the same on all ranks is instead, where that can be told; `at` is where it begins.
inline std::string explain_whole(const Outcome& outcome, const Part& part, std::size_t at,
                                 std::span<const double> exact, double tolerance) {
  const std::size_t p = outcome.values.size();
  if (p == 1)
    return ". One rank has nothing to sum, so this is not a missing sum: is an operation wrong, or one of its "
           "arguments?";
  bool parts = true, times_p = true;
  for (std::size_t i = 0; i < part.own; ++i) {
    double sum = 0;
    for (const Values& values : outcome.values) sum += values.at(at + i);
    parts = parts && std::abs(sum - exact[i]) <= tolerance * static_cast<double>(p);
    times_p = times_p && std::abs(sum / static_cast<double>(p) - static_cast<double>(p) * exact[i]) <=
                             tolerance * static_cast<double>(p);
  }
  if (parts) return ". The ranks' values add up to it: the sum over the ranks is missing";
  return times_p ? fmt::format(". It is {} times too large: what was the same on every rank was summed", p) : "";
}

/// Says what a tensor that ranks must hold in parts is instead, where that can be told; `at` is where it begins.
inline std::string explain_cut(const Outcome& outcome, const Part& part, std::size_t at) {
  const std::span<const double> first = std::span(outcome.values[0]).subspan(at, part.own);
  if (std::all_of(first.begin(), first.end(), [&](double value) { return value == first[0]; })) return "";
  for (const Values& values : outcome.values)
    if (!std::equal(first.begin(), first.end(), values.begin() + static_cast<std::ptrdiff_t>(at))) return "";
  return ". Every rank holds the same, a sum over the ranks (g_forward, or row_forward, which ends with one), where "
         "each has a part of its own: is the layer before it column-parallel?";
}

/// Compares what ranks returned, part after part, with the serial run's. Ranks add in another order than one matrix
/// product: `roundings` is how many there are, at most, between the inputs and a result.
inline std::string differs(const Outcome& outcome, const std::vector<Part>& parts, const Values& serial,
                           std::size_t roundings) {
  std::size_t at = 0, whole = 0;
  for (const Part& part : parts) {
    const std::span<const double> expected = std::span(serial).subspan(whole, part.whole);
    const double tolerance = rounding_tolerance(expected, roundings);
    for (std::size_t rank = 0; rank < outcome.values.size(); ++rank) {
      for (std::size_t i = 0; i < part.own; ++i) {
        const double value = outcome.values[rank].at(at + i), exact = serial.at(whole + part.place(rank, i));
        if (std::abs(value - exact) <= tolerance) continue;
        std::string why = value != value ? " (uninitialised memory)" : part.explain ? part.explain() : "";
        if (why.empty() && std::abs(value + 1 - exact) <= tolerance)
          why = ". Gradients accumulate: the 1 that was there before is lost";
        if (why.empty())
          why = part.own == part.whole ? explain_whole(outcome, part, at, expected, tolerance)
                                       : explain_cut(outcome, part, at);
        return fmt::format("rank {}: {}, element {} of its {}, is {:g}; on one rank it is {:g}{}", rank, part.name, i,
                           part.own, value, exact, why);
      }
    }
    at += part.own;
    whole += part.whole;
  }
  return "";
}

}  // namespace lockstep::week23
