// Every number of docs/learn/theory/week24.md.
#include <gtest/gtest.h>

#include <cmath>

#include "labs/week24_pipeline/published_rates_testing.hpp"
#include "tools/plan/flops.hpp"
#include "tools/tests/numbers/computed.hpp"
#include "tools/tests/numbers/page.hpp"

namespace lockstep::numbers {
namespace {

/// The largest distance of a schedule's bubble rates from the published ones.
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

/// Problems 1 to 5: the head, GPipe's microbatches, hops behind a longer warm-up, and chunks.
void problems_of_equal_stages(Page& page) {
  using namespace week24;
  const GptConfig small = gpt_preset("gpt2-124m");
  const double head = static_cast<double>(small.vocabulary) / (12.0 * static_cast<double>(small.d_model)),
               blocks = static_cast<double>(small.layers) / 4;
  page.says("The head is worth about {} blocks, so the last stage has {} blocks' work.",
            {fixed(head, 1), fixed(blocks + head, 1)});
  page.says("The slowest stage then has {}, and the first split takes {} times as long.",
            {fixed(std::max(head, blocks * 4 / 3), 1), fixed((blocks + head) / head, 2)});
  page.cites("the problem's own", {"With p = 2 and m = 2, for example", "With p = 2 and m = 2, stage 0 has the list"});

  int m = 1;
  while (bubble_of_total({8, m}) > 0.2) ++m;
  page.cites("the problem's own", {"the bubble is at most 20% of the time", "(p − 1)/(m + p − 1) = 7/(m + 7)"});
  page.says("For 20% we need m + 7 = {}, that is m = {}, or {} times as many microbatches as stages.",
            {fixed(m + 7), fixed(m), fixed(m / 8.0, 1)});

  // Interleaving's warm-up with one chunk is 2(p − 1 − s).
  page.says("Stage 0 holds 2p − 1 = {} microbatches instead of {}.",
            {fixed(peak_in_flight(interleaved({4, 32}, 0))), fixed(peak_in_flight(one_f_one_b({4, 32}, 0)))});
  page.says("in units of F, GPipe takes {}, 1F1B takes {}, and with the longer warm-up it takes {} again.",
            {fixed(numbers::makespan("gpipe", 4, 32, 0.1), 1), fixed(numbers::makespan("1f1b", 4, 32, 0.1), 1),
             fixed(numbers::makespan("interleaved", 4, 32, 0.1, 1), 1)});

  const int chunks = peak_in_flight(interleaved({8, 16, 2}, 0));
  page.says("Without chunks it is 7/(16 + 7), that is {}%. With two it is 7/(32 + 7), that is {}%.",
            {fixed(100 * bubble_of_total({8, 16}), 1), fixed(100 * bubble_of_total({8, 16, 2}), 1)});
  page.says("{} of half a stage, which is {} times 1F1B's {}.",
            {fixed(chunks), fixed(chunks / 2.0 / 8, 2), fixed(peak_in_flight(one_f_one_b({8, 16}, 0)))});
}

/// Problem 6: table 5's first row, without hops.
void problem_of_zero_bubble(Page& page) {
  const week24::PublishedRates& row = week24::kPublishedRates[0];
  EXPECT_TRUE(row.stages == 8 && row.microbatches == 24);
  StepTimes times = row.times();
  page.says(
      "p = 8, m = 24 and F = {}, B = {}, W = {} ms.",
      {fixed(1e3 * times.forward, 3), fixed(1e3 * times.input_gradient, 3), fixed(1e3 * times.weight_gradient, 3)});
  page.says("The published rates are {}, {} and {}%.",
            {fixed(100 * row.one_f_one_b, 2), fixed(100 * row.zb_h1, 2), fixed(100 * row.zb_h2, 2)});
  page.says("hops of {} ms", {fixed(1e3 * times.transfer, 3)});
  times.transfer = 0;
  const double turn = times.forward + times.input_gradient + times.weight_gradient;
  page.says("A turn is {} ms, and {} of them are the work.", {fixed(1e3 * turn, 3), fixed(row.microbatches)});
  page.says("The bubbles are 7 turns for 1F1B, and {} times {} and {} ms for ZB-H1 and ZB-H2.",
            {fixed(row.stages - 1), fixed(1e3 * (turn - 2 * times.weight_gradient), 3),
             fixed(1e3 * (turn - 3 * times.weight_gradient), 3)});
  const auto rate = [&](const char* name) {
    const PipelineShape shape = week24::shape_of(name, row.stages, row.microbatches, 1);
    double span = 0;
    for (const auto& stage : time_schedule(week24::make_schedule(name, shape), shape, times))
      span = std::max(span, stage.back().end - stage.front().begin);
    return fixed(100 * (1 - row.microbatches * turn / span), 2);
  };
  page.says("As shares that is {}, {} and {}%.", {rate("1f1b"), rate("zb-h1"), rate("zb-h2")});
}

/// Problem 8: the last stage has 1.5 times the others' work, and all together as much as before.
void problem_of_unequal_stages(Page& page) {
  const PipelineShape shape{4, 8};
  const double equal = numbers::makespan("1f1b", 4, 8, 0), other = 4 / 4.5, last = 1.5 * other, work = 8 * 3;
  std::vector<StepTimes> stages(3, {other, other, other, 0});
  stages.push_back({last, last, last, 0});
  double run = 0;
  for (const auto& stage : time_schedule(week24::make_schedule("1f1b", shape), shape, stages))
    run = std::max(run, stage.back().end);
  page.cites("an example of a bubble, that of the table", {"has a bubble of 37.5%"});
  page.says("Four stages with {} ms of work each, m = {}, take {} ms under 1F1B.",
            {fixed(work), fixed(shape.microbatches), fixed(equal)});
  page.cites("the problem's own", {"until it has 1.5 times as much as each of the others"});
  page.says("The run now takes {} ms.", {fixed(run)});
  page.says("The ideal was {} ms and the bubble {}%.", {fixed(work), fixed(100 * (1 - work / equal))});
  page.says("the last stage works for {} ms, and the bubble is {} of {} ms, which is {}%.",
            {fixed(work * last), fixed(run - work * last), fixed(run), fixed(100 * (1 - work * last / run))});
  page.says("Over the serial {} ms the speedup has fallen from {} to {}.",
            {fixed(4 * work), fixed(4 * work / equal, 1), fixed(4 * work / run, 1)});
}

TEST(Week24, Theory) {
  using namespace week24;
  Page page("docs/learn/theory/week24.md");
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
      "p = 2, m/(m + 1) of the time is work: {}, {}, {}% for m = 1, 4, 8. An idle {}% is not a loss *relative to one "
      "GPU*. Two stages at {}% are {} times as fast as one.",
      {used(1), used(4), used(8), fixed(100 * bubble_of_total({2, 4})), used(4),
       fixed(2 * (1 - bubble_of_total({2, 4})), 1)});
  const auto idle = [](const char* schedule) {
    return fixed(100 * (1 - 32 * 3 / numbers::makespan(schedule, 4, 32, 0.1)), 2);
  };
  page.says("p = 4, m = 32, and T a tenth of F = B = W. Then GPipe idles {}% and 1F1B {}%.",
            {idle("gpipe"), idle("1f1b")});

  page.cites("the example's", {"| | formula | p = 4, m = 8 | use |"});
  page.says("| idle / ideal | (p − 1)/(v·m) | {}% |", {fixed(100 * bubble_of_ideal({4, 8}), 1)});
  page.says("| idle / total | (p − 1)/(v·m + p − 1) | {}% |", {fixed(100 * bubble_of_total({4, 8}), 1)});
  page.says("| relative to the longest span | (span − m(F + B + W))/span | {}% |",
            {fixed(100 * (1 - 24 / numbers::makespan("gpipe", 4, 8, 0)), 1)});

  page.cites("arXiv 1811.06965, Table 2", {"a Transformer is 6.3 times as fast on 8 accelerators, with M = 32"});
  page.says("of the total, {}% for p = 4", {fixed(100 * bubble_of_total({4, 16}))});
  const double eight = 8 * (1 - bubble_of_total({8, 32}));
  page.says("KM/(M + K − 1) = {} for K = 8 and M = 32, so 6.3 leaves {}% for everything else.",
            {fixed(eight, 2), fixed(100 * (1 - 6.3 / eight))});
  page.cites("arXiv 2006.09503", {"Read section 3.2"});
  page.cites("arXiv 2104.04473, abstract", {"interleaving gains 10% and more", "52% of the peak on 3,072 A100"});
  page.cites("arXiv 2401.10241, abstract", {"up to 23% more throughput than 1F1B in the same memory, 31% with more"});
  for (const auto& [name, published] : {std::pair{"1f1b", &PublishedRates::one_f_one_b},
                                        {"zb-h1", &PublishedRates::zb_h1},
                                        {"zb-h2", &PublishedRates::zb_h2}})
    EXPECT_LT(apart(name, published).absolute, 0.00006) << name;
  page.says("Interleaving, whose details they omit, is within {}%.",
            {fixed(std::ceil(100 * apart("interleaved", &PublishedRates::interleaved).relative))});
  problems_of_equal_stages(page);
  problem_of_zero_bubble(page);
  problem_of_unequal_stages(page);
  page.expect_all_known();
}

}  // namespace
}  // namespace lockstep::numbers
