// Operations on a vocabulary sharded over ranks: checks and costs.
#include "common/runtime/arithmetic_front.hpp"

namespace lockstep {

using namespace front;

namespace {

void need_shard(const char* operation, const Slice& logits, std::size_t rows, VocabularyShard shard, Location where) {
  need_floating(operation, "logits", logits, where);
  const std::size_t width = rows_of(operation, "logits", logits, rows, "targets", where);
  if (shard.count > width)
    usage_error(fmt::format("{}: a shard of {} tokens in rows of {} logits", operation, shard.count, width), where);
}

}  // namespace

void shard_tokens(Rank me, Slice y, Slice x, VocabularyShard shard, Location where) {
  need_dtype("shard_tokens", "x", x, DType::i32, where);
  need_same("shard_tokens", "y", y, "x", x, where);
  need_apart("shard_tokens", "y", y, "x", x, where);
  if (x.empty()) return;
  const Operation operation{"shard_tokens", number(x.size()), 2 * bytes(x), DType::i32, {&x}, {&y}};
  compute(me, operation, where, [&](Device& device) { device.shard_tokens(y, x, shard); });
}

// FLOP per element: maximum 1, exponential and sum 3.
void cross_entropy_statistics(Rank me, Slice statistics, Slice logits, Slice targets, VocabularyShard shard,
                              Location where) {
  need_dtype("cross_entropy_statistics", "targets", targets, DType::i32, where);
  need_shard("cross_entropy_statistics", logits, targets.size(), shard, where);
  need_size("cross_entropy_statistics", "statistics", statistics, 2 * targets.size(), "two per target", where);
  need_dtype("cross_entropy_statistics", "statistics", statistics, DType::f32, where);
  if (targets.empty()) return;
  const Operation operation{"cross_entropy_statistics",
                            4 * number(logits.size()),
                            bytes(logits) + bytes(targets) + bytes(statistics),
                            logits.dtype(),
                            {&logits, &targets},
                            {&statistics}};
  compute(me, operation, where,
          [&](Device& device) { device.cross_entropy_statistics(statistics, logits, targets, shard); });
}

void cross_entropy_shard(Rank me, Slice loss, Slice logits, Slice statistics, Slice targets, VocabularyShard shard,
                         float factor, Slice gradient_scale, Location where) {
  need_scalar("cross_entropy_shard", "loss", loss, where);
  need_dtype("cross_entropy_shard", "targets", targets, DType::i32, where);
  if (!logits.empty()) need_shard("cross_entropy_shard", logits, targets.size(), shard, where);
  need_dtype("cross_entropy_shard", "statistics", statistics, DType::f32, where);
  rows_of("cross_entropy_shard", "statistics", statistics, 2 * targets.size(), "two per target and shard", where);
  need_distinct("cross_entropy_shard", "loss", loss, "statistics", statistics, where);
  if (!gradient_scale.empty()) need_scalar("cross_entropy_shard", "gradient_scale", gradient_scale, where);
  if (targets.empty()) return;
  if (statistics.empty()) usage_error("cross_entropy_shard: no statistics", where);
  const Operation operation{
      "cross_entropy_shard",
      3 * number(logits.size()) + 4 * number(statistics.size()),
      2 * bytes(logits) + bytes(statistics) + bytes(targets) + 2 * bytes(loss) + bytes(gradient_scale),
      logits.dtype(),
      {&statistics, &targets, &gradient_scale},
      {&loss, &logits}};
  compute(me, operation, where, [&](Device& device) {
    device.cross_entropy_shard(loss, logits, statistics, targets, shard, factor, gradient_scale);
  });
}

}  // namespace lockstep
