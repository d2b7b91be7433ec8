// The front end of a GPT's layers; see arithmetic.cpp.

#include "common/runtime/arithmetic_front.hpp"

namespace lockstep {

using namespace front;

// Layers ------------------------------------------------------------------------------------------------------------

void gelu(Rank me, Slice y, Slice x, Location where) {
  const Call call(me, "gelu", where);
  call.same({{"y", y}}, {"x", x});
  call.floating({{"x", x}});
  call.apart({"y", y}, {{"x", x}});
  if (x.empty()) return;
  call.compute({kGeluFlop * number(x.size()), x.dtype()}, {&x}, {&y}, [&](Device& device) { device.gelu(y, x); });
}

void gelu_backward(Rank me, Slice dx, Slice dy, Slice x, Location where) {
  const Call call(me, "gelu_backward", where);
  call.same({{"dx", dx}, {"dy", dy}}, {"x", x});
  call.floating({{"x", x}});
  call.apart({"dx", dx}, {{"dy", dy}, {"x", x}});
  if (x.empty()) return;
  call.compute({kGeluBackwardFlop * number(x.size()), x.dtype()}, {&dy, &x}, {&dx},
               [&](Device& device) { device.gelu_backward(dx, dy, x); });
}

// FLOP per element: mean 1, variance 3, normalise 2, weight and bias 2.
void layer_norm(Rank me, Slice y, Slice statistics, Slice x, Slice weight, Slice bias, Location where) {
  const Call call(me, "layer_norm", where);
  const std::size_t rows = call.rows({"x", x}, weight.size(), "elements of weight");
  call.same({{"y", y}}, {"x", x});
  call.same({{"bias", bias}}, {"weight", weight});
  call.array({"statistics", statistics}, DType::f32, 2 * rows, "two per row of x");
  call.floating({{"x", x}, {"weight", weight}});
  call.apart({"y", y}, {{"x", x}});
  if (x.empty()) return;
  call.compute({8 * number(x.size()), x.dtype()}, {&x, &weight, &bias}, {&y, &statistics},
               [&](Device& device) { device.layer_norm(y, statistics, x, weight, bias); });
}

namespace {

/// Checks the operands that layer_norm_backward and rms_norm_backward have in common.
void check_norm_backward(const Call& call, const Slice& dx, const Slice& dweight, const Slice& dy, const Slice& x,
                         const Slice& weight) {
  call.same({{"dx", dx}, {"dy", dy}}, {"x", x});
  call.size({"dweight", dweight}, weight.size(), "as weight");
  call.floating({{"x", x}, {"weight", weight}, {"dweight", dweight}});
  call.apart({"dx", dx}, {{"dy", dy}, {"x", x}});
}

}  // namespace

void layer_norm_backward(Rank me, Slice dx, Slice dweight, Slice dbias, Slice dy, Slice x, Slice weight,
                         Slice statistics, Into into, Location where) {
  const Call call(me, "layer_norm_backward", where);
  const std::size_t rows = call.rows({"x", x}, weight.size(), "elements of weight");
  check_norm_backward(call, dx, dweight, dy, x, weight);
  call.same({{"dbias", dbias}}, {"dweight", dweight});
  call.array({"statistics", statistics}, DType::f32, 2 * rows, "two per row of x");
  if (x.empty()) return;
  const double added = bytes(dweight) + bytes(dbias) + (into == Into::accumulate ? bytes(dx) : 0);
  call.compute(
      {14 * number(x.size()), x.dtype(), added}, {&dy, &x, &weight, &statistics}, {&dx, &dweight, &dbias},
      [&](Device& device) { device.layer_norm_backward(dx, dweight, dbias, dy, x, weight, statistics, into); });
}

// FLOP per element: squares 2, normalise and weight 2.
void rms_norm(Rank me, Slice y, Slice statistics, Slice x, Slice weight, Location where) {
  const Call call(me, "rms_norm", where);
  const std::size_t rows = call.rows({"x", x}, weight.size(), "elements of weight");
  call.same({{"y", y}}, {"x", x});
  call.array({"statistics", statistics}, DType::f32, rows, "one per row of x");
  call.floating({{"x", x}, {"weight", weight}});
  call.apart({"y", y}, {{"x", x}});
  if (x.empty()) return;
  call.compute({4 * number(x.size()), x.dtype()}, {&x, &weight}, {&y, &statistics},
               [&](Device& device) { device.rms_norm(y, statistics, x, weight); });
}

void rms_norm_backward(Rank me, Slice dx, Slice dweight, Slice dy, Slice x, Slice weight, Slice statistics, Into into,
                       Location where) {
  const Call call(me, "rms_norm_backward", where);
  const std::size_t rows = call.rows({"x", x}, weight.size(), "elements of weight");
  check_norm_backward(call, dx, dweight, dy, x, weight);
  call.array({"statistics", statistics}, DType::f32, rows, "one per row of x");
  if (x.empty()) return;
  const double added = bytes(dweight) + (into == Into::accumulate ? bytes(dx) : 0);
  call.compute({10 * number(x.size()), x.dtype(), added}, {&dy, &x, &weight, &statistics}, {&dx, &dweight},
               [&](Device& device) { device.rms_norm_backward(dx, dweight, dy, x, weight, statistics, into); });
}

namespace {

void check_swiglu(const Call& call, Operand y, const Slice& x, std::size_t width) {
  call.floating({{"x", x}});
  const std::size_t rows = call.rows({"x", x}, 2 * width, "the gate's and up's width");
  call.array(y, x.dtype(), rows * width, "half of x");
}

}  // namespace

// FLOP per element of y: exponential, add, divide and two multiplications; backward nine.
void swiglu(Rank me, Slice y, Slice x, std::size_t width, Location where) {
  const Call call(me, "swiglu", where);
  check_swiglu(call, {"y", y}, x, width);
  call.distinct({"y", y}, {{"x", x}});
  if (y.empty()) return;
  call.compute({5 * number(y.size()), x.dtype()}, {&x}, {&y}, [&](Device& device) { device.swiglu(y, x, width); });
}

void swiglu_backward(Rank me, Slice dx, Slice dy, Slice x, std::size_t width, Location where) {
  const Call call(me, "swiglu_backward", where);
  check_swiglu(call, {"dy", dy}, x, width);
  call.same({{"dx", dx}}, {"x", x});
  call.distinct({"dx", dx}, {{"dy", dy}});
  call.apart({"dx", dx}, {{"x", x}});
  if (dy.empty()) return;
  call.compute({9 * number(dy.size()), x.dtype()}, {&dy, &x}, {&dx},
               [&](Device& device) { device.swiglu_backward(dx, dy, x, width); });
}

namespace {

void check_embedding(const Call& call, Operand y, const Slice& tokens, Operand table, Operand positions,
                     std::size_t sequence) {
  call.dtype({"tokens", tokens}, DType::i32);
  call.floating({table, y, positions});
  if (tokens.empty()) return call.size(y, 0, "no tokens");
  if (sequence == 0 || tokens.size() % sequence != 0)
    call.refuse(fmt::format("{} tokens are not whole sequences of {}", tokens.size(), sequence));
  const std::size_t width = call.rows(y, tokens.size(), "tokens");
  call.rows(table, width, "elements per token of y");
  if (positions.slice.empty()) return;
  if (const std::size_t count = call.rows(positions, width, "elements per token of y"); count < sequence)
    call.refuse(fmt::format("{} positions for sequences of {}", count, sequence));
}

}  // namespace

void embedding(Rank me, Slice y, Slice tokens, Slice table, Slice positions, std::size_t sequence, Location where) {
  const Call call(me, "embedding", where);
  check_embedding(call, {"y", y}, tokens, {"table", table}, {"positions", positions}, sequence);
  call.distinct({"y", y}, {{"table", table}, {"positions", positions}});
  if (y.empty()) return;
  // For each token, a row of the table is read, and one of the positions if there are any.
  const double rows = (positions.empty() ? 1 : 2) * bytes(y) - bytes(table) - bytes(positions);
  call.compute_indexed({positions.empty() ? 0 : number(y.size()), y.dtype(), rows}, {&tokens, &table, &positions}, {&y},
                       [&](Device& device) { device.embedding(y, tokens, table, positions, sequence); });
}

void embedding_backward(Rank me, Slice dtable, Slice dpositions, Slice dy, Slice tokens, std::size_t sequence,
                        Location where) {
  const Call call(me, "embedding_backward", where);
  check_embedding(call, {"y", dy}, tokens, {"table", dtable}, {"positions", dpositions}, sequence);
  call.distinct({"dtable", dtable}, {{"dy", dy}});
  call.distinct({"dpositions", dpositions}, {{"dy", dy}, {"dtable", dtable}});
  if (dy.empty()) return;
  const double additions = dpositions.empty() ? 1 : 2;
  const double rows = 2 * additions * bytes(dy) - bytes(dtable) - bytes(dpositions);  // read and written
  call.compute_indexed({additions * number(dy.size()), dy.dtype(), rows}, {&dy, &tokens}, {&dtable, &dpositions},
                       [&](Device& device) { device.embedding_backward(dtable, dpositions, dy, tokens, sequence); });
}

namespace {

void check_cross_entropy(const Call& call, const Slice& loss, const Slice& logits, const Slice& targets) {
  call.scalar({{"loss", loss}});
  call.floating({{"logits", logits}});
  call.dtype({"targets", targets}, DType::i32);
  call.rows({"logits", logits}, targets.size(), "targets");
  call.distinct({"loss", loss}, {{"logits", logits}});
}

}  // namespace

// FLOP per element: maximum 1, exponential and sum 3, gradient 1.
void cross_entropy(Rank me, Slice loss, Slice logits, Slice targets, float factor, Slice gradient_scale,
                   Location where) {
  const Call call(me, "cross_entropy", where);
  check_cross_entropy(call, loss, logits, targets);
  if (!gradient_scale.empty()) call.scalar({{"gradient_scale", gradient_scale}});
  if (logits.empty()) return;
  call.compute_indexed({5 * number(logits.size()), logits.dtype(), bytes(loss) + bytes(logits)},
                       {&targets, &gradient_scale}, {&loss, &logits},
                       [&](Device& device) { device.cross_entropy(loss, logits, targets, factor, gradient_scale); });
}

void cross_entropy_loss(Rank me, Slice loss, Slice logits, Slice targets, float factor, Location where) {
  const Call call(me, "cross_entropy_loss", where);
  check_cross_entropy(call, loss, logits, targets);
  if (logits.empty()) return;
  call.compute_indexed({4 * number(logits.size()), logits.dtype(), bytes(loss)}, {&logits, &targets}, {&loss},
                       [&](Device& device) { device.cross_entropy_loss(loss, logits, targets, factor); });
}

}  // namespace lockstep
