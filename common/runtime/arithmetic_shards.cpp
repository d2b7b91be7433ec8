// Operations on a vocabulary sharded over ranks: checks and costs.
#include "common/runtime/arithmetic_front.hpp"

namespace lockstep {

using namespace front;

namespace {

void check_shard(const Call& call, const Slice& logits, std::size_t rows, VocabularyShard shard) {
  call.floating({{"logits", logits}});
  const std::size_t width = call.rows({"logits", logits}, rows, "targets");
  if (shard.count > width) call.refuse(fmt::format("a shard of {} tokens in rows of {} logits", shard.count, width));
}

}  // namespace

void shard_tokens(Rank me, Slice y, Slice x, VocabularyShard shard, Location where) {
  const Call call(me, "shard_tokens", where);
  call.dtype({"x", x}, DType::i32);
  call.same({{"y", y}}, {"x", x});
  call.apart({"y", y}, {{"x", x}});
  if (x.empty()) return;
  call.compute({number(x.size()), DType::i32}, {&x}, {&y}, [&](Device& device) { device.shard_tokens(y, x, shard); });
}

// FLOP per element: maximum 1, exponential and sum 3.
void cross_entropy_statistics(Rank me, Slice statistics, Slice logits, Slice targets, VocabularyShard shard,
                              Location where) {
  const Call call(me, "cross_entropy_statistics", where);
  call.dtype({"targets", targets}, DType::i32);
  check_shard(call, logits, targets.size(), shard);
  call.array({"statistics", statistics}, DType::f32, 2 * targets.size(), "two per target");
  if (targets.empty()) return;
  call.compute({4 * number(logits.size()), logits.dtype()}, {&logits, &targets}, {&statistics},
               [&](Device& device) { device.cross_entropy_statistics(statistics, logits, targets, shard); });
}

void cross_entropy_shard(Rank me, Slice loss, Slice logits, Slice statistics, Slice targets, VocabularyShard shard,
                         float factor, Slice gradient_scale, Location where) {
  const Call call(me, "cross_entropy_shard", where);
  call.scalar({{"loss", loss}});
  call.dtype({"targets", targets}, DType::i32);
  if (!logits.empty()) check_shard(call, logits, targets.size(), shard);
  call.dtype({"statistics", statistics}, DType::f32);
  call.rows({"statistics", statistics}, 2 * targets.size(), "two per target and shard");
  call.distinct({"loss", loss}, {{"statistics", statistics}});
  if (!gradient_scale.empty()) call.scalar({{"gradient_scale", gradient_scale}});
  if (targets.empty()) return;
  if (statistics.empty()) call.refuse("no statistics");
  const double flop = 3 * number(logits.size()) + 4 * number(statistics.size());
  call.compute({flop, logits.dtype(), bytes(loss) + bytes(logits)}, {&statistics, &targets, &gradient_scale},
               {&loss, &logits}, [&](Device& device) {
                 device.cross_entropy_shard(loss, logits, statistics, targets, shard, factor, gradient_scale);
               });
}

}  // namespace lockstep
