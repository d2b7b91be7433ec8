// The front end of attention: checks and costs; see arithmetic.cpp.
#include <algorithm>
#include <utility>

#include "common/runtime/arithmetic_front.hpp"

namespace lockstep {

using namespace front;

namespace {

/// Elements of qkv per position, and elements of its q and k.
std::size_t qkv_width(AttentionShape shape) { return (shape.heads + 2 * shape.key_value_heads()) * shape.head_size; }
std::size_t turned_width(AttentionShape shape) { return (shape.heads + shape.key_value_heads()) * shape.head_size; }

void need_groups(const char* operation, std::size_t heads, std::size_t kv_heads, Location where) {
  if (kv_heads != 0 && heads % kv_heads != 0)
    usage_error(fmt::format("{}: {} key-value heads do not divide {} heads", operation, kv_heads, heads), where);
}

void need_qkv(const char* operation, const Slice& qkv, AttentionShape shape, Location where) {
  need_groups(operation, shape.heads, shape.key_value_heads(), where);
  const char* what = shape.key_value_heads() == shape.heads ? "batch × positions × 3 × heads × head_size"
                                                            : "batch × positions × (heads + 2 × kv_heads) × head_size";
  need_size(operation, "qkv", qkv, shape.batch * shape.positions * qkv_width(shape), what, where);
  need_floating(operation, "qkv", qkv, where);
}

void need_attention(const char* operation, const Slice& y, const Slice& qkv, const Slice& statistics,
                    AttentionShape shape, Location where) {
  const std::size_t rows = shape.batch * shape.positions, width = shape.heads * shape.head_size;
  need_qkv(operation, qkv, shape, where);
  need_size(operation, "y", y, rows * width, "batch × positions × heads × head_size", where);
  need_size(operation, "statistics", statistics, rows * shape.heads, "batch × heads × positions", where);
  need_dtype(operation, "statistics", statistics, DType::f32, where);
  need_dtype(operation, "y", y, qkv.dtype(), where);
}

/// FLOP of one causal product of scores: row i has i + 1 of them.
double causal_product(AttentionShape shape) {
  const double t = number(shape.positions);
  return number(shape.batch) * number(shape.heads) * t * (t + 1) * number(shape.head_size);
}

}  // namespace

void rotate_positions(Rank me, Slice qkv, AttentionShape shape, float base, Turn way, Location where) {
  need_qkv("rotate_positions", qkv, shape, where);
  const std::size_t kv_heads = shape.key_value_heads();
  rotate_positions(me, std::move(qkv),
                   RotaryShape{.batch = shape.batch,
                               .positions = shape.positions,
                               .turning = shape.heads + kv_heads,
                               .staying = kv_heads,
                               .head_size = shape.head_size},
                   base, way, where);
}

// Six FLOP per pair of channels.
void rotate_positions(Rank me, Slice x, RotaryShape shape, float base, Turn way, Location where) {
  const std::size_t rows = shape.batch * shape.positions;
  need_size("rotate_positions", "x", x, rows * (shape.turning + shape.staying) * shape.head_size,
            "batch × positions × (turning + staying) × head_size", where);
  need_floating("rotate_positions", "x", x, where);
  if (shape.head_size % 2 != 0)
    usage_error(fmt::format("rotate_positions: heads of {} channels are not whole pairs", shape.head_size), where);
  if (!(base > 1)) usage_error(fmt::format("rotate_positions: the base must be above 1, not {}", base), where);
  if (x.empty()) return;
  const double turned = number(rows * shape.turning * shape.head_size);
  const Operation operation{"rotate_positions", 3 * turned, 2 * turned * number(bytes_of(x.dtype())),
                            x.dtype(),          {},         {&x}};
  compute(me, operation, where, [&](Device& device) { device.rotate_positions(x, shape, base, way); });
}

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

/// Bytes of `width` elements per position.
double part_of_qkv(const Slice& qkv, AttentionShape shape, std::size_t width) {
  return number(shape.batch * shape.positions * width * bytes_of(qkv.dtype()));
}

/// Like need_attention, with B × h × T × T probabilities in place of the statistics.
void need_probabilities(const char* operation, const Slice& probabilities, const Slice& qkv, AttentionShape shape,
                        Location where) {
  const std::size_t rows = shape.batch * shape.positions;
  need_qkv(operation, qkv, shape, where);
  need_size(operation, "probabilities", probabilities, rows * shape.heads * shape.positions,
            "batch × heads × positions × positions", where);
  need_dtype(operation, "probabilities", probabilities, qkv.dtype(), where);
  need_distinct(operation, "probabilities", probabilities, "qkv", qkv, where);
}

void need_output(const char* operation, const char* name, const Slice& y, const Slice& qkv, AttentionShape shape,
                 Location where) {
  need_size(operation, name, y, shape.batch * shape.positions * shape.heads * shape.head_size,
            "batch × positions × heads × head_size", where);
  need_dtype(operation, name, y, qkv.dtype(), where);
}

}  // namespace

// One product, q·kᵀ. q and k are at least two thirds of qkv.
void attention_probabilities(Rank me, Slice probabilities, Slice qkv, AttentionShape shape, Location where) {
  need_probabilities("attention_probabilities", probabilities, qkv, shape, where);
  if (probabilities.empty()) return;
  const Operation operation{"attention_probabilities",
                            causal_product(shape),
                            part_of_qkv(qkv, shape, turned_width(shape)) + bytes(probabilities),
                            qkv.dtype(),
                            {&qkv},
                            {&probabilities},
                            true,
                            {shape.positions, shape.positions, shape.head_size}};
  compute(me, operation, where, [&](Device& device) { device.attention_probabilities(probabilities, qkv, shape); });
}

void attention_output(Rank me, Slice y, Slice probabilities, Slice qkv, AttentionShape shape, Location where) {
  need_probabilities("attention_output", probabilities, qkv, shape, where);
  need_output("attention_output", "y", y, qkv, shape, where);
  need_distinct("attention_output", "y", y, "qkv", qkv, where);
  need_distinct("attention_output", "y", y, "probabilities", probabilities, where);
  if (y.empty()) return;
  const Operation operation{
      "attention_output",
      causal_product(shape),
      part_of_qkv(qkv, shape, qkv_width(shape) - turned_width(shape)) + bytes(probabilities) + bytes(y),
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
  need_output(kName, "y", y, qkv, shape, where);
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

namespace {

/// FLOP of one product of scores: one score for each query and each key that it sees.
double block_product(AttentionBlock block) {
  const double queries = number(block.queries), keys = number(block.keys);
  const double ahead = number(block.first_query) - number(block.first_key);  // query t sees ahead + t + 1 keys
  const double from = std::clamp(-ahead - 1, 0.0, queries);        // index of the first query that sees any key
  const double full = std::clamp(keys - ahead - 1, 0.0, queries);  // queries from this one on see all keys
  const double in_part = full > from ? (full - from) * (2 * ahead + from + full + 1) / 2 : 0;
  return 2 * number(block.batch) * number(block.heads) * number(block.head_size) * (in_part + (queries - full) * keys);
}

/// Like need_attention, for a block; all operands but the statistics have q's dtype.
void need_block(const char* operation, const Slice& y, const Slice& statistics, const Slice& q, const Slice& kv,
                AttentionBlock block, Location where) {
  need_groups(operation, block.heads, block.key_value_heads(), where);
  need_size(operation, "q", q, block.batch * block.queries * block.heads * block.head_size,
            "batch × queries × heads × head_size", where);
  need_size(operation, "kv", kv, block.batch * block.keys * 2 * block.key_value_heads() * block.head_size,
            block.key_value_heads() == block.heads ? "batch × keys × 2 × heads × head_size"
                                                   : "batch × keys × 2 × kv_heads × head_size",
            where);
  need_size(operation, "statistics", statistics, block.batch * block.queries * block.heads, "batch × heads × queries",
            where);
  need_same(operation, "y", y, "q", q, where);
  need_dtype(operation, "statistics", statistics, DType::f32, where);
  need_dtype(operation, "kv", kv, q.dtype(), where);
  need_floating(operation, "q", q, where);
}

/// True if the last query sees the first key.
bool sees_keys(AttentionBlock block) {
  return block.queries > 0 && block.keys > 0 && block.first_query + block.queries > block.first_key;
}

}  // namespace

void attention_block(Rank me, Slice y, Slice statistics, Slice q, Slice kv, AttentionBlock block, Location where) {
  need_block("attention_block", y, statistics, q, kv, block, where);
  for (const auto& [name, slice] : {std::pair{"q", &q}, {"kv", &kv}})
    need_distinct("attention_block", "y", y, name, *slice, where);
  if (y.empty() || !sees_keys(block)) return;
  // Two products, as attention; y and the statistics are read and written.
  const Operation operation{"attention_block",
                            2 * block_product(block),
                            bytes(q) + bytes(kv) + 2 * (bytes(y) + bytes(statistics)),
                            q.dtype(),
                            {&q, &kv},
                            {&y, &statistics},
                            true,
                            {block.queries, block.keys, block.head_size}};
  compute(me, operation, where, [&](Device& device) { device.attention_block(y, statistics, q, kv, block); });
}

void attention_block_backward(Rank me, Slice dq, Slice dkv, Slice dy, Slice y, Slice statistics, Slice q, Slice kv,
                              AttentionBlock block, Location where) {
  constexpr const char* kName = "attention_block_backward";
  need_block(kName, y, statistics, q, kv, block, where);
  need_same(kName, "dq", dq, "q", q, where);
  need_same(kName, "dkv", dkv, "kv", kv, where);
  need_same(kName, "dy", dy, "y", y, where);
  for (const auto& [name, slice] : {std::pair{"q", &q}, {"kv", &kv}, {"dy", &dy}, {"y", &y}}) {
    need_distinct(kName, "dq", dq, name, *slice, where);
    need_distinct(kName, "dkv", dkv, name, *slice, where);
  }
  if (y.empty() || !sees_keys(block)) return;
  // Five products, as attention_backward; dq and dkv are read and written.
  const Operation operation{
      kName,
      5 * block_product(block),
      2 * (bytes(dq) + bytes(dkv)) + bytes(dy) + bytes(y) + bytes(statistics) + bytes(q) + bytes(kv),
      q.dtype(),
      {&dy, &y, &statistics, &q, &kv},
      {&dq, &dkv},
      true,
      {block.queries, block.keys, block.head_size}};
  compute(me, operation, where,
          [&](Device& device) { device.attention_block_backward(dq, dkv, dy, y, statistics, q, kv, block); });
}

}  // namespace lockstep
