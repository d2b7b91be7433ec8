// Tests of exercise 25.7: numbers worked out by hand, trainings that were published, and every number of nodes.
#include "labs/week25_3d/budget.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "common/testing/answered.hpp"
#include "common/testing/drawn.hpp"
#include "common/testing/expect_near.hpp"

namespace lockstep::week25::budget_test {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto training_flop = testing::answer<week25::training_flop>;
constexpr auto training_for = testing::answer<week25::training_for>;
constexpr auto effective_tokens = testing::answer<week25::effective_tokens>;
constexpr auto tokens_for_loss = testing::answer<week25::tokens_for_loss>;
constexpr auto pays_off_after = testing::answer<week25::pays_off_after>;
constexpr auto bill = testing::answer<week25::bill>;
constexpr auto choose_gpus = testing::answer<week25::choose_gpus>;

using testing::ExpectNear, testing::kAnyOrder;

/// From `low` to `high`, evenly on a logarithmic scale: always the same without --seed too.
double draw(std::uint64_t what, std::uint64_t which, double low, double high) {
  const double share = (static_cast<double>((which * 7919 + what * 104729) % 1009) +
                        static_cast<double>(testing::drawn({25, 7, what, which}, 1000)) / 1000) /
                       1010;
  return low * std::pow(high / low, share);
}

// Part a --------------------------------------------------------------------------------------------------------------

TEST(Lab25_7a, FlopByHand) {
  ExpectNear(training_flop({.parameters = 3, .tokens = 5}), 90) << "3 parameters see 5 tokens, 2 FLOP forward, 4 "
                                                                   "backward";
  ExpectNear(training_flop({.parameters = 1e12, .tokens = 1e13}), 6e25) << "1e12 parameters see 1e13 tokens";
}

TEST(Lab25_7a, FlopAsPublished) {
  const struct {
    const char* what;
    double parameters, tokens, flop, tolerance;
  } runs[] = {
      {"GPT-3 175B, arXiv 2005.14165, Table D.1", 174.6e9, 300e9, 3.14e23, 0.005},
      {"Llama 3 405B, arXiv 2407.21783, section 3.2", 405e9, 15.6e12, 3.8e25, 0.005},
      {"Chinchilla 70B, arXiv 2203.15556, whose own count is Gopher's 5.76e23", 70e9, 1.4e12, 5.76e23, 0.03},
  };
  for (const auto& run : runs)
    ExpectNear(training_flop({run.parameters, run.tokens}), run.flop, run.tolerance)
        << run.what << ", to within " << 100 * run.tolerance << "%";
}

TEST(Lab25_7a, ModelByHand) {
  const Training best = training_for(1.2e20, 20);
  ExpectNear(best.parameters, 1e9) << "parameters for 1.2e20 FLOP, 20 tokens each: √(1.2e20/120)";
  ExpectNear(best.tokens, 20e9) << "tokens for 1.2e20 FLOP, 20 per parameter";
  const Training longer = training_for(1.2e20, 80);
  ExpectNear(longer.parameters, 0.5e9) << "parameters for 1.2e20 FLOP, 80 tokens each: √(1.2e20/480)";
  ExpectNear(longer.tokens, 40e9) << "tokens for 1.2e20 FLOP, 80 per parameter";
}

TEST(Lab25_7a, ModelsSpendTheirBudget) {
  for (std::uint64_t i = 0; i < 50; ++i) {
    const double flop = draw(1, i, 1e15, 1e30), ratio = draw(2, i, 1, 5000);
    const Training found = training_for(flop, ratio);
    ExpectNear(6 * found.parameters * found.tokens / flop, 1) << "6 N D over the budget of " << flop << " FLOP";
    ExpectNear(found.tokens / found.parameters / ratio, 1) << "tokens per parameter over the " << ratio << " wanted";
    if (HasFailure()) return;
  }
}

TEST(Lab25_7a, ChinchillasTableByTheRuleOfTwentyTokens) {
  // arXiv 2203.15556, Table 3: parameters, FLOP and tokens of the best training.
  const double table[][3] = {{400e6, 1.92e19, 8.0e9},   {1e9, 1.21e20, 20.2e9},   {10e9, 1.23e22, 205.1e9},
                             {67e9, 5.76e23, 1.5e12},   {175e9, 3.85e24, 3.7e12}, {280e9, 9.90e24, 5.9e12},
                             {520e9, 3.43e25, 11.0e12}, {1e12, 1.27e26, 21.2e12}, {10e12, 1.30e28, 216.2e12}};
  for (const auto& [parameters, flop, tokens] : table) {
    const Training found = training_for(flop, 20);
    ExpectNear(found.parameters, parameters, 0.05)
        << "parameters of Chinchilla's Table 3 for " << flop << " FLOP, to within 5%";
    ExpectNear(found.tokens, tokens, 0.12) << "tokens of Chinchilla's Table 3 for " << flop << " FLOP, to within 12%";
  }
}

TEST(Lab25_7a, TokensSeenAgain) {
  ExpectNear(effective_tokens(80, 100), 80) << "80 tokens, of 100 that differ: none is seen twice";
  ExpectNear(effective_tokens(100, 100), 100) << "each of 100 tokens once";
  ExpectNear(effective_tokens(150, 100), 100 + 100 * 15.387756 * (1 - std::exp(-0.5 / 15.387756)))
      << "100 different tokens, half of them again: R = 1/2";
  ExpectNear(effective_tokens(60e12, 15e12), 15e12 * 3.725673123) << "four epochs of 15e12 tokens: R = 3";
  ExpectNear(effective_tokens(1638.7756, 100), 100 + 1538.7756 * (1 - std::exp(-1.0)))
      << "R = R*: the repetitions are worth 1 − 1/e of as many new tokens";
  ExpectNear(effective_tokens(1e9, 100), 1638.7756) << "without end, they are never worth more than 1 + R* epochs";
}

// Part b --------------------------------------------------------------------------------------------------------------

constexpr double kLossOfChinchilla = 1.8172 + 0.08144 + 0.07524;  // 70e9 parameters, 1.4e12 tokens

double loss_of(double parameters, double tokens) {
  return 1.8172 + 482.01 * std::exp(-0.3478 * std::log(parameters)) + 2085.43 * std::exp(-0.3658 * std::log(tokens));
}

TEST(Lab25_7b, TokensOfALoss) {
  for (std::uint64_t i = 0; i < 50; ++i) {
    const double parameters = draw(3, i, 1e7, 1e13), tokens = draw(4, i, 1e9, 1e14);
    ExpectNear(tokens_for_loss(parameters, loss_of(parameters, tokens)) / tokens, 1, 1e-8) << fmt::format(
        "the tokens with which {:.3g} parameters have the loss of {:.3g} tokens, over these", parameters, tokens);
    if (HasFailure()) return;
  }
}

TEST(Lab25_7b, HalfOfChinchilla) {
  ExpectNear(tokens_for_loss(35e9, loss_of(70e9, 1.4e12)), 3.647252595e12)
      << "tokens with which 35e9 parameters have Chinchilla's loss: (2085.43/(0.1567 − 0.1036))^(1/0.3658)";
}

TEST(Lab25_7b, TooSmallForALoss) {
  for (const double parameters : {1e9, 10e9})
    if (const double tokens = tokens_for_loss(parameters, kLossOfChinchilla); !std::isinf(tokens) || tokens < 0)
      ADD_FAILURE() << "tokens with which " << parameters
                    << " parameters have Chinchilla's loss: A/N^α alone is more than the 0.157 above E, so expected "
                       "infinity, yours is "
                    << tokens;
  if (const double tokens = tokens_for_loss(11e9, kLossOfChinchilla); !std::isfinite(tokens))
    ADD_FAILURE() << "11e9 parameters reach Chinchilla's loss, if only after some 5e16 tokens, and yours is " << tokens;
}

TEST(Lab25_7b, PayingOffByHand) {
  ExpectNear(pays_off_after({1, 30}, {2, 10}), 30)
      << "1 parameter on 30 tokens takes 180 FLOP to train, 2 on 10 take 120. Each token served saves 4 − 2 of them";
  ExpectNear(pays_off_after({1, 20}, {2, 10}), 0) << "both take 120 FLOP to train: the smaller one pays off at once";
  ExpectNear(pays_off_after({1, 15}, {2, 10}), 0) << "the smaller one is cheaper to train already";
}

TEST(Lab25_7b, BothCostTheSameWhereItPaysOff) {
  for (std::uint64_t i = 0; i < 50; ++i) {
    const Training large{draw(5, i, 1e9, 1e12), draw(6, i, 1e10, 1e13)};
    const double smaller = draw(7, i, 1.1, 4);
    const Training small{large.parameters / smaller, large.tokens * smaller * draw(8, i, 1.1, 5)};
    const double served = pays_off_after(small, large);
    const auto flop = [&](const Training& t) { return 6 * t.parameters * t.tokens + 2 * t.parameters * served; };
    ExpectNear(flop(small) / flop(large), 1) << "FLOP of the smaller model over the larger one's, trained and served";
    if (HasFailure()) return;
  }
}

// Part c --------------------------------------------------------------------------------------------------------------

TEST(Lab25_7c, BillByHand) {
  const Rental ideal{.peak = 1e12, .mfu = 0.5, .serial_fraction = 0, .price = 2, .per_node = 1, .nodes = 100};
  const double flop = 240 * 3600 * 0.5e12;
  const Bill one = bill(flop, ideal, 1);
  ExpectNear(one.days, 10) << "days of 240 GPU-hours on one GPU";
  ExpectNear(one.gpu_hours, 240) << "GPU-hours: 4.32e17 FLOP at half of 1e12 FLOP/s";
  ExpectNear(one.cost, 480) << "240 GPU-hours at 2 each";
  const Bill ten = bill(flop, ideal, 10);
  ExpectNear(ten.days, 1) << "days of 240 GPU-hours on ten GPUs, nothing serial";
  ExpectNear(ten.gpu_hours, 240) << "GPU-hours do not change with the number of GPUs, nothing serial";
  Rental real = ideal;
  real.serial_fraction = 0.1;
  const Bill eleven = bill(flop, real, 11);
  ExpectNear(eleven.days, 20.0 / 11) << "days on 11 GPUs, s = 0.1: a speedup of 5.5 instead of 11";
  ExpectNear(eleven.gpu_hours, 480) << "GPU-hours on 11 GPUs, s = 0.1: half of them do nothing";
  ExpectNear(eleven.cost, 960) << "cost on 11 GPUs, s = 0.1: idle GPUs cost as much";
  ExpectNear(bill(flop, real, 1).days, 10) << "days on one GPU, whatever the serial fraction";
}

TEST(Lab25_7c, BillsAsPublished) {
  // 140 TFLOP/s per GPU, of which a quarter recompute.
  const Rental a100{.peak = 312e12, .mfu = 0.75 * 140 / 312, .serial_fraction = 0, .price = 0, .per_node = 8};
  ExpectNear(bill(6 * 175e9 * 300e9, a100, 1024).days, 34, 0.01)
      << "days of GPT-3 on 1,024 A100, arXiv 2104.04473, section 5.1, to within 1%";
  // arXiv 2407.21783, Table 4: 430 TFLOP/s per GPU on 8,192 and 400 on 16,384.
  const Rental h100{.peak = 989e12, .mfu = 464.860264 / 989, .serial_fraction = 9.897495e-6, .price = 1, .per_node = 8};
  for (const auto& [gpus, rate] : {std::pair(8192, 430e12), {16384, 400e12}})
    ExpectNear(3.8e25 / 3600 / bill(3.8e25, h100, gpus).gpu_hours, rate, 1e-4)
        << "FLOP/s per GPU of Llama 3 405B on " << gpus << " H100, arXiv 2407.21783, Table 4, to within 0.01%";
  ExpectNear(bill(3.8e25, h100, 16384).cost, 30.84e6, 0.16)
      << "GPU-hours of Llama 3.1 405B as its model card has them, restarts and long sequences too, to within 16%";
}

/// The example of the handout: 1e9 parameters on 20e9 tokens, with A100.
constexpr Rental kExample{
    .peak = 312e12, .mfu = 0.4, .serial_fraction = 0.01, .price = 2, .per_node = 8, .nodes = 1000};

void expect_gpus(const Rental& rental, double days, double money, GpuCounts wanted, const std::string& why) {
  const GpuCounts found = choose_gpus(1.2e20, rental, days, money);
  EXPECT_EQ(found.fewest, wanted.fewest) << why << ": the fewest GPUs";
  EXPECT_EQ(found.most, wanted.most) << why << ": the most GPUs";
}

TEST(Lab25_7c, GpusByHand) {
  expect_gpus(kExample, 1, 800, {16, 48}, "one day and 800: 13 GPUs would be in time, and 50 could be paid");
  Rental single = kExample;
  single.per_node = 1;
  expect_gpus(single, 1, 800, {13, 50}, "one day and 800, GPUs one by one");
  expect_gpus(kExample, 2, 800, {8, 48}, "two days and 800: one node is in time");
}

TEST(Lab25_7c, NoGpusWillDo) {
  expect_gpus(kExample, 0.1, 1e9, {0, 0}, "a tenth of a day, and the serial part alone takes 0.111");
  expect_gpus(kExample, 30, 550, {0, 0}, "550, and one node costs 571.58");
  expect_gpus(kExample, 0.5, 650, {0, 0}, "half a day and 650: that takes 32 GPUs, which cost 699.79");
}

TEST(Lab25_7c, NoMoreNodesThanThereAre) {
  Rental few = kExample;
  few.nodes = 3;
  expect_gpus(few, 1, 800, {16, 24}, "one day and 800, but three nodes");
  few.nodes = 1;
  expect_gpus(few, 1, 800, {0, 0}, "one day and 800, but one node");
}

TEST(Lab25_7c, GpusOfDrawnRentals) {
  for (std::uint64_t i = 0; i < 60; ++i) {
    const Rental rental{.peak = 1e12,
                        .mfu = 0.5,
                        .serial_fraction = draw(10, i, 1e-4, 0.05),
                        .price = draw(11, i, 0.5, 5),
                        .per_node = 1 + static_cast<int>(i % 8),
                        .nodes = 5 + static_cast<int>(i % 50)};
    const double days_of_one = draw(12, i, 1, 1000), flop = days_of_one * 86400 * 0.5e12;
    const double days = days_of_one / draw(13, i, 1.5, 20);
    const double money = days_of_one * 24 * rental.price * draw(14, i, 1.2, 3);
    GpuCounts wanted;
    for (int gpus = rental.per_node; gpus <= rental.nodes * rental.per_node; gpus += rental.per_node) {
      const double takes = days_of_one * (rental.serial_fraction + (1 - rental.serial_fraction) / gpus);
      if (takes > days || takes * 24 * gpus * rental.price > money) continue;
      wanted = {wanted.fewest > 0 ? wanted.fewest : gpus, gpus};
    }
    const GpuCounts found = choose_gpus(flop, rental, days, money);
    const std::string where = fmt::format(
        "a training of {:.6g} days on one GPU, in {:.6g} days and for {:.6g}, with up to {} nodes of {} GPUs "
        "at {:.6g} per hour, s = {:.6g}",
        days_of_one, days, money, rental.nodes, rental.per_node, rental.price, rental.serial_fraction);
    ASSERT_EQ(found.fewest, wanted.fewest) << where << ": the fewest GPUs";
    ASSERT_EQ(found.most, wanted.most) << where << ": the most GPUs";
  }
}

}  // namespace
}  // namespace lockstep::week25::budget_test
