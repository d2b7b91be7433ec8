// The front of attention: checks and prices; see arithmetic.cpp.
#include <utility>

#include "common/runtime/arithmetic_front.hpp"

namespace lockstep {

using namespace front;

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
                            {&qkv},
                            {&y, &statistics},
                            true,
                            {shape.positions, shape.positions, shape.head_size}};
  compute(me, operation, where, [&](Device& device) { device.attention(y, statistics, qkv, shape); });
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
                            {&dy, &y, &qkv, &statistics},
                            {&dqkv},
                            true,
                            {shape.positions, shape.positions, shape.head_size}};
  compute(me, operation, where,
          [&](Device& device) { device.attention_backward(dqkv, dy, y, qkv, statistics, shape); });
}

namespace {

/// As need_attention, for B × h × T × T probabilities instead of the statistics.
void need_probabilities(const char* operation, const Slice& probabilities, const Slice& qkv, AttentionShape shape,
                        Location where) {
  const std::size_t rows = shape.batch * shape.positions, width = shape.heads * shape.head_size;
  need_size(operation, "qkv", qkv, rows * 3 * width, "batch × positions × 3 × heads × head_size", where);
  need_size(operation, "probabilities", probabilities, rows * shape.heads * shape.positions,
            "batch × heads × positions × positions", where);
  need_dtype(operation, "probabilities", probabilities, qkv.dtype(), where);
  need_floating(operation, "qkv", qkv, where);
  need_distinct(operation, "probabilities", probabilities, "qkv", qkv, where);
}

void need_output(const char* operation, const char* name, const Slice& y, const Slice& qkv, Location where) {
  need_size(operation, name, y, qkv.size() / 3, "batch × positions × heads × head_size", where);
  need_dtype(operation, name, y, qkv.dtype(), where);
}

}  // namespace

// One product, q·kᵀ: q and k are two thirds of qkv.
void attention_probabilities(Rank me, Slice probabilities, Slice qkv, AttentionShape shape, Location where) {
  need_probabilities("attention_probabilities", probabilities, qkv, shape, where);
  if (probabilities.empty()) return;
  const Operation operation{"attention_probabilities",
                            causal_product(shape),
                            bytes(qkv) / 3 * 2 + bytes(probabilities),
                            qkv.dtype(),
                            {&qkv},
                            {&probabilities},
                            true,
                            {shape.positions, shape.positions, shape.head_size}};
  compute(me, operation, where, [&](Device& device) { device.attention_probabilities(probabilities, qkv, shape); });
}

void attention_output(Rank me, Slice y, Slice probabilities, Slice qkv, AttentionShape shape, Location where) {
  need_probabilities("attention_output", probabilities, qkv, shape, where);
  need_output("attention_output", "y", y, qkv, where);
  need_distinct("attention_output", "y", y, "qkv", qkv, where);
  need_distinct("attention_output", "y", y, "probabilities", probabilities, where);
  if (y.empty()) return;
  const Operation operation{"attention_output",
                            causal_product(shape),
                            bytes(qkv) / 3 + bytes(probabilities) + bytes(y),
                            qkv.dtype(),
                            {&qkv, &probabilities},
                            {&y},
                            true,
                            {shape.positions, shape.head_size, shape.positions}};
  compute(me, operation, where, [&](Device& device) { device.attention_output(y, probabilities, qkv, shape); });
}

void attention_probabilities_backward(Rank me, Slice dqkv, Slice dy, Slice y, Slice probabilities, Slice qkv,
                                      AttentionShape shape, Location where) {
  constexpr const char* kName = "attention_probabilities_backward";
  need_probabilities(kName, probabilities, qkv, shape, where);
  need_output(kName, "y", y, qkv, where);
  need_same(kName, "dqkv", dqkv, "qkv", qkv, where);
  need_same(kName, "dy", dy, "y", y, where);
  for (const auto& [name, slice] : {std::pair{"qkv", &qkv}, {"dy", &dy}, {"y", &y}, {"probabilities", &probabilities}})
    need_distinct(kName, "dqkv", dqkv, name, *slice, where);
  if (y.empty()) return;
  // Four products: dv, the gradient of the probabilities, dq and dk.
  const Operation operation{kName,
                            4 * causal_product(shape),
                            bytes(dqkv) + bytes(dy) + bytes(y) + bytes(qkv) + bytes(probabilities),
                            qkv.dtype(),
                            {&dy, &y, &qkv, &probabilities},
                            {&dqkv},
                            true,
                            {shape.positions, shape.positions, shape.head_size}};
  compute(me, operation, where,
          [&](Device& device) { device.attention_probabilities_backward(dqkv, dy, y, probabilities, qkv, shape); });
}

}  // namespace lockstep
