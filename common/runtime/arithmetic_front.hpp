// Shared parts of the functions of arithmetic.hpp: checks of their operands, and the call of the backend.
#pragma once

#include <fmt/format.h>

#include <stdexcept>

#include "common/arithmetic.hpp"
#include "common/runtime/backend.hpp"
#include "common/runtime/device.hpp"
#include "common/runtime/machine/operation.hpp"
#include "common/runtime/new_block.hpp"
#include "common/support/text/counted.hpp"

namespace lockstep::front {

// Checks. Each throws a USAGE error that names the operation, the operand and the numbers. ---------------------------

inline void need_size(const char* operation, const char* name, const Slice& x, std::size_t size, const char* what,
                      Location where) {
  if (x.size() == size) return;
  usage_error(fmt::format("{}: {} has {}, not {} ({})", operation, name, counted(x.size(), "element"), size, what),
              where);
}

inline void need_same(const char* operation, const char* name_a, const Slice& a, const char* name_b, const Slice& b,
                      Location where) {
  if (a.size() != b.size())
    usage_error(
        fmt::format("{}: {} has {} and {} has {}", operation, name_a, counted(a.size(), "element"), name_b, b.size()),
        where);
  if (a.dtype() != b.dtype() && !a.empty())
    usage_error(
        fmt::format("{}: {} is {} and {} is {}", operation, name_a, to_string(a.dtype()), name_b, to_string(b.dtype())),
        where);
}

inline bool is_floating(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16; }

inline void need_floating(const char* operation, const char* name, const Slice& x, Location where) {
  if (is_floating(x.dtype())) return;
  usage_error(fmt::format("{}: {} is {}, not fp32, bf16 or fp16", operation, name, to_string(x.dtype())), where);
}

inline void need_dtype(const char* operation, const char* name, const Slice& x, DType dtype, Location where) {
  if (x.dtype() == dtype || x.empty()) return;
  usage_error(fmt::format("{}: {} is {}, not {}", operation, name, to_string(x.dtype()), to_string(dtype)), where);
}

inline void need_scalar(const char* operation, const char* name, const Slice& x, Location where) {
  if (x.size() == 1 && x.dtype() == DType::f32) return;
  usage_error(fmt::format("{}: {} is {} × {}, not one fp32", operation, name, x.size(), to_string(x.dtype())), where);
}

/// N, where x is N × `columns`.
inline std::size_t rows_of(const char* operation, const char* name, const Slice& x, std::size_t columns,
                           const char* what, Location where) {
  if (columns == 0 ? x.empty() : x.size() % columns == 0) return columns == 0 ? 0 : x.size() / columns;
  usage_error(fmt::format("{}: {} has {}, not a multiple of {} ({})", operation, name, counted(x.size(), "element"),
                          columns, what),
              where);
}

/// Requires that an output is exactly an input or apart from it: a partial overlap would give device-dependent results.
inline void need_apart(const char* operation, const char* name_a, const Slice& a, const char* name_b, const Slice& b,
                       Location where) {
  if (a.block() != b.block() || a.empty() || b.empty()) return;
  const std::size_t first_a = a.offset_bytes(), first_b = b.offset_bytes();
  if (first_a >= first_b + b.bytes() || first_b >= first_a + a.bytes()) return;
  if (first_a == first_b && a.size() == b.size()) return;
  usage_error(fmt::format("{}: {} and {} overlap in part (bytes {}…{} and {}…{} of one allocation)", operation, name_a,
                          name_b, first_a, first_a + a.bytes(), first_b, first_b + b.bytes()),
              where);
}

/// Like need_apart, for operations that cannot work in place either.
inline void need_distinct(const char* operation, const char* name_a, const Slice& a, const char* name_b, const Slice& b,
                          Location where) {
  need_apart(operation, name_a, a, name_b, b, where);
  if (a.block() != b.block() || a.empty() || b.empty() || a.offset_bytes() != b.offset_bytes()) return;
  usage_error(fmt::format("{}: {} and {} are the same memory, and this operation cannot work in place", operation,
                          name_a, name_b),
              where);
}

// Call of the backend -----------------------------------------------------------------------------------------------

template <class F>
void compute(Rank me, const Operation& operation, Location where, const F& f) {
  for (const Slice* slice : operation.reads)
    if (slice) need_allocated(*slice, operation.name, where);
  for (const Slice* slice : operation.writes)
    if (slice) need_allocated(*slice, operation.name, where);
  me.backend().compute({me.group(), me.queue()}, operation, Kernel(f), where);
}

/// Like compute, for operations that index by data: a device throws out_of_range for an index outside its table.
template <class F>
void compute_indexed(Rank me, const Operation& operation, Location where, const F& f) {
  compute(me, operation, where, [&](Device& device) {
    try {
      f(device);
    } catch (const std::out_of_range& error) {
      usage_error(fmt::format("{}: {}", operation.name, error.what()), where);
    }
  });
}

// FLOP per element. The tanh form: 3 multiplies and 1 add for the argument, exponential, add, divide, multiply.
inline constexpr double kGeluFlop = 8, kGeluBackwardFlop = 15;

inline double number(std::size_t n) { return static_cast<double>(n); }
inline double bytes(const Slice& x) { return number(x.bytes()); }

}  // namespace lockstep::front
