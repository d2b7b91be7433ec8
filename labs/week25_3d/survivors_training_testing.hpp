// The run in which a rank dies, of the tests of exercise 25.8: in the simulator, and of processes that are killed.
#pragma once

#include <vector>

#include "common/arithmetic.hpp"
#include "labs/week21_data_parallel/ddp_gpt_testing.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week25::survivors_test {

constexpr std::size_t kSequences = 6;

/// A data-parallel GPT whose optimizer is sharded; its losses are those of the whole batch, whatever the number of
/// ranks.
struct Training {
  Training(Rank me) : gpt(me, week21::small_gpt(), 0) { begin(me); }

  /// New, empty shards for this group.
  void begin(Rank group) {
    const std::size_t size = chunk(gpt.parameters().values, group.rank(), group.size()).size();
    shard = {chunk(gpt.parameters().values, group.rank(), group.size()),
             group.allocate(size, DType::f32, Category::optimizer),
             group.allocate(size, DType::f32, Category::optimizer)};
    for (std::size_t a : {1, 2}) fill(group, shard[a], 0);
  }
  /// Step number `step`, from 1; returns the loss before it.
  double step(Rank group, int step) {
    const Parameters& parameters = gpt.parameters();
    const double loss = week21::gpt_loss(group, gpt, week21::gpt_batch(group, step, 0, kSequences));
    const ChunkRange mine = chunk_range(kSequences, group.rank(), group.size());
    fill(group, parameters.gradients, 0);
    week21::gpt_pass(group, gpt, week21::gpt_batch(group, step, mine.offset, mine.size),
                     static_cast<float>(mine.size) / static_cast<float>(kSequences), [](std::size_t) {});
    week21::ring_all_reduce(group, parameters.gradients);
    adamw(group, shard[0], shard[0], shard[1], shard[2], chunk(parameters.gradients, group.rank(), group.size()),
          {.learning_rate = 0.03f, .epsilon = 1e-3f, .weight_decay = 0.1f, .step = step});
    gather(group);
    return loss;
  }

  /// Every rank gets all weights from their shards.
  void gather(Rank group) { week21::ring_all_gather(group, gpt.parameters().values); }
  std::size_t count() const { return gpt.parameters().count(); }

  Gpt gpt;
  std::vector<Slice> shard;
};

}  // namespace lockstep::week25::survivors_test
