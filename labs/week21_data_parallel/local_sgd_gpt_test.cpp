// Tests of exercise 21.12 as a whole: a GPT trained with local SGD and DiLoCo, compared with DDP.
#include "labs/week21_data_parallel/ddp_gpt_testing.hpp"
#include "labs/week21_data_parallel/local_sgd_testing.hpp"

namespace lockstep::week21::local_sgd_testing {
namespace {

constexpr int kGptSteps = 24;
constexpr std::size_t kGptSequences = 16;

/// Trains by plain gradient descent, each rank on its shard; the loss over the batch before the first and after the
/// last step, then what all values were after each step of the first three.
Values local_training(Rank dp, const OuterSgd& how) {
  Gpt gpt(dp, small_gpt(), static_cast<std::uint64_t>(dp.rank()));
  const Parameters& parameters = gpt.parameters();
  LocalSgd outer(dp, parameters.values, how, ring_all_reduce);
  const ChunkRange shard = chunk_range(kGptSequences, dp.rank(), dp.size());
  const Batch all = gpt_batch(dp, 0, 0, kGptSequences);
  Values losses, seen;
  losses.push_back(gpt_loss(dp, gpt, all));
  for (int step = 0; step < kGptSteps; ++step) {
    const Batch mine = gpt_batch(dp, step % kSteps, shard.offset, shard.size);
    fill(dp, parameters.gradients, 0);
    gpt_pass(dp, gpt, mine, shard_weight(shard.size, kGptSequences, dp.size()), [](std::size_t) {});
    Values before_outer;
    gradient_descent(dp, parameters, before_outer);
    outer.step_done();
    if (step < kSteps) append_values(dp, parameters.values, seen);
  }
  outer.finish();
  losses.push_back(gpt_loss(dp, gpt, all));
  losses.insert(losses.end(), seen.begin(), seen.end());
  append_values(dp, parameters.values, losses);
  return losses;
}

/// On GPUs, which may be emulated, one number of ranks is enough.
std::vector<int> numbers_of_ranks() {
  const std::string_view backend = backend_name();
  return backend == "cuda" || backend == "nccl" ? std::vector<int>{2} : std::vector<int>{1, 2, 3, 4};
}

TEST(Lab21_12, WithHOneAndNoMomentumItIsDdp) {
  run_cases([](Rank me, const Case&) { return local_training(me, {.every = 1, .learning_rate = 1, .momentum = 0}); },
            [](const Case& c, const Outcome& outcome) -> std::string {
              const Outcome serial =
                  run({.ranks = 1}, Program([&](Rank me) { return train_gpt_serially(me, kGptSequences, c.ranks); }));
              const Values& seen = outcome.values[0];
              const Values& oracle = serial.check().values[0];
              const Values first(seen.begin() + 2, seen.begin() + 2 + static_cast<std::ptrdiff_t>(oracle.size()));
              const std::string wrong = wrong_parameters(first, oracle, 1e-5);
              return wrong.empty() ? ""
                                   : wrong +
                                         " (gradient descent: averaging parameters after every step is averaging "
                                         "gradients).";
            },
            {.ranks = numbers_of_ranks(), .sizes = sizes_of({0}), .which = "training"});
}

struct Trained {
  const char* name;
  OuterSgd how;
};
constexpr Trained kTrained[] = {
    {"every step averaged", {.every = 1, .learning_rate = 1, .momentum = 0}},
    {"local SGD, H = 6", {.every = 6, .learning_rate = 1, .momentum = 0}},
    {"DiLoCo, H = 6", {.every = 6, .learning_rate = 0.7f, .momentum = 0.5f}},
};

TEST(Lab21_12, AGptLearnsWithASixthOfTheBytes) {
  std::vector<double> drops(std::size(kTrained));
  run_cases(
      [](Rank me, const Case& c) { return local_training(me, kTrained[c.size].how); },
      [&](const Case& c, const Outcome& outcome) -> std::string {
        const Values& seen = outcome.values[0];
        const std::size_t values =
            gpt_parameter_table(small_gpt()).back().offset + gpt_parameter_table(small_gpt()).back().size;
        const std::string apart = replicas_part(outcome, seen.size() - values, values);
        if (!apart.empty()) return "replicas after the last outer step: " + apart;
        drops[c.size] = seen[0] - seen[1];
        const double part = drops[c.size] / drops[0];
        testing::note(fmt::format("{}: the loss falls by {:.3f}, {:.0f}% of what it falls by averaging every step",
                                  kTrained[c.size].name, drops[c.size], 100 * part));
        if (drops[0] > 0.5 && part > 0.8) return "";
        return fmt::format(
            "{}: the loss fell by {:.3f}, {:.0f}% of what it falls when every step is averaged; "
            "expected more than 80%",
            kTrained[c.size].name, drops[c.size], 100 * part);
      },
      {.ranks = {4}, .sizes = sizes_of({0, 1, 2}), .which = "method"});
}

}  // namespace
}  // namespace lockstep::week21::local_sgd_testing
