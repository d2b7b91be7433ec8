// The front end of arithmetic: each function checks its shapes, states its cost and the memory it touches, and passes
// the work to the backend. The arithmetic itself is in common/devices/.
//
// Costs: a multiply-add is two FLOP, an exponential or a division one. Bytes count each operand once for a read and
// once for a write. They describe how a GPU would do it: attention reads q, k, v and writes y, but no scores.
#include <utility>

#include "common/runtime/arithmetic_front.hpp"

namespace lockstep {

using namespace front;

// Elementwise and reductions ----------------------------------------------------------------------------------------

void fill(Rank me, Slice x, float value, Location where) {
  const Call call(me, "fill", where);
  if (x.empty()) return;
  call.compute({0, x.dtype()}, {}, {&x}, [&](Device& device) { device.fill(x, value); });
}

void copy(Rank me, Slice y, Slice x, Location where) {
  const Call call(me, "copy", where);
  call.same({{"y", y}}, {"x", x});
  call.apart({"y", y}, {{"x", x}});
  if (x.empty()) return;
  call.compute({0, x.dtype()}, {&x}, {&y}, [&](Device& device) { device.copy(y, x); });
}

void cast(Rank me, Slice y, Slice x, Location where) {
  const Call call(me, "cast", where);
  call.size({"y", y}, x.size(), "as x");
  call.floating({{"y", y}, {"x", x}});
  call.apart({"y", y}, {{"x", x}});
  if (x.empty()) return;
  call.compute({0, y.dtype()}, {&x}, {&y}, [&](Device& device) { device.cast(y, x); });
}

void add(Rank me, Slice y, Slice x, Location where) {
  const Call call(me, "add", where);
  call.same({{"y", y}}, {"x", x});
  if (y.dtype() != DType::i32) call.floating({{"y", y}});
  call.apart({"y", y}, {{"x", x}});
  if (x.empty()) return;
  call.compute({number(x.size()), x.dtype(), bytes(y)}, {&x}, {&y}, [&](Device& device) { device.add(y, y, x); });
}

void add(Rank me, Slice z, Slice x, Slice y, Location where) {
  const Call call(me, "add", where);
  call.same({{"z", z}}, {"x", x});
  call.same({{"z", z}}, {"y", y});
  if (z.dtype() != DType::i32) call.floating({{"z", z}});
  call.apart({"z", z}, {{"x", x}, {"y", y}});
  if (z.empty()) return;
  call.compute({number(z.size()), z.dtype()}, {&x, &y}, {&z}, [&](Device& device) { device.add(z, x, y); });
}

void scale(Rank me, Slice x, float factor, Location where) {
  const Call call(me, "scale", where);
  call.floating({{"x", x}});
  if (x.empty()) return;
  call.compute({number(x.size()), x.dtype(), bytes(x)}, {}, {&x}, [&](Device& device) { device.scale(x, factor); });
}

void scale(Rank me, Slice x, Slice factor, Location where) {
  const Call call(me, "scale", where);
  call.floating({{"x", x}});
  call.scalar({{"factor", factor}});
  call.distinct({"x", x}, {{"factor", factor}});
  if (x.empty()) return;
  call.compute({number(x.size()), x.dtype(), bytes(x)}, {&factor}, {&x},
               [&](Device& device) { device.scale(x, factor); });
}

void scale_if(Rank me, Slice x, float factor, Slice condition, Location where) {
  const Call call(me, "scale_if", where);
  call.floating({{"x", x}});
  call.scalar({{"condition", condition}});
  call.distinct({"x", x}, {{"condition", condition}});
  if (x.empty()) return;
  call.compute({number(x.size()), x.dtype(), bytes(x)}, {&condition}, {&x},
               [&](Device& device) { device.scale_if(x, factor, condition); });
}

void at_least(Rank me, Slice flag, Slice x, float threshold, Location where) {
  const Call call(me, "at_least", where);
  call.scalar({{"flag", flag}, {"x", x}});
  call.compute({1, DType::f32}, {&x}, {&flag}, [&](Device& device) { device.at_least(flag, x, threshold); });
}

namespace {

/// Checks one number, into which all of x goes.
void check_reduction(const Call& call, Operand result, const Slice& x) {
  call.scalar({result});
  call.floating({{"x", x}});
  call.distinct(result, {{"x", x}});
}

}  // namespace

void add_squares(Rank me, Slice sum, Slice x, Location where) {
  const Call call(me, "add_squares", where);
  check_reduction(call, {"sum", sum}, x);
  if (x.empty()) return;
  call.compute({2 * number(x.size()), x.dtype(), bytes(sum)}, {&x}, {&sum},
               [&](Device& device) { device.add_squares(sum, x); });
}

void add_sum(Rank me, Slice sum, Slice x, Location where) {
  const Call call(me, "add_sum", where);
  check_reduction(call, {"sum", sum}, x);
  if (x.empty()) return;
  call.compute({number(x.size()), x.dtype(), bytes(sum)}, {&x}, {&sum},
               [&](Device& device) { device.add_sum(sum, x); });
}

void clip_factor(Rank me, Slice factor, Slice sum_of_squares, float max_norm, Location where) {
  const Call call(me, "clip_factor", where);
  call.scalar({{"factor", factor}, {"sum_of_squares", sum_of_squares}});
  call.compute({4, DType::f32}, {&sum_of_squares}, {&factor},
               [&](Device& device) { device.clip_factor(factor, sum_of_squares, max_norm); });
}

void find_overflow(Rank me, Slice flag, Slice x, Location where) {
  const Call call(me, "find_overflow", where);
  check_reduction(call, {"flag", flag}, x);
  if (x.empty()) return;
  call.compute({number(x.size()), x.dtype(), bytes(flag)}, {&x}, {&flag},
               [&](Device& device) { device.find_overflow(flag, x); });
}

// A draw costs about 20 integer and floating-point operations per element.
void random_normal(Rank me, Slice x, Random key, float mean, float deviation, Location where) {
  const Call call(me, "random_normal", where);
  call.floating({{"x", x}});
  if (x.empty()) return;
  call.compute({20 * number(x.size())}, {}, {&x},
               [&](Device& device) { device.random_normal(x, key, mean, deviation); });
}

void random_uniform(Rank me, Slice x, Random key, float low, float high, Location where) {
  const Call call(me, "random_uniform", where);
  call.floating({{"x", x}});
  if (x.empty()) return;
  call.compute({20 * number(x.size())}, {}, {&x}, [&](Device& device) { device.random_uniform(x, key, low, high); });
}

void dropout(Rank me, Slice y, Slice x, Random key, float p, Location where) {
  const Call call(me, "dropout", where);
  call.same({{"y", y}}, {"x", x});
  call.floating({{"x", x}});
  call.apart({"y", y}, {{"x", x}});
  if (!(p >= 0 && p < 1)) call.refuse(fmt::format("p is {}, and must be at least 0 and below 1", p));
  if (x.empty()) return;
  call.compute({22 * number(x.size())}, {&x}, {&y}, [&](Device& device) { device.dropout(y, x, key, p); });
}

// Matrix products ---------------------------------------------------------------------------------------------------

namespace {

void check_matrix(const Call& call, const char* name, const Matrix& x) {
  if (x.slice.size() != x.rows * x.columns)
    call.refuse(fmt::format("{} is declared as {} × {}, but has {}", name, x.rows, x.columns,
                            counted(x.slice.size(), "element")));
  call.floating({{name, x.slice}});
}

/// Checks the operands of c = a·b + bias; `name` is c's name in messages.
void check_product(const Call& call, const char* name, const Matrix& c, const Matrix& a, const Matrix& b,
                   const Slice& bias) {
  check_matrix(call, name, c);
  check_matrix(call, "a", a);
  check_matrix(call, "b", b);
  if (c.transposed) call.refuse(fmt::format("{} is transposed; give a and b transposed and swapped instead", name));
  if (a.n() != b.m() || c.m() != a.m() || c.n() != b.n())
    call.refuse(fmt::format("the shapes do not match in {} ({} × {}) = a ({} × {}) · b ({} × {})", name, c.m(), c.n(),
                            a.m(), a.n(), b.m(), b.n()));
  if (!bias.empty()) {
    call.size({"bias", bias}, c.n(), "columns of the product");
    call.floating({{"bias", bias}});
  }
  call.distinct({name, c.slice}, {{"bias", bias}, {"a", a.slice}, {"b", b.slice}});
}

/// Cost of a product whose result is written once.
Cost product(const Matrix& c, const Matrix& a) {
  return {2 * number(c.m()) * number(c.n()) * number(a.n()), a.slice.dtype(), 0, {c.m(), c.n(), a.n()}};
}

}  // namespace

void matmul(Rank me, Matrix c, Matrix a, Matrix b, Into into, Slice bias, Location where) {
  const Call call(me, "matmul", where);
  check_product(call, "c", c, a, b, bias);
  if (c.slice.empty()) return;
  Cost cost = product(c, a);
  if (into == Into::accumulate) cost.more_bytes = bytes(c.slice);
  call.compute(cost, {&a.slice, &b.slice, &bias}, {&c.slice},
               [&](Device& device) { device.matmul(c, a, b, into, bias); });
}

void matmul_gelu(Rank me, Slice y, Matrix x, Matrix a, Matrix b, Slice bias, Location where) {
  const Call call(me, "matmul_gelu", where);
  check_product(call, "x", x, a, b, bias);
  call.same({{"y", y}}, {"x", x.slice});
  call.distinct({"y", y}, {{"x", x.slice}, {"a", a.slice}, {"b", b.slice}, {"bias", bias}});
  if (y.empty()) return;
  if (!me.backend().fuses_gelu()) {
    matmul(me, x, a, b, Into::overwrite, bias, where);
    return gelu(me, y, x.slice, where);
  }
  Cost cost = product(x, a);
  cost.flop += kGeluFlop * number(y.size());
  call.compute(cost, {&a.slice, &b.slice, &bias}, {&x.slice, &y},
               [&](Device& device) { device.matmul_gelu(y, x, a, b, bias); });
}

void matmul_gelu_backward(Rank me, Matrix dx, Matrix a, Matrix b, Slice x, Location where) {
  const Call call(me, "matmul_gelu_backward", where);
  const Slice none;
  check_product(call, "dx", dx, a, b, none);
  call.same({{"x", x}}, {"dx", dx.slice});
  call.distinct({"dx", dx.slice}, {{"x", x}});
  if (x.empty()) return;
  if (!me.backend().fuses_gelu()) {
    matmul(me, dx, a, b, Into::overwrite, none, where);
    return gelu_backward(me, dx.slice, dx.slice, x, where);
  }
  Cost cost = product(dx, a);
  cost.flop += kGeluBackwardFlop * number(x.size());
  call.compute(cost, {&a.slice, &b.slice, &x}, {&dx.slice},
               [&](Device& device) { device.matmul_gelu_backward(dx, a, b, x); });
}

void add_rows(Rank me, Slice bias_gradient, Matrix x, Location where) {
  const Call call(me, "add_rows", where);
  call.size({"x", x.slice}, x.rows * x.columns, "rows × columns");
  if (x.transposed) call.refuse("x is transposed");
  call.size({"bias_gradient", bias_gradient}, x.columns, "columns of x");
  call.floating({{"bias_gradient", bias_gradient}, {"x", x.slice}});
  call.distinct({"bias_gradient", bias_gradient}, {{"x", x.slice}});
  if (x.slice.empty()) return;
  call.compute({number(x.slice.size()), x.slice.dtype(), bytes(bias_gradient)}, {&x.slice}, {&bias_gradient},
               [&](Device& device) { device.add_rows(bias_gradient, x); });
}

}  // namespace lockstep
