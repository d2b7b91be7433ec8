// Every layout that ./lab train accepts has the serial run's losses, and the predicted traffic and memory. Layouts are
// drawn from a seed: LAYOUTS=3000 LAYOUTS_SEED=2 programs/train_test --gtest_filter='*Layout*' tries more, and others.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <random>

#include "common/support/json/row_fields.hpp"
#include "common/support/text/units.hpp"
#include "tools/train/train_testing.hpp"

namespace lockstep::train {
namespace {

using CommandWords = std::vector<std::string>;

/// The same draws with every library: std's distributions are not.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : random_(seed) {}
  int below(int count) { return static_cast<int>(random_() % static_cast<std::uint64_t>(count)); }
  bool one_in(int count) { return below(count) == 0; }
  template <class T>
  T of(std::initializer_list<T> all) {
    return all.begin()[below(static_cast<int>(all.size()))];
  }

 private:
  std::mt19937_64 random_;
};

/// A run, and the serial one that it must be.
struct Drawn {
  CommandWords serial, layout;
  bool lossy = false;  // its first loss alone is the serial run's
};

/// Any of them may not go together: such runs are refused, and others drawn.
Drawn draw(Draws& draws) {
  Drawn drawn;
  const auto say = [](CommandWords& words, const char* option, const auto& value) {
    words.emplace_back(option);
    words.push_back(fmt::format("{}", value));
  };
  CommandWords &serial = drawn.serial, &layout = drawn.layout;
  const int dp = draws.of({1, 1, 2, 2, 3, 4}), cp = draws.of({1, 1, 1, 2, 2, 4}), tp = draws.of({1, 1, 1, 2, 2, 4}),
            pp = draws.of({1, 1, 1, 2, 2, 3}), microbatches = draws.of({1, 1, 2, 3, 4});
  say(serial, "--model", draws.of({"tiny", "tiny", "tiny-llama"}));
  say(serial, "--layers", draws.of({1, 2, 3, 4}));
  say(serial, "--d-model", draws.of({16, 32}));
  say(serial, "--heads", 4);
  say(serial, "--sequence", draws.of({8, 16, 24}));
  say(serial, "--batch", dp * microbatches + draws.below(4));
  say(serial, "--steps", draws.of({1, 2, 2, 3}));
  if (draws.one_in(4)) serial.emplace_back("--untied");
  if (draws.one_in(6)) say(serial, "--tokens", "char");
  if (draws.one_in(6)) say(serial, "--clip", 0);
  if (draws.one_in(6)) say(serial, "--sample", 3);
  if (draws.one_in(3)) say(serial, "--attention", "materialised");
  if (draws.one_in(2)) say(serial, "--dropout", draws.of({"0.1", "0.5"}));
  const std::string precision = draws.of({"fp32", "fp32", "bf16", "fp16"});
  if (precision != "fp32") say(serial, "--precision", precision);
  if (precision == "fp16") {  // gradients that many ranks sum overflow sooner: with a low scale, they never do
    drawn.lossy = draws.one_in(2);
    if (!drawn.lossy) say(serial, "--loss-scale", "2^4");
  }
  say(layout, "--dp", dp);
  if (cp > 1) say(layout, "--cp", cp);
  if (tp > 1) say(layout, "--tp", tp);
  if (pp > 1) say(layout, "--pp", pp);
  if (microbatches > 1 || draws.one_in(2)) say(layout, "--microbatches", microbatches);
  if (pp > 1 && draws.one_in(2))
    say(layout, "--schedule", draws.of({"naive", "gpipe", "interleaved", "zb-h1", "zb-h2", "zb-v", "dualpipev"}));
  const int zero = draws.of({0, 0, 1, 1, 2, 3, 3});
  if (zero > 0) say(layout, "--zero", zero);
  if (zero > 1 && draws.one_in(2)) say(layout, "--wrap", draws.of({"model", "layer", "3000"}));
  if (zero == 3 && draws.one_in(2)) say(layout, "--prefetch", draws.of({0, 2}));
  if (zero == 3 && draws.one_in(3)) say(layout, "--shard-group", draws.of({1, 2, 4}));
  if ((zero == 1 || zero == 2) && draws.one_in(2)) layout.emplace_back("--overlap-gather");
  if (draws.one_in(3)) say(layout, "--bucket-bytes", draws.of({"1", "3kB", "20kB"}));
  if (draws.one_in(6)) layout.emplace_back("--no-overlap");
  if (tp > 1 && draws.one_in(2)) layout.emplace_back("--sequence-parallel");
  if (tp > 1 && draws.one_in(3)) layout.emplace_back("--overlap-scatter");
  if (draws.one_in(3)) say(layout, "--recompute", draws.of({"full", "full", "selective"}));
  if (precision != "fp32" && zero < 2 && draws.one_in(3))
    layout.emplace_back("--fp32-gradients");
  else if (precision != "fp32" && draws.one_in(3))
    say(layout, "--reduce", "fp32");
  if (draws.one_in(12)) {
    say(layout, "--compress", draws.of({"topk:0.1", "int8", "int8-two-step", "topk+int8:0.1"}));
    drawn.lossy = true;
  } else if (draws.one_in(12)) {
    say(layout, "--outer-steps", draws.of({1, 2, 3}));
    drawn.lossy = true;
  }
  if (draws.one_in(4)) say(layout, "--log-every", draws.of({1, 2}));
  return drawn;
}

/// Replicas that share experts.
Drawn draw_mixture(Draws& draws) {
  Drawn drawn;
  const int dp = draws.of({2, 4}), microbatches = draws.of({1, 1, 2, 3});
  drawn.serial = {"--model", "tiny-moe"};
  const auto say = [&](CommandWords& words, const char* option, const auto& value) {
    words.emplace_back(option);
    words.push_back(fmt::format("{}", value));
  };
  say(drawn.serial, "--layers", draws.of({1, 2, 3}));
  say(drawn.serial, "--d-model", draws.of({16, 32}));
  say(drawn.serial, "--heads", draws.of({2, 4}));
  say(drawn.serial, "--sequence", draws.of({8, 24}));
  say(drawn.serial, "--batch", dp * microbatches + draws.below(4));
  say(drawn.serial, "--steps", draws.of({1, 2, 3}));
  if (draws.one_in(3)) drawn.serial.emplace_back("--untied");
  if (draws.one_in(4)) say(drawn.serial, "--clip", 0);
  if (draws.one_in(2)) say(drawn.serial, "--dropout", 0.2);
  if (draws.one_in(3)) say(drawn.serial, "--sample", 3);
  say(drawn.layout, "--dp", dp);
  say(drawn.layout, "--microbatches", microbatches);
  if (draws.one_in(3)) say(drawn.layout, "--bucket-bytes", draws.of({1, 3000}));
  if (draws.one_in(3)) drawn.layout.emplace_back("--no-overlap");
  if (draws.one_in(3)) say(drawn.layout, "--log-every", 2);
  return drawn;
}

TrainRequest parsed(const CommandWords& words) {
  CommandWords all = {"train", "--threads", "1"};
  all.insert(all.end(), words.begin(), words.end());
  if (std::find(words.begin(), words.end(), "--sample") == words.end())
    for (const char* none : {"--sample", "0"}) all.emplace_back(none);
  std::vector<char*> pointers;
  for (std::string& word : all) pointers.push_back(word.data());
  TrainRequest options;
  EXPECT_FALSE(parse(static_cast<int>(pointers.size()), pointers.data(), options));
  return options;
}

CommandWords joined(const Drawn& drawn) {
  CommandWords words = drawn.serial;
  words.insert(words.end(), drawn.layout.begin(), drawn.layout.end());
  return words;
}

/// Number of a row, which may be a count; NaN if it has none of that name.
double number_of(const Row& row, const std::string& field) {
  const Row::Value* value = find(row, field);
  const auto* count = value ? std::get_if<std::uint64_t>(value) : nullptr;
  return count ? static_cast<double>(*count) : number(row, field);
}

/// Without what moves work in time, or does it twice, and so must not change a bit. (In a pipeline recomputed blocks
/// cost more, so stages get other parts.)
CommandWords at_its_plainest(const CommandWords& words) {
  CommandWords plain;
  const bool stages = std::find(words.begin(), words.end(), "--pp") != words.end();
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto is = [&](std::initializer_list<const char*> names) {
      return std::find(names.begin(), names.end(), words[i]) != names.end();
    };
    if (is({"--prefetch", "--log-every"}) || (!stages && is({"--recompute"})))
      ++i;
    else if (!is({"--overlap-gather", "--overlap-scatter", "--no-overlap"}))
      plain.push_back(words[i]);
  }
  return plain;
}

/// A run's differences from what it should be, a sentence each. `plain`: the same run at its plainest.
std::vector<std::string> disagreements(const Drawn& drawn, const Trained& seen, const Trained& plain,
                                       const Trained& serial) {
  std::vector<std::string> all;
  const auto differ = [&all](const std::string& what, double got, double expected) {
    all.push_back(fmt::format("{}: {:.9g}, expected {:.9g}", what, got, expected));
  };
  const bool fp32 = std::find(drawn.serial.begin(), drawn.serial.end(), "--precision") == drawn.serial.end();
  // Sums over ranks are rounded in another order, in 16 bits by 2^-8 of them; AdamW's first steps carry that on.
  const double tolerance = fp32 ? 2e-5 : 5e-3;
  for (std::size_t i = 0; i < serial.losses.size() && (i == 0 || !drawn.lossy); ++i)
    if (!(std::abs(seen.losses.at(i) - serial.losses[i]) <= tolerance * serial.losses[i]))
      differ(fmt::format("loss of step {}, the serial run's", i + 1), seen.losses[i], serial.losses[i]);
  for (const double squares : seen.squares)
    if (squares != seen.squares.front())
      differ("squares of a rank's parameters, the first's", squares, seen.squares[0]);
  for (std::size_t i = 0; i < plain.losses.size(); ++i)
    if (seen.losses.at(i) != plain.losses[i])
      differ(fmt::format("loss of step {}, to the bit that of the plainest such layout", i + 1), seen.losses[i],
             plain.losses[i]);
  if (seen.squares != plain.squares) differ("squares of the parameters, likewise", seen.squares[0], plain.squares[0]);
  const auto same = [&](const std::string& measured, const std::string& predicted) {
    const double got = number_of(seen.row, measured), expected = number_of(seen.row, predicted);
    if (!(std::abs(got - expected) < 1e-3)) differ(measured + ", as predicted", got, expected);
  };
  if (seen.outcome.ledgers.size() > 1) same("bytes_sent_per_step", "predicted_bytes_sent_per_step");
  const bool routed = drawn.serial[1] == "tiny-moe";  // what rows a rank then holds is not known before
  for (const State& state : kState)
    if (!routed || state.category != Category::activation)
      same(fmt::format("{}_bytes_peak", state.field), fmt::format("predicted_{}_bytes", state.field));
  return all;
}

int from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}

void check_layouts(int count, Drawn (*draw_one)(Draws&)) {
  Draws draws(static_cast<std::uint64_t>(from_environment("LAYOUTS_SEED", 1)));
  std::map<CommandWords, Trained> serial_runs;
  int checked = 0, agree = 0;
  for (int tries = 0; checked < count; ++tries) {
    ASSERT_LT(tries, 20 * (count + 1)) << "nearly all layouts are refused";
    const Drawn drawn = draw_one(draws);
    const TrainRequest options = parsed(joined(drawn));
    try {
      if (make_plan(options, 0).run.ranks > 8) continue;  // more than the machine has
    } catch (const Error& error) {
      ASSERT_EQ(error.verdict(), Verdict::usage) << error.what();
      continue;  // refused
    }
    ++checked;
    const auto [serial, is_new] = serial_runs.try_emplace(drawn.serial);
    if (is_new) {
      CommandWords alone = drawn.serial;
      for (const char* one : {"--ranks", "1"}) alone.emplace_back(one);
      serial->second = train(parsed(alone));
    }
    const Trained seen = train(options);
    const CommandWords words = joined(drawn), plain = at_its_plainest(words);
    const std::vector<std::string> wrong =
        disagreements(drawn, seen, plain == words ? seen : train(parsed(plain)), serial->second);
    agree += wrong.empty();
    if (!wrong.empty())
      ADD_FAILURE() << fmt::format("{}\n  ./lab train --backend sim {}", fmt::join(wrong, "\n"), fmt::join(words, " "));
  }
  EXPECT_EQ(agree, checked) << "layouts that agree";
}

TEST(Train, AnyLayoutIsTheSerialRunAndKeepsItsPredictions) { check_layouts(from_environment("LAYOUTS", 30), draw); }

TEST(Train, AnyLayoutOfExpertsIsTheSerialRunAndKeepsItsPredictions) {
  check_layouts(from_environment("LAYOUTS", 30) / 3, draw_mixture);
}

}  // namespace
}  // namespace lockstep::train
