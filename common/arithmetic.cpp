// The front of arithmetic: each function checks its shapes, says what it costs and which memory it touches, and hands
// the work to the backend. Here is no arithmetic; that is in device/.
//
// Costs: a multiply-add is two FLOP, an exponential or a division one. Bytes are each operand's, once for a read and
// once for a write. They price the operation as a GPU would do it: attention reads q, k, v and writes y, no scores.
#include "common/arithmetic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "common/backend.hpp"
#include "common/device/device.hpp"
#include "common/device/operation.hpp"

namespace lockstep {

namespace {

// Checks: each throws a USAGE error that names the operation, the operand and the numbers. ---------------------------

void need_size(const char* operation, const char* name, const Slice& x, std::size_t size, const char* what,
               Location where) {
  if (x.size() == size) return;
  usage_error(fmt::format("{}: {} has {} elements, not {} ({})", operation, name, x.size(), size, what), where);
}

void need_same(const char* operation, const char* name_a, const Slice& a, const char* name_b, const Slice& b,
               Location where) {
  if (a.size() != b.size())
    usage_error(fmt::format("{}: {} has {} elements and {} has {}", operation, name_a, a.size(), name_b, b.size()),
                where);
  if (a.dtype() != b.dtype() && !a.empty())
    usage_error(
        fmt::format("{}: {} is {} and {} is {}", operation, name_a, to_string(a.dtype()), name_b, to_string(b.dtype())),
        where);
}

bool is_floating(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16; }

void need_floating(const char* operation, const char* name, const Slice& x, Location where) {
  if (is_floating(x.dtype())) return;
  usage_error(fmt::format("{}: {} is {}, not fp32, bf16 or fp16", operation, name, to_string(x.dtype())), where);
}

void need_dtype(const char* operation, const char* name, const Slice& x, DType dtype, Location where) {
  if (x.dtype() == dtype || x.empty()) return;
  usage_error(fmt::format("{}: {} is {}, not {}", operation, name, to_string(x.dtype()), to_string(dtype)), where);
}

void need_scalar(const char* operation, const char* name, const Slice& x, Location where) {
  if (x.size() == 1 && x.dtype() == DType::f32) return;
  usage_error(fmt::format("{}: {} is {} × {}, not one fp32", operation, name, x.size(), to_string(x.dtype())), where);
}

/// N of x = N × `columns`.
std::size_t rows_of(const char* operation, const char* name, const Slice& x, std::size_t columns, const char* what,
                    Location where) {
  if (columns == 0 ? x.empty() : x.size() % columns == 0) return columns == 0 ? 0 : x.size() / columns;
  usage_error(
      fmt::format("{}: {} has {} elements, not a multiple of {} ({})", operation, name, x.size(), columns, what),
      where);
}

/// An output may be an input exactly or lie apart from it; a partial overlap gives answers that depend on the device.
void need_apart(const char* operation, const char* name_a, const Slice& a, const char* name_b, const Slice& b,
                Location where) {
  if (a.block() != b.block() || a.empty() || b.empty()) return;
  const std::size_t first_a = a.offset_bytes(), first_b = b.offset_bytes();
  if (first_a >= first_b + b.bytes() || first_b >= first_a + a.bytes()) return;
  if (first_a == first_b && a.size() == b.size()) return;
  usage_error(fmt::format("{}: {} and {} overlap in part (bytes {}…{} and {}…{} of one allocation)", operation, name_a,
                          name_b, first_a, first_a + a.bytes(), first_b, first_b + b.bytes()),
              where);
}

/// As need_apart, for operations that also cannot work in place.
void need_distinct(const char* operation, const char* name_a, const Slice& a, const char* name_b, const Slice& b,
                   Location where) {
  need_apart(operation, name_a, a, name_b, b, where);
  if (a.block() != b.block() || a.empty() || b.empty() || a.offset_bytes() != b.offset_bytes()) return;
  usage_error(fmt::format("{}: {} and {} are the same memory, and it cannot work in place", operation, name_a, name_b),
              where);
}

// Handing over ------------------------------------------------------------------------------------------------------

template <class F>
void compute(Rank me, const Operation& operation, const F& f, Location where) {
  me.backend().compute({me.group(), me.queue()}, operation, Kernel(f), where);
}

/// For operations that index by data: a device that finds an index outside its table throws out_of_range.
template <class F>
void compute_indexed(Rank me, const Operation& operation, const F& f, Location where) {
  compute(
      me, operation,
      [&](Device& device) {
        try {
          f(device);
        } catch (const std::out_of_range& error) {
          usage_error(fmt::format("{}: {}", operation.name, error.what()), where);
        }
      },
      where);
}

double number(std::size_t n) { return static_cast<double>(n); }
double bytes(const Slice& x) { return number(x.bytes()); }

}  // namespace

// Elementwise and reductions ----------------------------------------------------------------------------------------

void fill(Rank me, Slice x, float value, Location where) {
  if (x.empty()) return;
  const Operation operation{"fill", 0, bytes(x), x.dtype(), false, {}, {}, {&x}};
  compute(
      me, operation, [&](Device& device) { device.fill(x, value); }, where);
}

void copy(Rank me, Slice y, Slice x, Location where) {
  need_same("copy", "y", y, "x", x, where);
  need_apart("copy", "y", y, "x", x, where);
  if (x.empty()) return;
  const Operation operation{"copy", 0, bytes(x) + bytes(y), x.dtype(), false, {}, {&x}, {&y}};
  compute(
      me, operation, [&](Device& device) { device.copy(y, x); }, where);
}

void cast(Rank me, Slice y, Slice x, Location where) {
  need_size("cast", "y", y, x.size(), "as x", where);
  need_floating("cast", "y", y, where);
  need_floating("cast", "x", x, where);
  need_apart("cast", "y", y, "x", x, where);
  if (x.empty()) return;
  const Operation operation{"cast", 0, bytes(x) + bytes(y), y.dtype(), false, {}, {&x}, {&y}};
  compute(
      me, operation, [&](Device& device) { device.cast(y, x); }, where);
}

void add(Rank me, Slice y, Slice x, Location where) {
  need_same("add", "y", y, "x", x, where);
  if (y.dtype() != DType::i32) need_floating("add", "y", y, where);
  need_apart("add", "y", y, "x", x, where);
  if (x.empty()) return;
  const Operation operation{"add", number(x.size()), bytes(x) + 2 * bytes(y), x.dtype(), false, {}, {&x}, {&y}};
  compute(
      me, operation, [&](Device& device) { device.add(y, y, x); }, where);
}

void add(Rank me, Slice z, Slice x, Slice y, Location where) {
  need_same("add", "z", z, "x", x, where);
  need_same("add", "z", z, "y", y, where);
  if (z.dtype() != DType::i32) need_floating("add", "z", z, where);
  need_apart("add", "z", z, "x", x, where);
  need_apart("add", "z", z, "y", y, where);
  if (z.empty()) return;
  const Operation operation{"add", number(z.size()), 3 * bytes(z), z.dtype(), false, {}, {&x, &y}, {&z}};
  compute(
      me, operation, [&](Device& device) { device.add(z, x, y); }, where);
}

void scale(Rank me, Slice x, float factor, Location where) {
  need_floating("scale", "x", x, where);
  if (x.empty()) return;
  const Operation operation{"scale", number(x.size()), 2 * bytes(x), x.dtype(), false, {}, {}, {&x}};
  compute(
      me, operation, [&](Device& device) { device.scale(x, factor); }, where);
}

void scale(Rank me, Slice x, Slice factor, Location where) {
  need_floating("scale", "x", x, where);
  need_scalar("scale", "factor", factor, where);
  need_distinct("scale", "x", x, "factor", factor, where);
  if (x.empty()) return;
  const Operation operation{"scale", number(x.size()), 2 * bytes(x) + bytes(factor), x.dtype(), false, {}, {&factor},
                            {&x}};
  compute(
      me, operation, [&](Device& device) { device.scale(x, factor); }, where);
}

void add_squares(Rank me, Slice sum, Slice x, Location where) {
  need_scalar("add_squares", "sum", sum, where);
  need_floating("add_squares", "x", x, where);
  need_distinct("add_squares", "sum", sum, "x", x, where);
  if (x.empty()) return;
  const Operation operation{"add_squares", 2 * number(x.size()), bytes(x) + 2 * bytes(sum), x.dtype(), false, {}, {&x},
                            {&sum}};
  compute(
      me, operation, [&](Device& device) { device.add_squares(sum, x); }, where);
}

void add_sum(Rank me, Slice sum, Slice x, Location where) {
  need_scalar("add_sum", "sum", sum, where);
  need_floating("add_sum", "x", x, where);
  need_distinct("add_sum", "sum", sum, "x", x, where);
  if (x.empty()) return;
  const Operation operation{"add_sum", number(x.size()), bytes(x) + 2 * bytes(sum), x.dtype(), false, {}, {&x}, {&sum}};
  compute(
      me, operation, [&](Device& device) { device.add_sum(sum, x); }, where);
}

void clip_factor(Rank me, Slice factor, Slice sum_of_squares, float max_norm, Location where) {
  need_scalar("clip_factor", "factor", factor, where);
  need_scalar("clip_factor", "sum_of_squares", sum_of_squares, where);
  const Operation operation{"clip_factor",     4,        bytes(factor) + bytes(sum_of_squares), DType::f32, false, {},
                            {&sum_of_squares}, {&factor}};
  compute(
      me, operation, [&](Device& device) { device.clip_factor(factor, sum_of_squares, max_norm); }, where);
}

void find_overflow(Rank me, Slice flag, Slice x, Location where) {
  need_scalar("find_overflow", "flag", flag, where);
  need_floating("find_overflow", "x", x, where);
  need_distinct("find_overflow", "flag", flag, "x", x, where);
  if (x.empty()) return;
  const Operation operation{"find_overflow", number(x.size()), bytes(x) + 2 * bytes(flag), x.dtype(), false, {}, {&x},
                            {&flag}};
  compute(
      me, operation, [&](Device& device) { device.find_overflow(flag, x); }, where);
}

// A draw is about 20 integer and floating-point operations an element.
void random_normal(Rank me, Slice x, Random key, float mean, float deviation, Location where) {
  need_floating("random_normal", "x", x, where);
  if (x.empty()) return;
  const Operation operation{"random_normal", 20 * number(x.size()), bytes(x), DType::f32, false, {}, {}, {&x}};
  compute(
      me, operation, [&](Device& device) { device.random_normal(x, key, mean, deviation); }, where);
}

void random_uniform(Rank me, Slice x, Random key, float low, float high, Location where) {
  need_floating("random_uniform", "x", x, where);
  if (x.empty()) return;
  const Operation operation{"random_uniform", 20 * number(x.size()), bytes(x), DType::f32, false, {}, {}, {&x}};
  compute(
      me, operation, [&](Device& device) { device.random_uniform(x, key, low, high); }, where);
}

// Matrix products ---------------------------------------------------------------------------------------------------

namespace {

void need_matrix(const char* name, const Matrix& x, Location where) {
  if (x.slice.size() != x.rows * x.columns)
    usage_error(
        fmt::format("matmul: {} is called {} × {} and has {} elements", name, x.rows, x.columns, x.slice.size()),
        where);
  need_floating("matmul", name, x.slice, where);
}

}  // namespace

void matmul(Rank me, Matrix c, Matrix a, Matrix b, Into into, Slice bias, Location where) {
  need_matrix("c", c, where);
  need_matrix("a", a, where);
  need_matrix("b", b, where);
  if (c.transposed) usage_error("matmul: c is transposed; give a and b transposed and swapped instead", where);
  if (a.n() != b.m() || c.m() != a.m() || c.n() != b.n())
    usage_error(fmt::format("matmul: c ({} × {}) = a ({} × {}) · b ({} × {}) do not fit", c.m(), c.n(), a.m(), a.n(),
                            b.m(), b.n()),
                where);
  if (!bias.empty()) {
    need_size("matmul", "bias", bias, c.n(), "columns of c", where);
    need_floating("matmul", "bias", bias, where);
    need_distinct("matmul", "c", c.slice, "bias", bias, where);
  }
  need_distinct("matmul", "c", c.slice, "a", a.slice, where);
  need_distinct("matmul", "c", c.slice, "b", b.slice, where);
  if (c.slice.empty()) return;
  const double result = bytes(c.slice) * (into == Into::accumulate ? 2 : 1);
  const Operation operation{"matmul",
                            2 * number(c.m()) * number(c.n()) * number(a.n()),
                            result + bytes(a.slice) + bytes(b.slice) + bytes(bias),
                            a.slice.dtype(),
                            true,
                            {c.m(), c.n(), a.n()},
                            {&a.slice, &b.slice, &bias},
                            {&c.slice}};
  compute(
      me, operation, [&](Device& device) { device.matmul(c, a, b, into, bias); }, where);
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
      "add_rows", number(x.slice.size()), bytes(x.slice) + 2 * bytes(bias_gradient), x.slice.dtype(), false, {},
      {&x.slice}, {&bias_gradient}};
  compute(
      me, operation, [&](Device& device) { device.add_rows(bias_gradient, x); }, where);
}

// Layers ------------------------------------------------------------------------------------------------------------

// tanh form: 3 multiplies and 1 add for the argument, exponential, add, divide, multiply.
void gelu(Rank me, Slice y, Slice x, Location where) {
  need_same("gelu", "y", y, "x", x, where);
  need_floating("gelu", "x", x, where);
  need_apart("gelu", "y", y, "x", x, where);
  if (x.empty()) return;
  const Operation operation{"gelu", 8 * number(x.size()), bytes(x) + bytes(y), x.dtype(), false, {}, {&x}, {&y}};
  compute(
      me, operation, [&](Device& device) { device.gelu(y, x); }, where);
}

void gelu_backward(Rank me, Slice dx, Slice dy, Slice x, Location where) {
  need_same("gelu_backward", "dx", dx, "x", x, where);
  need_same("gelu_backward", "dy", dy, "x", x, where);
  need_floating("gelu_backward", "x", x, where);
  need_apart("gelu_backward", "dx", dx, "dy", dy, where);
  need_apart("gelu_backward", "dx", dx, "x", x, where);
  if (x.empty()) return;
  const Operation operation{
      "gelu_backward", 15 * number(x.size()), 3 * bytes(x), x.dtype(), false, {}, {&dy, &x}, {&dx}};
  compute(
      me, operation, [&](Device& device) { device.gelu_backward(dx, dy, x); }, where);
}

// Mean 1, variance 3, normalise 2, weight and bias 2 FLOP an element.
void layer_norm(Rank me, Slice y, Slice statistics, Slice x, Slice weight, Slice bias, Location where) {
  const std::size_t rows = rows_of("layer_norm", "x", x, weight.size(), "elements of weight", where);
  need_same("layer_norm", "y", y, "x", x, where);
  need_same("layer_norm", "bias", bias, "weight", weight, where);
  need_size("layer_norm", "statistics", statistics, 2 * rows, "two a row of x", where);
  need_dtype("layer_norm", "statistics", statistics, DType::f32, where);
  need_floating("layer_norm", "x", x, where);
  need_floating("layer_norm", "weight", weight, where);
  need_apart("layer_norm", "y", y, "x", x, where);
  if (x.empty()) return;
  const Operation operation{"layer_norm",
                            8 * number(x.size()),
                            bytes(x) + bytes(y) + bytes(weight) + bytes(bias) + bytes(statistics),
                            x.dtype(),
                            false,
                            {},
                            {&x, &weight, &bias},
                            {&y, &statistics}};
  compute(
      me, operation, [&](Device& device) { device.layer_norm(y, statistics, x, weight, bias); }, where);
}

void layer_norm_backward(Rank me, Slice dx, Slice dweight, Slice dbias, Slice dy, Slice x, Slice weight,
                         Slice statistics, Into into, Location where) {
  const std::size_t rows = rows_of("layer_norm_backward", "x", x, weight.size(), "elements of weight", where);
  need_same("layer_norm_backward", "dx", dx, "x", x, where);
  need_same("layer_norm_backward", "dy", dy, "x", x, where);
  need_same("layer_norm_backward", "dbias", dbias, "dweight", dweight, where);
  need_size("layer_norm_backward", "dweight", dweight, weight.size(), "as weight", where);
  need_size("layer_norm_backward", "statistics", statistics, 2 * rows, "two a row of x", where);
  need_dtype("layer_norm_backward", "statistics", statistics, DType::f32, where);
  need_floating("layer_norm_backward", "x", x, where);
  need_floating("layer_norm_backward", "weight", weight, where);
  need_floating("layer_norm_backward", "dweight", dweight, where);
  need_apart("layer_norm_backward", "dx", dx, "dy", dy, where);
  need_apart("layer_norm_backward", "dx", dx, "x", x, where);
  if (x.empty()) return;
  const double gradients = 2 * bytes(dweight) + 2 * bytes(dbias) + bytes(dx) * (into == Into::accumulate ? 2 : 1);
  const Operation operation{"layer_norm_backward",
                            14 * number(x.size()),
                            bytes(dy) + bytes(x) + bytes(weight) + bytes(statistics) + gradients,
                            x.dtype(),
                            false,
                            {},
                            {&dy, &x, &weight, &statistics},
                            {&dx, &dweight, &dbias}};
  compute(
      me, operation,
      [&](Device& device) { device.layer_norm_backward(dx, dweight, dbias, dy, x, weight, statistics, into); }, where);
}

namespace {

void need_attention(const char* operation, const Slice& y, const Slice& qkv, const Slice& statistics,
                    AttentionShape shape, Location where) {
  const std::size_t rows = shape.batch * shape.positions, width = shape.heads * shape.head_size;
  need_size(operation, "qkv", qkv, rows * 3 * width, "batch × positions × 3 × heads × head_size", where);
  need_size(operation, "y", y, rows * width, "batch × positions × heads × head_size", where);
  need_size(operation, "statistics", statistics, rows * shape.heads, "batch × heads × positions", where);
  need_dtype(operation, "statistics", statistics, DType::f32, where);
  need_dtype(operation, "y", y, qkv.dtype(), where);
  need_floating(operation, "qkv", qkv, where);
}

/// Causal: FLOP of one product of scores, of which each row i has i + 1.
double causal_product(AttentionShape shape) {
  const double t = number(shape.positions);
  return number(shape.batch) * number(shape.heads) * t * (t + 1) * number(shape.head_size);
}

}  // namespace

void attention(Rank me, Slice y, Slice statistics, Slice qkv, AttentionShape shape, Location where) {
  need_attention("attention", y, qkv, statistics, shape, where);
  need_distinct("attention", "y", y, "qkv", qkv, where);
  if (y.empty()) return;
  // Two products: scores = q·kᵀ, y = softmax(scores)·v.
  const Operation operation{"attention",
                            2 * causal_product(shape),
                            bytes(qkv) + bytes(y) + bytes(statistics),
                            qkv.dtype(),
                            true,
                            {shape.positions, shape.positions, shape.head_size},
                            {&qkv},
                            {&y, &statistics}};
  compute(
      me, operation, [&](Device& device) { device.attention(y, statistics, qkv, shape); }, where);
}

void attention_backward(Rank me, Slice dqkv, Slice dy, Slice y, Slice qkv, Slice statistics, AttentionShape shape,
                        Location where) {
  need_attention("attention_backward", y, qkv, statistics, shape, where);
  need_same("attention_backward", "dqkv", dqkv, "qkv", qkv, where);
  need_same("attention_backward", "dy", dy, "y", y, where);
  need_distinct("attention_backward", "dqkv", dqkv, "qkv", qkv, where);
  need_distinct("attention_backward", "dqkv", dqkv, "dy", dy, where);
  need_distinct("attention_backward", "dqkv", dqkv, "y", y, where);
  if (y.empty()) return;
  // Five products: the scores again, dv, the gradient of the probabilities, dq and dk.
  const Operation operation{"attention_backward",
                            5 * causal_product(shape),
                            bytes(dqkv) + bytes(dy) + bytes(y) + bytes(qkv) + bytes(statistics),
                            qkv.dtype(),
                            true,
                            {shape.positions, shape.positions, shape.head_size},
                            {&dy, &y, &qkv, &statistics},
                            {&dqkv}};
  compute(
      me, operation, [&](Device& device) { device.attention_backward(dqkv, dy, y, qkv, statistics, shape); }, where);
}

namespace {

/// C, from y = N × C.
std::size_t need_embedding(const char* operation, const Slice& y, const Slice& tokens, const Slice& table,
                           const Slice& positions, std::size_t sequence, Location where) {
  need_dtype(operation, "tokens", tokens, DType::i32, where);
  need_floating(operation, "table", table, where);
  need_floating(operation, "y", y, where);
  need_floating(operation, "positions", positions, where);
  if (tokens.empty()) {
    need_size(operation, "y", y, 0, "no tokens", where);
    return 0;
  }
  if (sequence == 0 || tokens.size() % sequence != 0)
    usage_error(fmt::format("{}: {} tokens are not whole sequences of {}", operation, tokens.size(), sequence), where);
  const std::size_t width = rows_of(operation, "y", y, tokens.size(), "tokens", where);
  rows_of(operation, "table", table, width, "elements a token of y", where);
  if (!positions.empty() &&
      rows_of(operation, "positions", positions, width, "elements a token of y", where) < sequence)
    usage_error(fmt::format("{}: {} positions for sequences of {}", operation, positions.size() / width, sequence),
                where);
  return width;
}

}  // namespace

void embedding(Rank me, Slice y, Slice tokens, Slice table, Slice positions, std::size_t sequence, Location where) {
  need_embedding("embedding", y, tokens, table, positions, sequence, where);
  need_distinct("embedding", "y", y, "table", table, where);
  need_distinct("embedding", "y", y, "positions", positions, where);
  if (y.empty()) return;
  // A row of the table, and of the positions where there are some, is read for each token.
  const double row_reads = positions.empty() ? 1 : 2;
  const Operation operation{"embedding",
                            positions.empty() ? 0 : number(y.size()),
                            bytes(tokens) + (1 + row_reads) * bytes(y),
                            y.dtype(),
                            false,
                            {},
                            {&tokens, &table, &positions},
                            {&y}};
  compute_indexed(
      me, operation, [&](Device& device) { device.embedding(y, tokens, table, positions, sequence); }, where);
}

void embedding_backward(Rank me, Slice dtable, Slice dpositions, Slice dy, Slice tokens, std::size_t sequence,
                        Location where) {
  need_embedding("embedding_backward", dy, tokens, dtable, dpositions, sequence, where);
  need_distinct("embedding_backward", "dtable", dtable, "dy", dy, where);
  need_distinct("embedding_backward", "dpositions", dpositions, "dy", dy, where);
  need_distinct("embedding_backward", "dpositions", dpositions, "dtable", dtable, where);
  if (dy.empty()) return;
  const double additions = dpositions.empty() ? 1 : 2;
  const Operation operation{"embedding_backward",
                            additions * number(dy.size()),
                            bytes(tokens) + (1 + 2 * additions) * bytes(dy),
                            dy.dtype(),
                            false,
                            {},
                            {&dy, &tokens},
                            {&dtable, &dpositions}};
  compute_indexed(
      me, operation, [&](Device& device) { device.embedding_backward(dtable, dpositions, dy, tokens, sequence); },
      where);
}

namespace {

void need_cross_entropy(const char* operation, const Slice& loss, const Slice& logits, const Slice& targets,
                        Location where) {
  need_scalar(operation, "loss", loss, where);
  need_floating(operation, "logits", logits, where);
  need_dtype(operation, "targets", targets, DType::i32, where);
  rows_of(operation, "logits", logits, targets.size(), "targets", where);
  need_distinct(operation, "loss", loss, "logits", logits, where);
}

}  // namespace

// Maximum 1, exponential and sum 3, and the gradient's 1 FLOP an element.
void cross_entropy(Rank me, Slice loss, Slice logits, Slice targets, float factor, Location where) {
  need_cross_entropy("cross_entropy", loss, logits, targets, where);
  if (logits.empty()) return;
  const Operation operation{"cross_entropy",
                            5 * number(logits.size()),
                            2 * bytes(logits) + bytes(targets) + 2 * bytes(loss),
                            logits.dtype(),
                            false,
                            {},
                            {&targets},
                            {&loss, &logits}};
  compute_indexed(
      me, operation, [&](Device& device) { device.cross_entropy(loss, logits, targets, factor); }, where);
}

void cross_entropy_loss(Rank me, Slice loss, Slice logits, Slice targets, float factor, Location where) {
  need_cross_entropy("cross_entropy_loss", loss, logits, targets, where);
  if (logits.empty()) return;
  const Operation operation{"cross_entropy_loss",
                            4 * number(logits.size()),
                            bytes(logits) + bytes(targets) + 2 * bytes(loss),
                            logits.dtype(),
                            false,
                            {},
                            {&logits, &targets},
                            {&loss}};
  compute_indexed(
      me, operation, [&](Device& device) { device.cross_entropy_loss(loss, logits, targets, factor); }, where);
}

// Moments 7, step 5, decay 2 FLOP an element.
void adamw(Rank me, Slice parameter, Slice master, Slice m, Slice v, Slice gradient, AdamW options,
           Slice gradient_factor, Slice skip, Location where) {
  const std::size_t count = master.size();
  need_size("adamw", "parameter", parameter, count, "as master", where);
  need_size("adamw", "m", m, count, "as master", where);
  need_size("adamw", "v", v, count, "as master", where);
  need_size("adamw", "gradient", gradient, count, "as master", where);
  for (const auto& [name, slice] : {std::pair{"master", &master}, std::pair{"m", &m}, std::pair{"v", &v}})
    need_dtype("adamw", name, *slice, DType::f32, where);
  need_floating("adamw", "parameter", parameter, where);
  need_floating("adamw", "gradient", gradient, where);
  if (!gradient_factor.empty()) need_scalar("adamw", "gradient_factor", gradient_factor, where);
  if (!skip.empty()) need_scalar("adamw", "skip", skip, where);
  if (options.step < 1) usage_error(fmt::format("adamw: step {} (they count from 1)", options.step), where);
  need_apart("adamw", "parameter", parameter, "master", master, where);
  need_distinct("adamw", "m", m, "v", v, where);
  need_distinct("adamw", "master", master, "gradient", gradient, where);
  if (master.empty()) return;
  const bool separate = parameter.block() != master.block() || parameter.offset_bytes() != master.offset_bytes();
  const Operation operation{"adamw",
                            14 * number(count),
                            2 * (bytes(master) + bytes(m) + bytes(v)) + bytes(gradient) +
                                (separate ? bytes(parameter) : 0) + bytes(gradient_factor) + bytes(skip),
                            DType::f32,
                            false,
                            {},
                            {&gradient, &gradient_factor, &skip},
                            {&parameter, &master, &m, &v}};
  compute(
      me, operation,
      [&](Device& device) { device.adamw(parameter, master, m, v, gradient, options, gradient_factor, skip); }, where);
}

}  // namespace lockstep
