// Tests of exercise 22.1: the ZeRO paper's Table 1 and the texts' numbers, from the formulas.
#include "labs/week22_zero/memory_calculator.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "common/error.hpp"
#include "common/gpt/model/config.hpp"
#include "common/testing/answered.hpp"
#include "common/testing/drawn.hpp"

namespace lockstep::week22::memory_calculator_test {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto model_state = testing::answer<week22::model_state>;
constexpr auto fewest_ranks = testing::answer<week22::fewest_ranks>;
constexpr auto bytes_sent = testing::answer<week22::bytes_sent>;
constexpr auto activation_bytes_per_layer = testing::answer<week22::activation_bytes_per_layer>;

constexpr double kGiga = 1e9;

double gigabytes(double parameters, int stage, int ranks, Recipe recipe = {}) {
  return model_state(parameters, stage, ranks, recipe).total_bytes() / kGiga;
}

// Part a -------------------------------------------------------------------------------------------------------------

/// arXiv 1910.02054, Table 1: GB of model state for stages 1, 2 and 3, as printed.
struct Printed {
  int ranks;
  const char* of[3][3];  // 7.5B, 128B, 1T; each with stages 1, 2, 3
};
constexpr Printed kTable1[] = {
    {1, {{"120", "120", "120"}, {"2048", "2048", "2048"}, {"16000", "16000", "16000"}}},
    {4, {{"52.5", "41.3", "30"}, {"896", "704", "512"}, {"7000", "5500", "4000"}}},
    {16, {{"35.6", "21.6", "7.5"}, {"608", "368", "128"}, {"4750", "2875", "1000"}}},
    {64, {{"31.4", "16.6", "1.88"}, {"536", "284", "32"}, {"4187", "2218", "250"}}},
    {256, {{"30.4", "15.4", "0.47"}, {"518", "263", "8"}, {"4046", "2054", "62.5"}}},
    {1024, {{"30.1", "15.1", "0.12"}, {"513", "257", "2"}, {"4011", "2013", "15.6"}}},
};

/// `value` with as many decimals as `printed` has. The paper rounds the column of 7.5B, and cuts the other two.
std::string as_printed(double value, const std::string& printed, bool rounds) {
  const std::size_t point = printed.find('.');
  const int decimals = point == printed.npos ? 0 : static_cast<int>(printed.size() - point - 1);
  const double unit = std::pow(10.0, -decimals);
  // A small part of a digit keeps 41.25, and what binary makes of it, on the side of 41.3.
  value = unit * (rounds ? std::floor(value / unit + 0.5 + 1e-6) : std::floor(value / unit + 1e-6));
  return fmt::format("{:.{}f}", value, decimals);
}

std::string on_ranks(int ranks) { return fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s"); }

constexpr const char* kRatioOfInts = ": 1 / ranks of two ints is 0 in C++";

bool lacks_a_kind(const ModelState& state) {
  return state.parameter_bytes == 0 || state.gradient_bytes == 0 || state.optimizer_bytes == 0;
}

/// The likely mistake where the state at `stage` on `ranks` is wrong, or what it is made of. A ratio of two ints is 0
/// on several ranks alone, and may give the total that dividing everything gives: 4 of 16 bytes are 16 / 4.
std::string why_wrong(double parameters, int stage, int ranks) {
  const ModelState one = model_state(parameters, stage, 1, {}), state = model_state(parameters, stage, ranks, {});
  if (lacks_a_kind(state) && !lacks_a_kind(one)) return kRatioOfInts;
  if (ranks > 1 && state.total_bytes() == one.total_bytes())
    return fmt::format(": nothing is divided, and stage {} divides {} of the three kinds", stage, stage);
  const bool all_divided = std::abs(state.total_bytes() * ranks / one.total_bytes() - 1) < 1e-9;
  if (stage == 3 || ranks == 1 || !all_divided)
    return fmt::format(": {:g} GB of parameters, {:g} of gradients, {:g} of the optimizer",
                       state.parameter_bytes / kGiga, state.gradient_bytes / kGiga, state.optimizer_bytes / kGiga);
  return fmt::format(": all of the 16 bytes are divided by {}, and stage {} divides {} of the three kinds", ranks,
                     stage, stage);
}

TEST(Lab22_1a, TableOneOfTheZeroPaperToTheDigit) {
  constexpr double kParameters[] = {7.5e9, 128e9, 1e12};
  for (const Printed& row : kTable1)
    for (int model = 0; model < 3; ++model)
      for (int stage = 1; stage <= 3; ++stage) {
        const std::string printed = row.of[model][stage - 1];
        const double value = gigabytes(kParameters[model], stage, row.ranks);
        if (as_printed(value, printed, model == 0) != printed)
          FAIL() << fmt::format("{:g} parameters, stage {}, {}: {:.3f} GB by your formula, {} GB in the paper{}",
                                kParameters[model], stage, on_ranks(row.ranks), value, printed,
                                why_wrong(kParameters[model], stage, row.ranks));
      }
}

TEST(Lab22_1a, EachStageDividesOneKindMore) {
  for (int ranks : {1, 2, 3, 8, 1000 + static_cast<int>(testing::drawn({22, 1}, 9000))})
    for (int stage : {0, 1, 2, 3}) {
      const ModelState state =
          model_state(1e6, stage, ranks, {.parameter = 2, .gradient = 4, .master = 3, .moments = 5});
      const double p = ranks;
      const auto expect = [&](const char* kind, double seen, int each, int divided_from) {
        const double expected = each * 1e6 / (stage >= divided_from ? p : 1);
        if (!(std::abs(seen - expected) <= 1e-9 * expected))
          ADD_FAILURE() << fmt::format(
              "stage {} with {}: {:.0f} bytes of {} by your formula, expected {:.0f}: 1e6 parameters, {} bytes each, "
              "divided by the ranks from stage {} on{}",
              stage, on_ranks(ranks), seen, kind, expected, each, divided_from,
              seen == 0 && !lacks_a_kind(model_state(1e6, stage, 1, {})) ? kRatioOfInts : "");
      };
      expect("parameters", state.parameter_bytes, 2, 3);
      expect("gradients", state.gradient_bytes, 4, 2);
      expect("optimizer state", state.optimizer_bytes, 8, 1);
      if (HasFailure()) return;
    }
}

void expect_gigabytes(double parameters, int stage, int ranks, double expected, const Recipe& recipe = {}) {
  const double seen = gigabytes(parameters, stage, ranks, recipe);
  if (!(std::abs(seen - expected) <= 1e-9 * expected))
    ADD_FAILURE() << fmt::format(
        "{:g} parameters, {:g} bytes each, stage {}, {}: {:.4g} GB by your formula, expected {}", parameters,
        recipe.parameter + recipe.gradient + recipe.optimizer(), stage, on_ranks(ranks), seen, expected);
}

TEST(Lab22_1a, TheTextsNumbers) {
  // 100 M parameters on two GPUs.
  const double expected[] = {1.6, 1.0, 0.9, 0.8};
  for (int stage : {0, 1, 2, 3}) expect_gigabytes(100e6, stage, 2, expected[stage]);
  expect_gigabytes(10e9, 0, 8, 160);
  expect_gigabytes(10e9, 3, 8, 20);
  // 12 bytes a parameter are those without an fp32 copy; fp32 training needs 16 as well.
  const Recipe without = recipe_of(DType::bf16, /*master=*/false);
  expect_gigabytes(7e9, 0, 1, 84, without);
  expect_gigabytes(13e9, 0, 1, 156, without);
  expect_gigabytes(13e9, 3, 4, 39, without);
  expect_gigabytes(7e9, 0, 1, 112);
  expect_gigabytes(13e9, 0, 1, 208, recipe_of(DType::f32));
  // GPT-3: 87.5 GB on 16 GPUs leaves out half of the state.
  expect_gigabytes(175e9, 3, 16, 175);
}

TEST(Lab22_1a, TheFewestGpusThatHoldTheState) {
  const auto expect = [](double parameters, int stage, double bytes, int expected, const char* why,
                         int most = 1 << 20) {
    const int seen = fewest_ranks(parameters, stage, {}, bytes, most);
    if (seen != expected)
      ADD_FAILURE() << fmt::format(
          "{:g} parameters, stage {}, on GPUs of {:g} GB: {} by your formula, expected {} ({})", parameters, stage,
          bytes / kGiga, on_ranks(seen), expected, why);
  };
  expect(175e9, 3, 80e9, 35, "GPT-3: 2800 GB in all");
  expect(175e9, 2, 80e9, 0, "none: the parameters alone, 350 GB, stay replicated");
  expect(7e9, 0, 80e9, 0, "none: 112 GB each, on any number of ranks");
  expect(7e9, 1, 80e9, 2, "28 GB + 84 GB / p");
  expect(7e9, 0, 112e9, 1, "112 GB fit exactly");
  expect(7e9, 3, 80e9, 2, "112 GB / p");
  const double rounded_up = 16e9 * (1 + 1e-9);  // whatever binary makes of 16 TB / 1000
  expect(1e12, 3, rounded_up, 0, "1000 are needed, at most 999 allowed", 999);
  expect(1e12, 3, rounded_up, 1000, "16 TB / p", 1000);
}

TEST(Lab22_1a, BytesOnTheWire) {
  for (int p : {1, 2, 3, 8, 64})
    for (int m : {1, 2, 5 + static_cast<int>(testing::drawn({22, 2}, 20))}) {
      const double once = 1e6 * (p - 1) / p;
      const Recipe recipe{.parameter = 2, .gradient = 4};
      const double expected[] = {2 * 4 * once, (4 + 2) * once, (4 * m + 2) * once, (4 + 2 * 2) * m * once};
      for (int stage : {0, 1, 2, 3})
        if (const double sent = bytes_sent(1e6, stage, p, m, recipe);
            !(std::abs(sent - expected[stage]) <= 1e-6 * expected[stage]))
          FAIL() << fmt::format(
              "stage {}, p = {}, m = {}, 1e6 parameters of 2 bytes with gradients of 4: {:g} bytes sent by your "
              "formula, expected {:g}{}",
              stage, p, m, sent, expected[stage],
              sent == 0 ? ": (ranks - 1) / ranks of two ints is 0 in C++"
                        : fmt::format(". One collective of gradients sends {:g}, one of parameters {:g}", 4 * once,
                                      2 * once));
    }
  // With one type for both: 2, 2, m + 1 and 3m times Ψ(p − 1)/p.
  const auto times_ddp = [](int stage, int m, double factor) {
    const double seen = bytes_sent(1e6, stage, 4, m, {}), ddp = bytes_sent(1e6, 0, 4, m, {});
    if (!(std::abs(seen - factor * ddp) <= 1e-6 * ddp))
      ADD_FAILURE() << fmt::format(
          "stage {}, m = {}, one type for all: {:g} bytes sent, expected {:g}, {} times plain DDP's", stage, m, seen,
          factor * ddp, factor);
  };
  times_ddp(1, 3, 1);
  times_ddp(2, 1, 1);
  times_ddp(3, 1, 1.5);
}

TEST(Lab22_1a, NonsenseIsRefusedInOneSentence) {
  model_state(1e6, 0, 1, {});  // so that this test begins where the others do
  const auto refused = [](const char* says, const auto& call) {
    try {
      call();
      ADD_FAILURE() << "accepted: " << says;
    } catch (const Error& error) {
      if (error.verdict() != Verdict::usage || std::string(error.what()).find(says) == std::string::npos)
        ADD_FAILURE() << fmt::format("refused with \"{}\", expected a USAGE error that says \"{}\"", error.what(),
                                     says);
    }
  };
  refused("no stage 4", [] { model_state(1e6, 4, 2, {}); });
  refused("no stage -1", [] { bytes_sent(1e6, -1, 2, 1, {}); });
  refused("at least 1 rank", [] { model_state(1e6, 3, 0, {}); });
  refused("more than 0 parameters", [] { model_state(NAN, 3, 1, {}); });
  refused("at least 1 microbatch", [] { bytes_sent(1e6, 3, 2, 0, {}); });
}

// Part b -------------------------------------------------------------------------------------------------------------

void expect_bytes(LayerShape shape, double expected, const std::string& of) {
  const double bytes = activation_bytes_per_layer(shape);
  if (!(std::abs(bytes - expected) <= 1e-9 * expected))
    ADD_FAILURE() << fmt::format("{}: {:.0f} bytes by your formula, expected {:.0f}", of, bytes, expected);
}

TEST(Lab22_1b, ActivationsOfALayer) {
  // GPT-3: s = 2048, h = 12288, a = 96: as/h = 16, so 34 + 80 bytes a position and channel.
  const LayerShape gpt3{.positions = 2048, .sequences = 1, .channels = 12288, .heads = 96};
  const double sbh = 2048.0 * 12288;
  expect_bytes(gpt3, 114 * sbh, "s = 2048, b = 1, h = 12288, a = 96: sbh(34 + 5as/h)");
  LayerShape shape = gpt3;
  shape.dropout = false;
  expect_bytes(shape, (32 + 2 * 16) * sbh, "without dropout sbh(32 + 2as/h)");
  shape.flash = true;
  expect_bytes(shape, 32 * sbh + 4 * 96 * 2048, "flash attention: 32sbh + 4abs");
  shape.dropout = true;
  expect_bytes(shape, 34 * sbh + 4 * 96 * 2048, "flash attention with dropout");
  LayerShape four = gpt3;
  four.sequences = 4;
  expect_bytes(four, 4 * activation_bytes_per_layer(gpt3), "four sequences");
  LayerShape twice = gpt3;
  twice.positions = 4096;
  expect_bytes(twice, (2 * 34 + 4 * 80) * sbh, "scores grow with the square of s");
}

TEST(Lab22_1b, ActivationsOfAnyLayer) {
  // No size is 1, and no size is another one's multiple; with --seed the last is another.
  const LayerShape shapes[] = {{.positions = 7, .sequences = 3, .channels = 20, .heads = 11},
                               {.positions = 5, .sequences = 13, .channels = 64, .heads = 3},
                               {.positions = 1009 + static_cast<double>(testing::drawn({22, 3}, 1000)),
                                .sequences = 17 + static_cast<double>(testing::drawn({22, 4}, 20)),
                                .channels = 770,
                                .heads = 23}};
  for (LayerShape shape : shapes)
    for (bool dropout : {false, true})
      for (bool flash : {false, true}) {
        shape.dropout = dropout, shape.flash = flash;
        const double s = shape.positions, b = shape.sequences, h = shape.channels, a = shape.heads;
        const double masks = dropout ? 2 * s * b * h : 0, scores = (dropout ? 5 : 2) * a * s * s * b;
        expect_bytes(shape, 32 * s * b * h + masks + (flash ? 4 * a * b * s : scores),
                     fmt::format("s = {}, b = {}, h = {}, a = {}, {} dropout, {}", s, b, h, a,
                                 dropout ? "with" : "without", flash ? "flash attention" : "scores written"));
        if (HasFailure()) return;
      }
}

}  // namespace
}  // namespace lockstep::week22::memory_calculator_test
