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
  if (x.empty()) return;
  const Operation operation{"fill", 0, bytes(x), x.dtype(), {}, {&x}};
  compute(me, operation, where, [&](Device& device) { device.fill(x, value); });
}

void copy(Rank me, Slice y, Slice x, Location where) {
  need_same("copy", "y", y, "x", x, where);
  need_apart("copy", "y", y, "x", x, where);
  if (x.empty()) return;
  const Operation operation{"copy", 0, bytes(x) + bytes(y), x.dtype(), {&x}, {&y}};
  compute(me, operation, where, [&](Device& device) { device.copy(y, x); });
}

void cast(Rank me, Slice y, Slice x, Location where) {
  need_size("cast", "y", y, x.size(), "as x", where);
  need_floating("cast", "y", y, where);
  need_floating("cast", "x", x, where);
  need_apart("cast", "y", y, "x", x, where);
  if (x.empty()) return;
  const Operation operation{"cast", 0, bytes(x) + bytes(y), y.dtype(), {&x}, {&y}};
  compute(me, operation, where, [&](Device& device) { device.cast(y, x); });
}

void add(Rank me, Slice y, Slice x, Location where) {
  need_same("add", "y", y, "x", x, where);
  if (y.dtype() != DType::i32) need_floating("add", "y", y, where);
  need_apart("add", "y", y, "x", x, where);
  if (x.empty()) return;
  const Operation operation{"add", number(x.size()), bytes(x) + 2 * bytes(y), x.dtype(), {&x}, {&y}};
  compute(me, operation, where, [&](Device& device) { device.add(y, y, x); });
}

void add(Rank me, Slice z, Slice x, Slice y, Location where) {
  need_same("add", "z", z, "x", x, where);
  need_same("add", "z", z, "y", y, where);
  if (z.dtype() != DType::i32) need_floating("add", "z", z, where);
  need_apart("add", "z", z, "x", x, where);
  need_apart("add", "z", z, "y", y, where);
  if (z.empty()) return;
  const Operation operation{"add", number(z.size()), 3 * bytes(z), z.dtype(), {&x, &y}, {&z}};
  compute(me, operation, where, [&](Device& device) { device.add(z, x, y); });
}

void scale(Rank me, Slice x, float factor, Location where) {
  need_floating("scale", "x", x, where);
  if (x.empty()) return;
  const Operation operation{"scale", number(x.size()), 2 * bytes(x), x.dtype(), {}, {&x}};
  compute(me, operation, where, [&](Device& device) { device.scale(x, factor); });
}

void scale(Rank me, Slice x, Slice factor, Location where) {
  need_floating("scale", "x", x, where);
  need_scalar("scale", "factor", factor, where);
  need_distinct("scale", "x", x, "factor", factor, where);
  if (x.empty()) return;
  const Operation operation{"scale", number(x.size()), 2 * bytes(x) + bytes(factor), x.dtype(), {&factor}, {&x}};
  compute(me, operation, where, [&](Device& device) { device.scale(x, factor); });
}

void scale_if(Rank me, Slice x, float factor, Slice condition, Location where) {
  need_floating("scale_if", "x", x, where);
  need_scalar("scale_if", "condition", condition, where);
  need_distinct("scale_if", "x", x, "condition", condition, where);
  if (x.empty()) return;
  const Operation operation{"scale_if", number(x.size()), 2 * bytes(x) + bytes(condition),
                            x.dtype(),  {&condition},     {&x}};
  compute(me, operation, where, [&](Device& device) { device.scale_if(x, factor, condition); });
}

void at_least(Rank me, Slice flag, Slice x, float threshold, Location where) {
  need_scalar("at_least", "flag", flag, where);
  need_scalar("at_least", "x", x, where);
  const Operation operation{"at_least", 1, bytes(flag) + bytes(x), DType::f32, {&x}, {&flag}};
  compute(me, operation, where, [&](Device& device) { device.at_least(flag, x, threshold); });
}

void add_squares(Rank me, Slice sum, Slice x, Location where) {
  need_scalar("add_squares", "sum", sum, where);
  need_floating("add_squares", "x", x, where);
  need_distinct("add_squares", "sum", sum, "x", x, where);
  if (x.empty()) return;
  const Operation operation{"add_squares", 2 * number(x.size()), bytes(x) + 2 * bytes(sum), x.dtype(), {&x}, {&sum}};
  compute(me, operation, where, [&](Device& device) { device.add_squares(sum, x); });
}

void add_sum(Rank me, Slice sum, Slice x, Location where) {
  need_scalar("add_sum", "sum", sum, where);
  need_floating("add_sum", "x", x, where);
  need_distinct("add_sum", "sum", sum, "x", x, where);
  if (x.empty()) return;
  const Operation operation{"add_sum", number(x.size()), bytes(x) + 2 * bytes(sum), x.dtype(), {&x}, {&sum}};
  compute(me, operation, where, [&](Device& device) { device.add_sum(sum, x); });
}

void clip_factor(Rank me, Slice factor, Slice sum_of_squares, float max_norm, Location where) {
  need_scalar("clip_factor", "factor", factor, where);
  need_scalar("clip_factor", "sum_of_squares", sum_of_squares, where);
  const Operation operation{"clip_factor",     4,        bytes(factor) + bytes(sum_of_squares), DType::f32,
                            {&sum_of_squares}, {&factor}};
  compute(me, operation, where, [&](Device& device) { device.clip_factor(factor, sum_of_squares, max_norm); });
}

void find_overflow(Rank me, Slice flag, Slice x, Location where) {
  need_scalar("find_overflow", "flag", flag, where);
  need_floating("find_overflow", "x", x, where);
  need_distinct("find_overflow", "flag", flag, "x", x, where);
  if (x.empty()) return;
  const Operation operation{"find_overflow", number(x.size()), bytes(x) + 2 * bytes(flag), x.dtype(), {&x}, {&flag}};
  compute(me, operation, where, [&](Device& device) { device.find_overflow(flag, x); });
}

// A draw costs about 20 integer and floating-point operations per element.
void random_normal(Rank me, Slice x, Random key, float mean, float deviation, Location where) {
  need_floating("random_normal", "x", x, where);
  if (x.empty()) return;
  const Operation operation{"random_normal", 20 * number(x.size()), bytes(x), DType::f32, {}, {&x}};
  compute(me, operation, where, [&](Device& device) { device.random_normal(x, key, mean, deviation); });
}

void random_uniform(Rank me, Slice x, Random key, float low, float high, Location where) {
  need_floating("random_uniform", "x", x, where);
  if (x.empty()) return;
  const Operation operation{"random_uniform", 20 * number(x.size()), bytes(x), DType::f32, {}, {&x}};
  compute(me, operation, where, [&](Device& device) { device.random_uniform(x, key, low, high); });
}

void dropout(Rank me, Slice y, Slice x, Random key, float p, Location where) {
  need_same("dropout", "y", y, "x", x, where);
  need_floating("dropout", "x", x, where);
  need_apart("dropout", "y", y, "x", x, where);
  if (!(p >= 0 && p < 1)) usage_error(fmt::format("dropout: p is {}, and must be at least 0 and below 1", p), where);
  if (x.empty()) return;
  const Operation operation{"dropout", 22 * number(x.size()), bytes(x) + bytes(y), DType::f32, {&x}, {&y}};
  compute(me, operation, where, [&](Device& device) { device.dropout(y, x, key, p); });
}

// Matrix products ---------------------------------------------------------------------------------------------------

namespace {

void need_matrix(const char* operation, const char* name, const Matrix& x, Location where) {
  if (x.slice.size() != x.rows * x.columns)
    usage_error(fmt::format("{}: {} is declared as {} × {}, but has {}", operation, name, x.rows, x.columns,
                            counted(x.slice.size(), "element")),
                where);
  need_floating(operation, name, x.slice, where);
}

/// Checks the operands of c = a·b + bias; `name` is c's name in messages.
void need_product(const char* operation, const char* name, const Matrix& c, const Matrix& a, const Matrix& b,
                  const Slice& bias, Location where) {
  need_matrix(operation, name, c, where);
  need_matrix(operation, "a", a, where);
  need_matrix(operation, "b", b, where);
  if (c.transposed)
    usage_error(fmt::format("{}: {} is transposed; give a and b transposed and swapped instead", operation, name),
                where);
  if (a.n() != b.m() || c.m() != a.m() || c.n() != b.n())
    usage_error(fmt::format("{}: the shapes do not match in {} ({} × {}) = a ({} × {}) · b ({} × {})", operation, name,
                            c.m(), c.n(), a.m(), a.n(), b.m(), b.n()),
                where);
  if (!bias.empty()) {
    need_size(operation, "bias", bias, c.n(), "columns of the product", where);
    need_floating(operation, "bias", bias, where);
    need_distinct(operation, name, c.slice, "bias", bias, where);
  }
  need_distinct(operation, name, c.slice, "a", a.slice, where);
  need_distinct(operation, name, c.slice, "b", b.slice, where);
}

/// Cost of a product whose result is written once, and the memory it touches; callers add to it.
Operation product(const char* name, const Matrix& c, const Matrix& a, const Matrix& b, const Slice& bias) {
  return {name,
          2 * number(c.m()) * number(c.n()) * number(a.n()),
          bytes(c.slice) + bytes(a.slice) + bytes(b.slice) + bytes(bias),
          a.slice.dtype(),
          {&a.slice, &b.slice, &bias},
          {&c.slice},
          true,
          {c.m(), c.n(), a.n()}};
}

}  // namespace

void matmul(Rank me, Matrix c, Matrix a, Matrix b, Into into, Slice bias, Location where) {
  need_product("matmul", "c", c, a, b, bias, where);
  if (c.slice.empty()) return;
  Operation operation = product("matmul", c, a, b, bias);
  if (into == Into::accumulate) operation.bytes += bytes(c.slice);
  compute(me, operation, where, [&](Device& device) { device.matmul(c, a, b, into, bias); });
}

void matmul_gelu(Rank me, Slice y, Matrix x, Matrix a, Matrix b, Slice bias, Location where) {
  need_product("matmul_gelu", "x", x, a, b, bias, where);
  need_same("matmul_gelu", "y", y, "x", x.slice, where);
  for (const auto& [name, operand] : {std::pair{"x", x.slice}, {"a", a.slice}, {"b", b.slice}, {"bias", bias}})
    need_distinct("matmul_gelu", "y", y, name, operand, where);
  if (y.empty()) return;
  if (!me.backend().fuses_gelu()) {
    matmul(me, x, a, b, Into::overwrite, bias, where);
    return gelu(me, y, x.slice, where);
  }
  Operation operation = product("matmul_gelu", x, a, b, bias);
  operation.flop += kGeluFlop * number(y.size());
  operation.bytes += bytes(y);
  operation.writes[1] = &y;
  compute(me, operation, where, [&](Device& device) { device.matmul_gelu(y, x, a, b, bias); });
}

void matmul_gelu_backward(Rank me, Matrix dx, Matrix a, Matrix b, Slice x, Location where) {
  need_product("matmul_gelu_backward", "dx", dx, a, b, {}, where);
  need_same("matmul_gelu_backward", "x", x, "dx", dx.slice, where);
  need_distinct("matmul_gelu_backward", "dx", dx.slice, "x", x, where);
  if (x.empty()) return;
  const Slice none;
  if (!me.backend().fuses_gelu()) {
    matmul(me, dx, a, b, Into::overwrite, none, where);
    return gelu_backward(me, dx.slice, dx.slice, x, where);
  }
  Operation operation = product("matmul_gelu_backward", dx, a, b, none);
  operation.flop += kGeluBackwardFlop * number(x.size());
  operation.bytes += bytes(x);
  operation.reads[3] = &x;
  compute(me, operation, where, [&](Device& device) { device.matmul_gelu_backward(dx, a, b, x); });
}

void add_rows(Rank me, Slice bias_gradient, Matrix x, Location where) {
  need_size("add_rows", "x", x.slice, x.rows * x.columns, "rows × columns", where);
  if (x.transposed) usage_error("add_rows: x is transposed", where);
  need_size("add_rows", "bias_gradient", bias_gradient, x.columns, "columns of x", where);
  need_floating("add_rows", "bias_gradient", bias_gradient, where);
  need_floating("add_rows", "x", x.slice, where);
  need_distinct("add_rows", "bias_gradient", bias_gradient, "x", x.slice, where);
  if (x.slice.empty()) return;
  const Operation operation{
      "add_rows", number(x.slice.size()), bytes(x.slice) + 2 * bytes(bias_gradient), x.slice.dtype(),
      {&x.slice}, {&bias_gradient}};
  compute(me, operation, where, [&](Device& device) { device.add_rows(bias_gradient, x); });
}

}  // namespace lockstep
