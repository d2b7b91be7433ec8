// Every number of docs/theory/week24.md.
#include <gtest/gtest.h>

#include <cmath>

#include "labs/week24_pipeline/published_rates.hpp"
#include "tools/plan/flops.hpp"
#include "tools/tests/numbers/computed.hpp"
#include "tools/tests/numbers/page.hpp"

namespace lockstep::numbers {
namespace {

/// How far a schedule's bubble rates are from the published ones, at most.
struct Apart {
  double absolute = 0, relative = 0;
};
Apart apart(const std::string& name, double week24::PublishedRates::*published) {
  Apart most;
  for (const week24::PublishedRates& row : week24::kPublishedRates) {
    const int chunks = name == "interleaved" ? row.chunks : 1;
    const PipelineShape shape = week24::shape_of(name, row.stages, row.microbatches, chunks);
    StepTimes times = row.times();
    const double work = row.microbatches * (times.forward + times.input_gradient + times.weight_gradient);
    for (double* part : {&times.forward, &times.input_gradient, &times.weight_gradient}) *part /= chunks;
    double span = 0;
    for (const auto& stage : time_schedule(week24::make_schedule(name, shape), shape, times))
      span = std::max(span, stage.back().end - stage.front().begin);
    const double difference = std::abs((span - work) / span - row.*published);
    most = {std::max(most.absolute, difference), std::max(most.relative, difference / row.*published)};
  }
  return most;
}

TEST(Week24, Theory) {
  using namespace week24;
  Page page("docs/theory/week24.md");
  const GptConfig small = gpt_preset("gpt2-124m");
  const auto v = static_cast<double>(small.vocabulary), c = static_cast<double>(small.d_model);
  const plan::TokenFlop token = plan::token_flop(small, small.context);
  const double block = (token.attention_matrices + token.mlp) / 3 / static_cast<double>(small.layers) / (c * c);
  EXPECT_EQ(token.head / 3, 2 * c * v);
  EXPECT_NEAR(2 * v / (block * c), 5.5, 0.05) << "five and a half";
  page.says(
      "2·N·C·V forward against about {}·N·C² of a block: with V = {} and C = {} the head is worth five and a half",
      {fixed(block), fixed(v), fixed(c)});

  const auto used = [](int m) { return fixed(100 * (1 - bubble_of_total({2, m}))); };
  page.says(
      "p = 2: m/(m + 1) of the time is work: {}, {}, {} % for m = 1, 4, 8. An idle {} % is not a loss *relative to one "
      "GPU*: two stages at {} % are {} times as fast as one.",
      {used(1), used(4), used(8), fixed(100 * bubble_of_total({2, 4})), used(4),
       fixed(2 * (1 - bubble_of_total({2, 4})), 1)});
  const auto idle = [](const char* schedule) {
    return fixed(100 * (1 - 32 * 3 / numbers::makespan(schedule, 4, 32, 0.1)), 2);
  };
  page.says("p = 4, m = 32, T a tenth of F = B = W: {} % idle for GPipe, {} % for 1F1B.",
            {idle("gpipe"), idle("1f1b")});

  page.cites("the example's", {"| | formula | p = 4, m = 8 | use |"});
  page.says("| idle / ideal | (p − 1)/(v·m) | {} % |", {fixed(100 * bubble_of_ideal({4, 8}), 1)});
  page.says("| idle / total | (p − 1)/(v·m + p − 1) | {} % |", {fixed(100 * bubble_of_total({4, 8}), 1)});
  page.says("| relative to the longest span | (span − m(F + B + W))/span | {} % |",
            {fixed(100 * (1 - 24 / numbers::makespan("gpipe", 4, 8, 0)), 1)});

  page.cites("arXiv 1811.06965, Table 2", {"a Transformer is 6.3 times as fast on 8 accelerators, with M = 32"});
  page.says("of the total, {} % for p = 4", {fixed(100 * bubble_of_total({4, 16}))});
  const double eight = 8 * (1 - bubble_of_total({8, 32}));
  page.says("KM/(M + K − 1) = {} for K = 8 and M = 32, so 6.3 leaves {} % for everything else.",
            {fixed(eight, 2), fixed(100 * (1 - 6.3 / eight))});
  page.cites("arXiv 2006.09503", {"Read section 3.2"});
  page.cites("arXiv 2104.04473, abstract", {"interleaving gains 10 % and more", "52 % of the peak on 3,072 A100"});
  page.cites("arXiv 2401.10241, abstract", {"up to 23 % more throughput than 1F1B in the same memory, 31 % with more"});
  for (const auto& [name, published] : {std::pair{"1f1b", &PublishedRates::one_f_one_b},
                                        {"zb-h1", &PublishedRates::zb_h1},
                                        {"zb-h2", &PublishedRates::zb_h2}})
    EXPECT_LT(apart(name, published).absolute, 0.00006) << name;
  page.says("to four decimals for 1F1B, ZB-H1 and ZB-H2, within {} % for interleaving",
            {fixed(std::ceil(100 * apart("interleaved", &PublishedRates::interleaved).relative))});
  page.expect_all_known();
}

}  // namespace
}  // namespace lockstep::numbers
