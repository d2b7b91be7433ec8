// Shared parts of the functions of arithmetic.hpp: checks of their operands, and the call of the backend.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <stdexcept>

#include "common/arithmetic.hpp"
#include "common/runtime/backend.hpp"
#include "common/runtime/device.hpp"
#include "common/runtime/machine/operation.hpp"
#include "common/runtime/new_block.hpp"
#include "common/support/text/counted.hpp"

namespace lockstep::front {

inline double number(std::size_t n) { return static_cast<double>(n); }
inline double bytes(const Slice& x) { return number(x.bytes()); }

/// An operand, and its name in messages.
struct Operand {
  const char* name;
  const Slice& slice;
};
using Operands = std::initializer_list<Operand>;

/// Cost of an operation besides reading and writing each operand once.
struct Cost {
  double flop = 0;
  DType dtype = DType::f32;          // chooses the peak rate
  double more_bytes = 0;             // such as an output that is also read; below 0 where an operand is touched in part
  std::array<std::size_t, 3> mnk{};  // of a product
};

/// A call of one of these functions. Each check throws a USAGE error that names the operation, the operand and the
/// numbers.
class Call {
 public:
  Call(Rank me, const char* name, Location where) : me_(me), name_(name), where_(where) {}

  [[noreturn]] void refuse(const std::string& why) const { usage_error(fmt::format("{}: {}", name_, why), where_); }

  void size(Operand x, std::size_t size, const char* what) const {
    if (x.slice.size() != size)
      refuse(fmt::format("{} has {}, not {} ({})", x.name, counted(x.slice.size(), "element"), size, what));
  }

  /// Requires the size and dtype of `like`.
  void same(Operands all, Operand like) const {
    for (const auto& [name, x] : all) {
      if (x.size() != like.slice.size())
        refuse(
            fmt::format("{} has {} and {} has {}", name, counted(x.size(), "element"), like.name, like.slice.size()));
      if (x.dtype() != like.slice.dtype() && !x.empty())
        refuse(
            fmt::format("{} is {} and {} is {}", name, to_string(x.dtype()), like.name, to_string(like.slice.dtype())));
    }
  }

  void floating(Operands all) const {
    for (const auto& [name, x] : all)
      if (x.dtype() != DType::f32 && x.dtype() != DType::bf16 && x.dtype() != DType::f16)
        refuse(fmt::format("{} is {}, not fp32, bf16 or fp16", name, to_string(x.dtype())));
  }

  void dtype(Operand x, DType dtype) const {
    if (x.slice.dtype() != dtype && !x.slice.empty())
      refuse(fmt::format("{} is {}, not {}", x.name, to_string(x.slice.dtype()), to_string(dtype)));
  }

  void array(Operand x, DType type, std::size_t count, const char* what) const {
    size(x, count, what);
    dtype(x, type);
  }

  void scalar(Operands all) const {
    for (const auto& [name, x] : all)
      if (x.size() != 1 || x.dtype() != DType::f32)
        refuse(fmt::format("{} is {} × {}, not one fp32", name, x.size(), to_string(x.dtype())));
  }

  /// N, where x is N × `columns`.
  std::size_t rows(Operand x, std::size_t columns, const char* what) const {
    const std::size_t size = x.slice.size();
    if (columns == 0 ? size == 0 : size % columns == 0) return columns == 0 ? 0 : size / columns;
    refuse(fmt::format("{} has {}, not a multiple of {} ({})", x.name, counted(size, "element"), columns, what));
  }

  /// Requires that an output is exactly an input or apart from it: a partial overlap would give device-dependent
  /// results.
  void apart(Operand output, Operands inputs) const {
    for (const Operand& input : inputs) {
      const Slice &a = output.slice, &b = input.slice;
      if (!overlap(a, b)) continue;
      const std::size_t first_a = a.offset_bytes(), first_b = b.offset_bytes();
      if (first_a == first_b && a.size() == b.size()) continue;
      refuse(fmt::format("{} and {} overlap in part (bytes {}…{} and {}…{} of one allocation)", output.name, input.name,
                         first_a, first_a + a.bytes(), first_b, first_b + b.bytes()));
    }
  }

  /// Like apart, for operations that cannot work in place either.
  void distinct(Operand output, Operands inputs) const {
    for (const Operand& input : inputs) {
      apart(output, {input});
      if (overlap(output.slice, input.slice))
        refuse(fmt::format("{} and {} are the same memory, and this operation cannot work in place", output.name,
                           input.name));
    }
  }

  /// Passes the work to the backend.
  template <class F>
  void compute(const Cost& cost, decltype(Operation::reads) reads, decltype(Operation::writes) writes,
               const F& f) const {
    Operation operation{name_, cost.flop, cost.more_bytes, cost.dtype, reads, writes, cost.mnk[0] > 0, cost.mnk};
    const auto add = [&](const Slice* slice) {
      if (!slice) return;
      need_allocated(*slice, name_, where_);
      operation.bytes += bytes(*slice);
    };
    std::for_each(reads.begin(), reads.end(), add);
    std::for_each(writes.begin(), writes.end(), add);
    me_.backend().compute({me_.group(), me_.queue()}, operation, Kernel(f), where_);
  }

  /// Like compute, for operations that index by data: a device throws out_of_range for an index outside its table.
  template <class F>
  void compute_indexed(const Cost& cost, decltype(Operation::reads) reads, decltype(Operation::writes) writes,
                       const F& f) const {
    compute(cost, reads, writes, [&](Device& device) {
      try {
        f(device);
      } catch (const std::out_of_range& error) {
        refuse(error.what());
      }
    });
  }

 private:
  static bool overlap(const Slice& a, const Slice& b) {
    return a.block() == b.block() && !a.empty() && !b.empty() && a.offset_bytes() < b.offset_bytes() + b.bytes() &&
           b.offset_bytes() < a.offset_bytes() + a.bytes();
  }

  Rank me_;
  const char* name_;
  Location where_;
};

// FLOP per element. The tanh form: 3 multiplies and 1 add for the argument, exponential, add, divide, multiply.
inline constexpr double kGeluFlop = 8, kGeluBackwardFlop = 15;

}  // namespace lockstep::front
