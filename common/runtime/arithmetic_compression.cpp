// Compressed gradients: checks and costs.
#include <limits>

#include "common/runtime/arithmetic_front.hpp"

namespace lockstep {

using namespace front;

// A GPU selects digit by digit: three passes over x to find the smallest selected magnitude, two to count and gather.
void top_k(Rank me, Slice values, Slice indices, Slice x, Location where) {
  const Call call(me, "top_k", where);
  call.floating({{"x", x}});
  call.dtype({"values", values}, x.dtype());
  call.array({"indices", indices}, DType::i32, values.size(), "as values");
  if (values.size() > x.size())
    call.refuse(fmt::format("cannot choose {} of {}", values.size(), counted(x.size(), "element")));
  if (x.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
    call.refuse(fmt::format("x has {} elements, more than an int32 can index", x.size()));
  call.distinct({"values", values}, {{"x", x}});
  if (values.empty()) return;
  call.compute({5 * number(x.size()), x.dtype(), 4 * bytes(x)}, {&x}, {&values, &indices},
               [&](Device& device) { device.top_k(values, indices, x); });
}

void scatter_add(Rank me, Slice y, Slice values, Slice indices, float factor, Location where) {
  const Call call(me, "scatter_add", where);
  call.floating({{"y", y}, {"values", values}});
  call.array({"indices", indices}, DType::i32, values.size(), "as values");
  call.distinct({"y", y}, {{"values", values}});
  if (values.empty()) return;
  const double touched = 2 * number(values.size()) * number(bytes_of(y.dtype()));  // of y
  call.compute_indexed({2 * number(values.size()), y.dtype(), touched - bytes(y)}, {&values, &indices}, {&y},
                       [&](Device& device) { device.scatter_add(y, values, indices, factor); });
}

namespace {

void check_blocks(const Call& call, const Slice& q, const Slice& scales, Operand x, std::size_t block) {
  const std::size_t size = x.slice.size();
  call.floating({x});
  call.array({"q", q}, DType::i8, size, "one per element");
  if (block == 0) call.refuse("a block needs at least one element");
  call.array({"scales", scales}, DType::f32, size / block + (size % block != 0 ? 1 : 0), "one per block");
}

}  // namespace

// x is read for the scales and again for the numbers; a draw costs about 20 operations per element.
void quantise(Rank me, Slice q, Slice scales, Slice x, std::size_t block, Random key, Location where) {
  const Call call(me, "quantise", where);
  check_blocks(call, q, scales, {"x", x}, block);
  call.distinct({"scales", scales}, {{"x", x}});
  if (x.empty()) return;
  call.compute({25 * number(x.size()), DType::f32, bytes(x)}, {&x}, {&q, &scales},
               [&](Device& device) { device.quantise(q, scales, x, block, key); });
}

void add_dequantised(Rank me, Slice y, Slice q, Slice scales, std::size_t block, float factor, Location where) {
  const Call call(me, "add_dequantised", where);
  check_blocks(call, q, scales, {"y", y}, block);
  call.distinct({"y", y}, {{"scales", scales}});
  if (y.empty()) return;
  call.compute({2 * number(y.size()), y.dtype(), bytes(y)}, {&q, &scales}, {&y},
               [&](Device& device) { device.add_dequantised(y, q, scales, block, factor); });
}

}  // namespace lockstep
