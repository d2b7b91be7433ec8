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

void check_groups(const Call& call, std::size_t heads, std::size_t kv_heads) {
  if (kv_heads != 0 && heads % kv_heads != 0)
    call.refuse(fmt::format("{} key-value heads do not divide {} heads", kv_heads, heads));
}

void check_qkv(const Call& call, const Slice& qkv, AttentionShape shape) {
  check_groups(call, shape.heads, shape.key_value_heads());
  const char* what = shape.key_value_heads() == shape.heads ? "batch × positions × 3 × heads × head_size"
                                                            : "batch × positions × (heads + 2 × kv_heads) × head_size";
  call.size({"qkv", qkv}, shape.batch * shape.positions * qkv_width(shape), what);
  call.floating({{"qkv", qkv}});
}

void check_output(const Call& call, const Slice& y, const Slice& qkv, AttentionShape shape) {
  call.array({"y", y}, qkv.dtype(), shape.batch * shape.positions * shape.heads * shape.head_size,
             "batch × positions × heads × head_size");
}

void check_attention(const Call& call, const Slice& y, const Slice& qkv, const Slice& statistics,
                     AttentionShape shape) {
  check_qkv(call, qkv, shape);
  check_output(call, y, qkv, shape);
  call.array({"statistics", statistics}, DType::f32, shape.batch * shape.positions * shape.heads,
             "batch × heads × positions");
}

/// FLOP of one causal product of scores: row i has i + 1 of them.
double causal_product(AttentionShape shape) {
  const double t = number(shape.positions);
  return number(shape.batch) * number(shape.heads) * t * (t + 1) * number(shape.head_size);
}

/// Cost of `products` causal products of scores. `more`: as in Cost.
Cost causal_products(int products, const Slice& qkv, AttentionShape shape, double more = 0) {
  return {products * causal_product(shape), qkv.dtype(), more, {shape.positions, shape.positions, shape.head_size}};
}

}  // namespace

void rotate_positions(Rank me, Slice qkv, AttentionShape shape, float base, Turn way, Location where) {
  check_qkv(Call(me, "rotate_positions", where), qkv, shape);
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
  const Call call(me, "rotate_positions", where);
  const std::size_t rows = shape.batch * shape.positions;
  call.size({"x", x}, rows * (shape.turning + shape.staying) * shape.head_size,
            "batch × positions × (turning + staying) × head_size");
  call.floating({{"x", x}});
  if (shape.head_size % 2 != 0) call.refuse(fmt::format("heads of {} channels are not whole pairs", shape.head_size));
  if (!(base > 1)) call.refuse(fmt::format("the base must be above 1, not {}", base));
  if (x.empty()) return;
  const double turned = number(rows * shape.turning * shape.head_size);
  call.compute({3 * turned, x.dtype(), 2 * turned * number(bytes_of(x.dtype())) - bytes(x)}, {}, {&x},
               [&](Device& device) { device.rotate_positions(x, shape, base, way); });
}

// Two products: scores = q·kᵀ, y = softmax(scores)·v.
void attention(Rank me, Slice y, Slice statistics, Slice qkv, AttentionShape shape, Location where) {
  const Call call(me, "attention", where);
  check_attention(call, y, qkv, statistics, shape);
  call.distinct({"y", y}, {{"qkv", qkv}});
  if (y.empty()) return;
  call.compute(causal_products(2, qkv, shape), {&qkv}, {&y, &statistics},
               [&](Device& device) { device.attention(y, statistics, qkv, shape); });
}

// Five products: the scores again, dv, the gradient of the probabilities, dq and dk.
void attention_backward(Rank me, Slice dqkv, Slice dy, Slice y, Slice qkv, Slice statistics, AttentionShape shape,
                        Location where) {
  const Call call(me, "attention_backward", where);
  check_attention(call, y, qkv, statistics, shape);
  call.same({{"dqkv", dqkv}}, {"qkv", qkv});
  call.same({{"dy", dy}}, {"y", y});
  call.distinct({"dqkv", dqkv}, {{"qkv", qkv}, {"dy", dy}, {"y", y}});
  if (y.empty()) return;
  call.compute(causal_products(5, qkv, shape), {&dy, &y, &qkv, &statistics}, {&dqkv},
               [&](Device& device) { device.attention_backward(dqkv, dy, y, qkv, statistics, shape); });
}

namespace {

/// Bytes of `width` elements per position.
double part_of_qkv(const Slice& qkv, AttentionShape shape, std::size_t width) {
  return number(shape.batch * shape.positions * width * bytes_of(qkv.dtype()));
}

/// Like check_attention, with B × h × T × T probabilities in place of the statistics.
void check_probabilities(const Call& call, const Slice& probabilities, const Slice& qkv, AttentionShape shape) {
  check_qkv(call, qkv, shape);
  call.array({"probabilities", probabilities}, qkv.dtype(),
             shape.batch * shape.positions * shape.heads * shape.positions, "batch × heads × positions × positions");
  call.distinct({"probabilities", probabilities}, {{"qkv", qkv}});
}

}  // namespace

// One product, q·kᵀ, which does not read v. q and k are at least two thirds of qkv.
void attention_probabilities(Rank me, Slice probabilities, Slice qkv, AttentionShape shape, Location where) {
  const Call call(me, "attention_probabilities", where);
  check_probabilities(call, probabilities, qkv, shape);
  if (probabilities.empty()) return;
  const double unread = part_of_qkv(qkv, shape, qkv_width(shape) - turned_width(shape));
  call.compute(causal_products(1, qkv, shape, -unread), {&qkv}, {&probabilities},
               [&](Device& device) { device.attention_probabilities(probabilities, qkv, shape); });
}

void attention_output(Rank me, Slice y, Slice probabilities, Slice qkv, AttentionShape shape, Location where) {
  const Call call(me, "attention_output", where);
  check_probabilities(call, probabilities, qkv, shape);
  check_output(call, y, qkv, shape);
  call.distinct({"y", y}, {{"qkv", qkv}, {"probabilities", probabilities}});
  if (y.empty()) return;
  Cost cost = causal_products(1, qkv, shape, -part_of_qkv(qkv, shape, turned_width(shape)));  // only v is read
  cost.mnk = {shape.positions, shape.head_size, shape.positions};
  call.compute(cost, {&qkv, &probabilities}, {&y},
               [&](Device& device) { device.attention_output(y, probabilities, qkv, shape); });
}

// Four products: dv, the gradient of the probabilities, dq and dk.
void attention_probabilities_backward(Rank me, Slice dqkv, Slice dy, Slice y, Slice probabilities, Slice qkv,
                                      AttentionShape shape, Location where) {
  const Call call(me, "attention_probabilities_backward", where);
  check_probabilities(call, probabilities, qkv, shape);
  check_output(call, y, qkv, shape);
  call.same({{"dqkv", dqkv}}, {"qkv", qkv});
  call.same({{"dy", dy}}, {"y", y});
  call.distinct({"dqkv", dqkv}, {{"qkv", qkv}, {"dy", dy}, {"y", y}, {"probabilities", probabilities}});
  if (y.empty()) return;
  call.compute(causal_products(4, qkv, shape), {&dy, &y, &qkv, &probabilities}, {&dqkv}, [&](Device& device) {
    device.attention_probabilities_backward(dqkv, dy, y, probabilities, qkv, shape);
  });
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

/// Cost of `products` of them. `updated`: bytes that are read and written.
Cost block_products(int products, const Slice& q, AttentionBlock block, double updated) {
  return {products * block_product(block), q.dtype(), updated, {block.queries, block.keys, block.head_size}};
}

/// Like check_attention, for a block; all operands but the statistics have q's dtype.
void check_block(const Call& call, const Slice& y, const Slice& statistics, const Slice& q, const Slice& kv,
                 AttentionBlock block) {
  check_groups(call, block.heads, block.key_value_heads());
  call.size({"q", q}, block.batch * block.queries * block.heads * block.head_size,
            "batch × queries × heads × head_size");
  call.size({"kv", kv}, block.batch * block.keys * 2 * block.key_value_heads() * block.head_size,
            block.key_value_heads() == block.heads ? "batch × keys × 2 × heads × head_size"
                                                   : "batch × keys × 2 × kv_heads × head_size");
  call.size({"statistics", statistics}, block.batch * block.queries * block.heads, "batch × heads × queries");
  call.same({{"y", y}}, {"q", q});
  call.dtype({"statistics", statistics}, DType::f32);
  call.dtype({"kv", kv}, q.dtype());
  call.floating({{"q", q}});
}

/// True if the last query sees the first key.
bool sees_keys(AttentionBlock block) {
  return block.queries > 0 && block.keys > 0 && block.first_query + block.queries > block.first_key;
}

}  // namespace

// Two products, as attention.
void attention_block(Rank me, Slice y, Slice statistics, Slice q, Slice kv, AttentionBlock block, Location where) {
  const Call call(me, "attention_block", where);
  check_block(call, y, statistics, q, kv, block);
  call.distinct({"y", y}, {{"q", q}, {"kv", kv}});
  if (y.empty() || !sees_keys(block)) return;
  call.compute(block_products(2, q, block, bytes(y) + bytes(statistics)), {&q, &kv}, {&y, &statistics},
               [&](Device& device) { device.attention_block(y, statistics, q, kv, block); });
}

// Five products, as attention_backward.
void attention_block_backward(Rank me, Slice dq, Slice dkv, Slice dy, Slice y, Slice statistics, Slice q, Slice kv,
                              AttentionBlock block, Location where) {
  const Call call(me, "attention_block_backward", where);
  check_block(call, y, statistics, q, kv, block);
  call.same({{"dq", dq}}, {"q", q});
  call.same({{"dkv", dkv}}, {"kv", kv});
  call.same({{"dy", dy}}, {"y", y});
  for (const Operand& output : {Operand{"dq", dq}, {"dkv", dkv}})
    call.distinct(output, {{"q", q}, {"kv", kv}, {"dy", dy}, {"y", y}});
  if (y.empty() || !sees_keys(block)) return;
  call.compute(block_products(5, q, block, bytes(dq) + bytes(dkv)), {&dy, &y, &statistics, &q, &kv}, {&dq, &dkv},
               [&](Device& device) { device.attention_block_backward(dq, dkv, dy, y, statistics, q, kv, block); });
}

}  // namespace lockstep
