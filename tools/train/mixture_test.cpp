// A model with experts (--model tiny-moe): its gradients, the same run on any number of replicas, and its checkpoints.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "common/gpt/checkpoint/reader.hpp"
#include "common/gpt/model/layers.hpp"
#include "labs/week23_tensor_parallel/expert_capacity.hpp"
#include "tools/train/checkpoint_testing.hpp"
#include "tools/train/expert_layers.hpp"

namespace lockstep::train {
namespace {

TrainRequest mixture_run(int ranks, int steps = 8) {
  TrainRequest options = small_run();
  options.model = "tiny-moe";
  options.ranks = ranks;
  options.steps = steps;
  return options;
}

/// The sum of all blocks' balance losses, with the load of the first call.
class BalanceLosses {
 public:
  double of(Rank me, const GptConfig& config, const Parameters& all, const Activations& saved) {
    double sum = 0;
    std::size_t layer = 0;
    for (const Parameter& tensor : all.list) {
      if (mixture_part(tensor) != MixturePart::router) continue;
      const std::size_t experts = config.architecture.experts, rows = saved.sequences * saved.length;
      const Slice logits = me.allocate(rows * experts, DType::f32, Category::buffer);
      linear(me, logits, saved.blocks[layer].norm2, all.values.cut(tensor.offset, tensor.size), {}, rows);
      const week23::Routing routing = week23::route(to_host(me, logits), experts, config.architecture.top_k);
      if (loads_.size() == layer) loads_.push_back(week23::load_of(me, routing.experts, experts));
      sum += static_cast<double>(week23::balance_loss(routing, loads_[layer++]));
    }
    return sum;
  }

 private:
  std::vector<std::vector<float>> loads_;
};

void expect_gradients_of_the_loss(float balance) {
  const Outcome outcome = run({.ranks = 1, .check_races = true}, [=](Rank me) -> Values {
    GptConfig config = tiny_mixture();
    config.d_model = 16;
    config.vocabulary = 32;
    Gpt gpt(me, config, 3);
    gpt.use(mixture_code({.balance = balance / 24}).layers(me, config));
    Activations saved = gpt.allocate_activations(me, 2, 12);
    const Batch batch{me.allocate(24, DType::i32, Category::buffer), me.allocate(24, DType::i32, Category::buffer), 2,
                      12};
    std::vector<std::int32_t> tokens, targets;
    for (int i = 0; i < 24; ++i) tokens.push_back(i * 7 % 32), targets.push_back(i * 11 % 32);
    upload(me, batch.tokens, tokens);
    upload(me, batch.targets, targets);
    const Slice loss = me.allocate(1, DType::f32, Category::buffer);
    Parameters& all = gpt.parameters();
    BalanceLosses balances;
    const auto forward = [&] {
      gpt.forward(me, batch, saved);
      fill(me, loss, 0);
      cross_entropy(me, loss, saved.logits, batch.targets, 1.0f / 24);
      return static_cast<double>(read(me, loss, 0)) +
             static_cast<double>(balance) * balances.of(me, config, all, saved);
    };
    std::vector<float> values = to_host(me, all.values);
    for (float& value : values) value *= 2;  // far from where all rows are equal
    upload(me, all.values, values);
    forward();
    gpt.backward(me, batch, saved);
    const std::vector<float> gradients = to_host(me, all.gradients);
    Values found;
    for (const Parameter& tensor : all.list) {
      double squares = 0;
      for (std::size_t i = tensor.offset; i < tensor.offset + tensor.size; ++i)
        squares += static_cast<double>(gradients[i]) * gradients[i];
      const double length = std::sqrt(squares);
      const auto at = [&](double distance) {
        std::vector<float> moved = values;
        for (std::size_t i = tensor.offset; i < tensor.offset + tensor.size; ++i)
          moved[i] += static_cast<float>(distance * gradients[i] / length);
        upload(me, all.values, moved);
        return forward();
      };
      const double step = std::min(2e-3, 5e-3 / length);
      found.insert(found.end(), {length, (at(step) - at(-step)) / (2 * step)});
    }
    return found;
  });
  outcome.check();
  GptConfig config = tiny_mixture();
  config.d_model = 16;
  config.vocabulary = 32;
  const std::vector<Parameter> table = gpt_parameter_table(config);
  for (std::size_t i = 0; i < table.size(); ++i) {
    const double length = outcome.values[0][2 * i], slope = outcome.values[0][2 * i + 1];
    EXPECT_NEAR(slope, length, 0.02 * length + 1e-3) << table[i].name;
    EXPECT_GT(length, 1e-4) << table[i].name;
  }
}

// The loss along each tensor's gradient: its slope is the gradient's length.
TEST(Mixture, GradientsAreThoseOfTheLoss) { expect_gradients_of_the_loss(0); }
TEST(Mixture, GradientsAreThoseOfTheLossWithItsBalance) { expect_gradients_of_the_loss(2); }

// With SGD, unlike AdamW, a gradient of the wrong size shows, and so does a clip by a norm that counts experts wrongly.
TEST(Mixture, ReplicasThatShareExpertsAreTheSerialRun) {
  for (const double clip : {0.0, 0.05, 1.0})
    for (const int microbatches : {1, 3}) {
      const auto trained = [&](int ranks) {
        TrainRequest options = mixture_run(ranks, 5);
        options.batch = 13;  // not the same on every rank
        options.optimizer = "sgd";
        options.learning_rate = 0.5;
        options.warmup = 0;
        options.clip = clip;
        options.microbatches = microbatches;
        return train(options);
      };
      const Trained serial = trained(1);
      EXPECT_LT(serial.losses.back(), serial.losses.front() - (clip == 0.05 ? 0.001 : 0.05));
      for (const int ranks : {2, 4}) {
        const Trained seen = trained(ranks);
        for (std::size_t i = 0; i < serial.losses.size(); ++i) {
          EXPECT_NEAR(seen.losses[i] / serial.losses[i], 1, 2e-5) << ranks << " ranks, clip " << clip << ", step " << i;
          if (clip > 0) {
            EXPECT_NEAR(seen.norms[i] / serial.norms[i], 1, 2e-4) << ranks << " ranks, clip " << clip << ", step " << i;
          }
        }
        EXPECT_NEAR(seen.squares[0] / serial.squares[0], 1, 1e-5);
        EXPECT_NEAR(seen.validation / serial.validation, 1, 2e-5);
      }
    }
}

TrainRequest balanced_run(int ranks) {
  TrainRequest options = mixture_run(ranks, 5);
  options.batch = 13;
  options.optimizer = "sgd";
  options.learning_rate = 0.5;
  options.warmup = 0;
  options.balance_loss = 0.1;
  return options;
}

TEST(Mixture, TheBalanceLossIsThatOfAllReplicas) {
  const Trained serial = train(balanced_run(1));
  TrainRequest without = balanced_run(1);
  without.balance_loss = 0;
  EXPECT_GT(std::abs(serial.losses.back() / train(without).losses.back() - 1), 1e-4);
  for (const int ranks : {2, 4}) {
    const Trained seen = train(balanced_run(ranks));
    for (std::size_t i = 0; i < serial.losses.size(); ++i)
      EXPECT_NEAR(seen.losses[i] / serial.losses[i], 1, 2e-5) << ranks << " ranks, step " << i;
  }
}

TEST(Mixture, ACapacityBoundsWhatARankComputes) {
  const auto computed = [](double factor) {
    TrainRequest options = mixture_run(4, 3);
    options.capacity_factor = factor;
    const Trained trained = train(options);
    std::vector<std::uint64_t> bytes;
    for (const RankLedger& ledger : trained.outcome.ledgers) bytes.push_back(ledger.region(kExpertsBackward)->bytes);
    return std::pair(trained.losses, bytes);
  };
  const auto [all, rows] = computed(0);
  EXPECT_EQ(computed(4), std::pair(all, rows)) << "nothing is above it";
  const auto [losses, kept] = computed(0.5);
  EXPECT_NE(losses, all);
  const std::uint64_t even = std::accumulate(rows.begin(), rows.end(), std::uint64_t{0}) / 4;
  for (const std::uint64_t bytes : kept) EXPECT_LE(bytes, even / 2);
}

TEST(Mixture, ExpertsAreOnOneRankEach) {
  const Trained serial = train(mixture_run(1, 1)), four = train(mixture_run(4, 1));
  const std::vector<Parameter> table = gpt_parameter_table(tiny_mixture());
  std::size_t all = 0, own = 0;
  for (const Parameter& tensor : table) {
    all += tensor.size;
    own += mixture_part(tensor) == MixturePart::expert ? tensor.size / 4 : tensor.size;
  }
  EXPECT_EQ(tiny_mixture().parameters(), all);
  EXPECT_EQ(serial.outcome.ledgers[0].memory.peak_of(Category::parameter), 4 * all);
  for (const RankLedger& ledger : four.outcome.ledgers) {
    EXPECT_EQ(ledger.memory.peak_of(Category::parameter), 4 * own);
    EXPECT_EQ(ledger.memory.peak_of(Category::optimizer), 8 * own);
  }
}

TEST_F(Saved, AMixtureGoesOnWithOtherRanks) {
  for (const int written : {1, 2, 4}) {
    checkpoint::MemoryFiles files;
    TrainRequest half = mixture_run(written, 4);
    half.checkpoint = path("half");
    train_with(half, files);
    std::size_t elements = 0;
    for (const auto& shard : checkpoint::read_manifest(files, path("half/step-00000004")).shards)
      elements += checkpoint::elements_of(shard.pieces);
    EXPECT_EQ(elements, make_plan(mixture_run(1), 0).step.model.parameters()) << "each once, by " << written;
    for (const int read : {1, 2, 4}) {
      const Trained whole = train(mixture_run(read));
      TrainRequest rest = mixture_run(read);
      rest.resume = path("half");
      const Trained resumed = train_with(rest, files);
      ASSERT_EQ(resumed.losses.size(), 4U);
      for (std::size_t i = 0; i < 4; ++i) {
        if (read == written) {
          EXPECT_EQ(resumed.losses[i], whole.losses[4 + i]) << read << " ranks";
        } else {
          EXPECT_NEAR(resumed.losses[i] / whole.losses[4 + i], 1, 2e-5) << written << " to " << read << " ranks";
        }
      }
    }
  }
}

TEST(Mixture, RefusesWhatItDoesNotDo) {
  const auto refusal = [](const std::function<void(TrainRequest&)>& change) -> std::string {
    TrainRequest options = mixture_run(2);
    change(options);
    try {
      make_plan(options, 0);
    } catch (const Error& error) {
      EXPECT_EQ(error.verdict(), Verdict::usage);
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal([](TrainRequest&) {}), "accepted");
  const auto says = [&](const char* words, const std::function<void(TrainRequest&)>& change) {
    EXPECT_NE(refusal(change).find(words), std::string::npos) << words << ": " << refusal(change);
  };
  says("--tp with --model tiny-moe", [](TrainRequest& r) { r.tp = 2; });
  says("--pp with", [](TrainRequest& r) { r.pp = 2; });
  says("--cp with", [](TrainRequest& r) { r.cp = 2; });
  says("--zero with", [](TrainRequest& r) { r.zero = 1; });
  says("--compress with", [](TrainRequest& r) { r.compress = "int8"; });
  says("--outer-steps with", [](TrainRequest& r) { r.outer_steps = 2; });
  says("--recompute with", [](TrainRequest& r) { r.recompute = "full"; });
  says("--precision with", [](TrainRequest& r) { r.precision = "bf16"; });
  says("--phantom with", [](TrainRequest& r) { r.phantom = true; });
  says("which only --model tiny-moe has", [](TrainRequest& r) { r.model = "tiny", r.balance_loss = 0.01; });
  says("which only --model tiny-moe has", [](TrainRequest& r) { r.model = "tiny", r.capacity_factor = 1; });
  says("4 experts do not divide over 3 replicas", [](TrainRequest& r) { r.ranks = 3; });
  says("./lab plan and memory know this model", [](TrainRequest& r) { r.model = "mixtral-8x7b"; });
}

}  // namespace
}  // namespace lockstep::train
