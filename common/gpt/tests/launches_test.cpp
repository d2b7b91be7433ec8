// Counts kernel launches on the fake GPU: they determine a step's time when kernels are short.
#include <gtest/gtest.h>

#include <memory>

#include "common/gpt/tests/model_support.hpp"
#include "common/testing/fakes/cuda/fake.hpp"

namespace lockstep::model_tests {
namespace {

using Act = std::function<void()>;

/// Launches of the second call of the function that `prepare` returns, on one rank.
double launches_of(const std::function<Act(Rank)>& prepare) {
  return run_one([&](Rank me) -> Values {
    const Act act = prepare(me);
    act();
    const std::uint64_t before = fake::launches();
    act();
    return {static_cast<double>(fake::launches() - before)};
  })[0];
}

double launches_of_adamw(std::size_t pieces) {
  return launches_of([=](Rank me) -> Act {
    std::vector<Slice> x(4);
    for (Slice& each : x) {
      each = me.allocate(3 * pieces, DType::f32, Category::optimizer);
      fill(me, each, 1);
    }
    const std::vector<AdamWPiece> table(pieces, {3, true});
    return [=] { adamw_pieces(me, x[0], x[0], x[1], x[2], x[3], table, {}); };
  });
}

TEST(Launches, OfAdamWAreOneFor256Pieces) {
  EXPECT_EQ(launches_of_adamw(1), 1);
  EXPECT_EQ(launches_of_adamw(256), 1);
  EXPECT_EQ(launches_of_adamw(257), 2);
}

double launches_of_step(std::size_t layers) {
  return launches_of([=](Rank me) -> Act {
    GptConfig config{layers, 2, 32, 64, 16};
    config.storage = DType::bf16;
    auto gpt = std::make_shared<Gpt>(me, config, 1);
    auto optimizer = std::make_shared<Optimizer>(me, gpt->parameters(), AdamW{});
    auto saved = std::make_shared<Activations>(gpt->allocate_activations(me, 2, 16));
    auto scalars = std::make_shared<StepScalars>(allocate_step_scalars(me));
    fill(me, gpt->parameters().gradients, 0);
    const Batch batch = batch_by_formula(me, 2, 16, 64);
    return [=] { serial_step(me, *gpt, *optimizer, std::span(&batch, 1), *saved, *scalars, {}); };
  });
}

TEST(Launches, OfATrainingStepGrowByTheBlockAlone) {
  const double one = launches_of_step(1), two = launches_of_step(2);
  EXPECT_EQ(two - one, 31) << "of a block, forward and backward";
  EXPECT_EQ(one - (two - one), 23) << "of embeddings, head, loss, clipping, AdamW and zeros";
}

}  // namespace
}  // namespace lockstep::model_tests
