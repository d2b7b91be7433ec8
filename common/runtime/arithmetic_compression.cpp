// Compressed gradients: checks and costs.
#include <limits>

#include "common/runtime/arithmetic_front.hpp"

namespace lockstep {

using namespace front;

// A GPU selects digit by digit: three passes over x to find the smallest selected magnitude, two to count and gather.
void top_k(Rank me, Slice values, Slice indices, Slice x, Location where) {
  need_floating("top_k", "x", x, where);
  need_dtype("top_k", "values", values, x.dtype(), where);
  need_dtype("top_k", "indices", indices, DType::i32, where);
  need_size("top_k", "indices", indices, values.size(), "as values", where);
  if (values.size() > x.size())
    usage_error(fmt::format("top_k: cannot choose {} of {}", values.size(), counted(x.size(), "element")), where);
  if (x.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
    usage_error(fmt::format("top_k: x has {} elements, more than an int32 can index", x.size()), where);
  need_distinct("top_k", "values", values, "x", x, where);
  if (values.empty()) return;
  const Operation operation{"top_k", 5 * number(x.size()), 5 * bytes(x) + bytes(values) + bytes(indices), x.dtype(),
                            {&x},    {&values, &indices}};
  compute(me, operation, where, [&](Device& device) { device.top_k(values, indices, x); });
}

void scatter_add(Rank me, Slice y, Slice values, Slice indices, float factor, Location where) {
  need_floating("scatter_add", "y", y, where);
  need_floating("scatter_add", "values", values, where);
  need_dtype("scatter_add", "indices", indices, DType::i32, where);
  need_size("scatter_add", "indices", indices, values.size(), "as values", where);
  need_distinct("scatter_add", "y", y, "values", values, where);
  if (values.empty()) return;
  const double touched = 2 * number(values.size()) * number(bytes_of(y.dtype()));
  const Operation operation{"scatter_add", 2 * number(values.size()), bytes(values) + bytes(indices) + touched,
                            y.dtype(),     {&values, &indices},       {&y}};
  compute_indexed(me, operation, where, [&](Device& device) { device.scatter_add(y, values, indices, factor); });
}

namespace {

void need_blocks(const char* operation, const Slice& q, const Slice& scales, const char* name, const Slice& x,
                 std::size_t block, Location where) {
  need_floating(operation, name, x, where);
  need_dtype(operation, "q", q, DType::i8, where);
  need_size(operation, "q", q, x.size(), "one per element", where);
  if (block == 0) usage_error(fmt::format("{}: a block needs at least one element", operation), where);
  need_dtype(operation, "scales", scales, DType::f32, where);
  need_size(operation, "scales", scales, x.size() / block + (x.size() % block != 0 ? 1 : 0), "one per block", where);
}

}  // namespace

// x is read for the scales and again for the numbers; a draw costs about 20 operations per element.
void quantise(Rank me, Slice q, Slice scales, Slice x, std::size_t block, Random key, Location where) {
  need_blocks("quantise", q, scales, "x", x, block, where);
  need_distinct("quantise", "scales", scales, "x", x, where);
  if (x.empty()) return;
  const Operation operation{"quantise", 25 * number(x.size()), 2 * bytes(x) + bytes(q) + bytes(scales), DType::f32,
                            {&x},       {&q, &scales}};
  compute(me, operation, where, [&](Device& device) { device.quantise(q, scales, x, block, key); });
}

void add_dequantised(Rank me, Slice y, Slice q, Slice scales, std::size_t block, float factor, Location where) {
  need_blocks("add_dequantised", q, scales, "y", y, block, where);
  need_distinct("add_dequantised", "y", y, "scales", scales, where);
  if (y.empty()) return;
  const Operation operation{"add_dequantised", 2 * number(y.size()), 2 * bytes(y) + bytes(q) + bytes(scales),
                            y.dtype(),         {&q, &scales},        {&y}};
  compute(me, operation, where, [&](Device& device) { device.add_dequantised(y, q, scales, block, factor); });
}

}  // namespace lockstep
