// The front end of a GPT's layers; see arithmetic.cpp.

#include "common/runtime/arithmetic_front.hpp"

namespace lockstep {

using namespace front;

// Layers ------------------------------------------------------------------------------------------------------------

void gelu(Rank me, Slice y, Slice x, Location where) {
  need_same("gelu", "y", y, "x", x, where);
  need_floating("gelu", "x", x, where);
  need_apart("gelu", "y", y, "x", x, where);
  if (x.empty()) return;
  const Operation operation{"gelu", kGeluFlop * number(x.size()), bytes(x) + bytes(y), x.dtype(), {&x}, {&y}};
  compute(me, operation, where, [&](Device& device) { device.gelu(y, x); });
}

void gelu_backward(Rank me, Slice dx, Slice dy, Slice x, Location where) {
  need_same("gelu_backward", "dx", dx, "x", x, where);
  need_same("gelu_backward", "dy", dy, "x", x, where);
  need_floating("gelu_backward", "x", x, where);
  need_apart("gelu_backward", "dx", dx, "dy", dy, where);
  need_apart("gelu_backward", "dx", dx, "x", x, where);
  if (x.empty()) return;
  const Operation operation{
      "gelu_backward", kGeluBackwardFlop * number(x.size()), 3 * bytes(x), x.dtype(), {&dy, &x}, {&dx}};
  compute(me, operation, where, [&](Device& device) { device.gelu_backward(dx, dy, x); });
}

// FLOP per element: mean 1, variance 3, normalise 2, weight and bias 2.
void layer_norm(Rank me, Slice y, Slice statistics, Slice x, Slice weight, Slice bias, Location where) {
  const std::size_t rows = rows_of("layer_norm", "x", x, weight.size(), "elements of weight", where);
  need_same("layer_norm", "y", y, "x", x, where);
  need_same("layer_norm", "bias", bias, "weight", weight, where);
  need_size("layer_norm", "statistics", statistics, 2 * rows, "two per row of x", where);
  need_dtype("layer_norm", "statistics", statistics, DType::f32, where);
  need_floating("layer_norm", "x", x, where);
  need_floating("layer_norm", "weight", weight, where);
  need_apart("layer_norm", "y", y, "x", x, where);
  if (x.empty()) return;
  const Operation operation{
      "layer_norm", 8 * number(x.size()), bytes(x) + bytes(y) + bytes(weight) + bytes(bias) + bytes(statistics),
      x.dtype(),    {&x, &weight, &bias}, {&y, &statistics}};
  compute(me, operation, where, [&](Device& device) { device.layer_norm(y, statistics, x, weight, bias); });
}

void layer_norm_backward(Rank me, Slice dx, Slice dweight, Slice dbias, Slice dy, Slice x, Slice weight,
                         Slice statistics, Into into, Location where) {
  const std::size_t rows = rows_of("layer_norm_backward", "x", x, weight.size(), "elements of weight", where);
  need_same("layer_norm_backward", "dx", dx, "x", x, where);
  need_same("layer_norm_backward", "dy", dy, "x", x, where);
  need_same("layer_norm_backward", "dbias", dbias, "dweight", dweight, where);
  need_size("layer_norm_backward", "dweight", dweight, weight.size(), "as weight", where);
  need_size("layer_norm_backward", "statistics", statistics, 2 * rows, "two per row of x", where);
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
                            {&dy, &x, &weight, &statistics},
                            {&dx, &dweight, &dbias}};
  compute(me, operation, where,
          [&](Device& device) { device.layer_norm_backward(dx, dweight, dbias, dy, x, weight, statistics, into); });
}

// FLOP per element: squares 2, normalise and weight 2.
void rms_norm(Rank me, Slice y, Slice statistics, Slice x, Slice weight, Location where) {
  const std::size_t rows = rows_of("rms_norm", "x", x, weight.size(), "elements of weight", where);
  need_same("rms_norm", "y", y, "x", x, where);
  need_size("rms_norm", "statistics", statistics, rows, "one per row of x", where);
  need_dtype("rms_norm", "statistics", statistics, DType::f32, where);
  need_floating("rms_norm", "x", x, where);
  need_floating("rms_norm", "weight", weight, where);
  need_apart("rms_norm", "y", y, "x", x, where);
  if (x.empty()) return;
  const Operation operation{"rms_norm", 4 * number(x.size()), bytes(x) + bytes(y) + bytes(weight) + bytes(statistics),
                            x.dtype(),  {&x, &weight},        {&y, &statistics}};
  compute(me, operation, where, [&](Device& device) { device.rms_norm(y, statistics, x, weight); });
}

void rms_norm_backward(Rank me, Slice dx, Slice dweight, Slice dy, Slice x, Slice weight, Slice statistics, Into into,
                       Location where) {
  const std::size_t rows = rows_of("rms_norm_backward", "x", x, weight.size(), "elements of weight", where);
  need_same("rms_norm_backward", "dx", dx, "x", x, where);
  need_same("rms_norm_backward", "dy", dy, "x", x, where);
  need_size("rms_norm_backward", "dweight", dweight, weight.size(), "as weight", where);
  need_size("rms_norm_backward", "statistics", statistics, rows, "one per row of x", where);
  need_dtype("rms_norm_backward", "statistics", statistics, DType::f32, where);
  need_floating("rms_norm_backward", "x", x, where);
  need_floating("rms_norm_backward", "weight", weight, where);
  need_floating("rms_norm_backward", "dweight", dweight, where);
  need_apart("rms_norm_backward", "dx", dx, "dy", dy, where);
  need_apart("rms_norm_backward", "dx", dx, "x", x, where);
  if (x.empty()) return;
  const double gradients = 2 * bytes(dweight) + bytes(dx) * (into == Into::accumulate ? 2 : 1);
  const Operation operation{"rms_norm_backward",
                            10 * number(x.size()),
                            bytes(dy) + bytes(x) + bytes(weight) + bytes(statistics) + gradients,
                            x.dtype(),
                            {&dy, &x, &weight, &statistics},
                            {&dx, &dweight}};
  compute(me, operation, where,
          [&](Device& device) { device.rms_norm_backward(dx, dweight, dy, x, weight, statistics, into); });
}

namespace {

void need_swiglu(const char* operation, const char* name, const Slice& y, const Slice& x, std::size_t width,
                 Location where) {
  need_floating(operation, "x", x, where);
  const std::size_t rows = rows_of(operation, "x", x, 2 * width, "the gate's and up's width", where);
  need_size(operation, name, y, rows * width, "half of x", where);
  need_dtype(operation, name, y, x.dtype(), where);
}

}  // namespace

// FLOP per element of y: exponential, add, divide and two multiplications; backward nine.
void swiglu(Rank me, Slice y, Slice x, std::size_t width, Location where) {
  need_swiglu("swiglu", "y", y, x, width, where);
  need_distinct("swiglu", "y", y, "x", x, where);
  if (y.empty()) return;
  const Operation operation{"swiglu", 5 * number(y.size()), bytes(x) + bytes(y), x.dtype(), {&x}, {&y}};
  compute(me, operation, where, [&](Device& device) { device.swiglu(y, x, width); });
}

void swiglu_backward(Rank me, Slice dx, Slice dy, Slice x, std::size_t width, Location where) {
  need_swiglu("swiglu_backward", "dy", dy, x, width, where);
  need_same("swiglu_backward", "dx", dx, "x", x, where);
  need_distinct("swiglu_backward", "dx", dx, "dy", dy, where);
  need_apart("swiglu_backward", "dx", dx, "x", x, where);
  if (dy.empty()) return;
  const Operation operation{
      "swiglu_backward", 9 * number(dy.size()), bytes(dy) + bytes(x) + bytes(dx), x.dtype(), {&dy, &x}, {&dx}};
  compute(me, operation, where, [&](Device& device) { device.swiglu_backward(dx, dy, x, width); });
}

namespace {

/// Returns C, where y is N × C.
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
  rows_of(operation, "table", table, width, "elements per token of y", where);
  if (!positions.empty() &&
      rows_of(operation, "positions", positions, width, "elements per token of y", where) < sequence)
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
  // For each token, a row of the table is read, and one of the positions if there are any.
  const double row_reads = positions.empty() ? 1 : 2;
  const Operation operation{"embedding",
                            positions.empty() ? 0 : number(y.size()),
                            bytes(tokens) + (1 + row_reads) * bytes(y),
                            y.dtype(),
                            {&tokens, &table, &positions},
                            {&y}};
  compute_indexed(me, operation, where,
                  [&](Device& device) { device.embedding(y, tokens, table, positions, sequence); });
}

void embedding_backward(Rank me, Slice dtable, Slice dpositions, Slice dy, Slice tokens, std::size_t sequence,
                        Location where) {
  need_embedding("embedding_backward", dy, tokens, dtable, dpositions, sequence, where);
  need_distinct("embedding_backward", "dtable", dtable, "dy", dy, where);
  need_distinct("embedding_backward", "dpositions", dpositions, "dy", dy, where);
  need_distinct("embedding_backward", "dpositions", dpositions, "dtable", dtable, where);
  if (dy.empty()) return;
  const double additions = dpositions.empty() ? 1 : 2;
  const Operation operation{
      "embedding_backward", additions * number(dy.size()), bytes(tokens) + (1 + 2 * additions) * bytes(dy), dy.dtype(),
      {&dy, &tokens},       {&dtable, &dpositions}};
  compute_indexed(me, operation, where,
                  [&](Device& device) { device.embedding_backward(dtable, dpositions, dy, tokens, sequence); });
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

// FLOP per element: maximum 1, exponential and sum 3, gradient 1.
void cross_entropy(Rank me, Slice loss, Slice logits, Slice targets, float factor, Slice gradient_scale,
                   Location where) {
  need_cross_entropy("cross_entropy", loss, logits, targets, where);
  if (!gradient_scale.empty()) need_scalar("cross_entropy", "gradient_scale", gradient_scale, where);
  if (logits.empty()) return;
  const Operation operation{"cross_entropy",
                            5 * number(logits.size()),
                            2 * bytes(logits) + bytes(targets) + 2 * bytes(loss) + bytes(gradient_scale),
                            logits.dtype(),
                            {&targets, &gradient_scale},
                            {&loss, &logits}};
  compute_indexed(me, operation, where,
                  [&](Device& device) { device.cross_entropy(loss, logits, targets, factor, gradient_scale); });
}

void cross_entropy_loss(Rank me, Slice loss, Slice logits, Slice targets, float factor, Location where) {
  need_cross_entropy("cross_entropy_loss", loss, logits, targets, where);
  if (logits.empty()) return;
  const Operation operation{
      "cross_entropy_loss", 4 * number(logits.size()), bytes(logits) + bytes(targets) + 2 * bytes(loss),
      logits.dtype(),       {&logits, &targets},       {&loss}};
  compute_indexed(me, operation, where,
                  [&](Device& device) { device.cross_entropy_loss(loss, logits, targets, factor); });
}

}  // namespace lockstep
