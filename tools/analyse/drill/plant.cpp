#include "tools/analyse/drill/plant.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/support/text/counted.hpp"
#include "common/support/text/units.hpp"
#include "labs/week21_data_parallel/ddp.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::drill {
namespace {

/// One kind of arithmetic takes longer.
void slow_down(FaultyBackend& backend, const Fault& fault) {
  backend.differ({.price = [&fault](Operation& operation) {
    if (fault.operation != operation.name) return;
    operation.flop *= fault.factor;
    operation.bytes *= fault.factor;
  }});
}

/// The last microbatch's activations of one step are never sent to the next stage.
void lose_last_send(FaultyBackend& backend, const Fault& fault, const week25::Worker& worker) {
  const auto stage = static_cast<std::size_t>(worker.pipeline.group.rank());
  const Rank& down = worker.pipeline.down.at(stage);
  const int lost = (fault.step + 1) * worker.pipeline.shape.microbatches;
  backend.differ({.loses = [lost, group = down.group(), queue = down.queue(), sent = 0](
                               CommunicatorKey at, std::span<const Transfer> batch) mutable {
    if (at.group != group || at.queue != queue || batch.front().kind != Transfer::Kind::send) return false;
    return ++sent == lost;
  }});
}

/// One forward more (or less) before the first backward: 1F1B with another warm-up.
StageSchedule with_warm_up(const StageSchedule& steps, int more) {
  const auto is_forward = [](const Step& step) { return step.work == Work::forward; };
  const auto first_backward = std::find_if_not(steps.begin(), steps.end(), is_forward);
  // 1F1B's steady state begins with a forward: the last one before the first backward.
  auto warm_up = first_backward - steps.begin() - 1 + more;
  StageSchedule forwards, backwards, all;
  std::partition_copy(steps.begin(), steps.end(), std::back_inserter(forwards), std::back_inserter(backwards),
                      is_forward);
  const auto count = static_cast<std::ptrdiff_t>(forwards.size());
  warm_up = std::clamp<std::ptrdiff_t>(warm_up, 0, count);
  all.assign(forwards.begin(), forwards.begin() + warm_up);
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    if (warm_up + i < count) all.push_back(forwards[static_cast<std::size_t>(warm_up + i)]);
    all.push_back(backwards[static_cast<std::size_t>(i)]);
  }
  return all;
}

/// Gradients are averaged after every microbatch's backward, and not after the last alone. Values that are equal on all
/// ranks do not change when they are averaged again: the sums are right.
void average_always(week25::Worker& worker) {
  StageHooks hooks = worker.stage->hooks();
  hooks.end_backward = [rest = hooks.end_backward, dp = worker.mesh.dp, stage = worker.stage.get(),
                        microbatches = worker.pipeline.shape.microbatches, done = 0]() mutable {
    if (rest) rest();
    if (++done % microbatches != 0) week21::average(dp, stage->parameters().gradients, week21::ring_all_reduce);
  };
  worker.stage->use(std::move(hooks));
}

/// Norms are then of this rank's shards along that axis.
void forget_sum(const std::string& axis, week25::Worker& worker) {
  if (axis == "dp") worker.sharded = false;
  if (axis == "tp") worker.mesh.tp = worker.mesh.pp;  // of one stage: a rank alone
}

}  // namespace

StageSchedule faulty_schedule(const StageSchedule& steps, const Fault& fault) {
  if (fault.is("long-warm-up")) return with_warm_up(steps, 1);
  if (fault.is("short-warm-up")) return with_warm_up(steps, -1);
  if (!fault.is("crossed-microbatches")) return steps;
  StageSchedule crossed = steps;
  const auto one = std::find(crossed.begin(), crossed.end(), Step{Work::forward, fault.microbatch});
  const auto other = std::find(crossed.begin(), crossed.end(), Step{Work::forward, fault.microbatch + 1});
  std::iter_swap(one, other);
  return crossed;
}

void plant(const Fault& fault, int rank, FaultyBackend& backend, week25::Worker& worker) {
  if (fault.is("norm-not-summed")) forget_sum(fault.operation, worker);
  if (fault.is("sync-in-no-sync")) average_always(worker);
  if (fault.rank != rank) return;
  if (fault.is("straggler")) slow_down(backend, fault);
  if (fault.is("lost-message")) lose_last_send(backend, fault, worker);
  worker.schedule = faulty_schedule(worker.schedule, fault);
}

std::string describe(const Fault& fault) {
  const int rank = fault.rank, step = fault.step + 1, bucket = fault.bucket;
  if (fault.is("straggler"))
    return fmt::format("{} took {} times as long on rank {}", fault.operation, fault.factor, rank);
  if (fault.is("slow-loader"))
    return fmt::format("rank {} loaded {} longer in every step", rank, format_seconds(fault.seconds));
  if (fault.is("same-data")) return fmt::format("rank {} trained on the next replica's sequences", rank);
  if (fault.is("flipped-bit"))
    return fmt::format("bit {} of one number in the sum of bucket {} on rank {}, in step {}", fault.bit, bucket, rank,
                       step);
  if (fault.is("swapped-order"))
    return fmt::format("rank {} gave bucket {} where bucket {} was due, in step {}", rank, bucket + 1, bucket, step);
  if (fault.is("wrong-count"))
    return fmt::format("rank {} left out the last {} of bucket {}, in step {}", rank,
                       counted(fault.left_out, "element"), bucket, step);
  if (fault.is("long-warm-up")) return fmt::format("rank {} did one forward more before its first backward", rank);
  if (fault.is("short-warm-up")) return fmt::format("rank {} did one forward less before its first backward", rank);
  if (fault.is("crossed-microbatches"))
    return fmt::format("rank {} did F{} before F{}, in every step", rank, fault.microbatch + 1, fault.microbatch);
  if (fault.is("lost-message"))
    return fmt::format("rank {} did not send its last microbatch's activations, in step {}", rank, step);
  if (fault.is("mesh-order")) return "the axes, from the innermost, were dp, pp, tp";
  if (fault.is("norm-not-summed")) return fmt::format("squares of gradients were not summed over {}", fault.operation);
  return "all gradients were averaged after every microbatch";
}

}  // namespace lockstep::drill
