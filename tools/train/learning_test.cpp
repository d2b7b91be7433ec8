// Tests that runs of ./lab train learn: rates, optimizers, compressed averages, divergence; and the sample they print.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "tools/train/sample.hpp"
#include "tools/train/train_testing.hpp"

namespace lockstep::train {
namespace {

TrainRequest diverging_run() {
  TrainRequest options = small_run();
  options.steps = 100;
  options.warmup = 0;
  options.learning_rate = options.weight_decay.emplace(10);  // all values times −99 a step
  return options;
}

TEST(Train, ASampleCannotTellTheTerminalWhatToDo) {
  EXPECT_EQ(printable("a\x1b[2J\x07\x7f\tb\né"), "a\\x1b[2J\\x07\\x7f\tb\né");
  EXPECT_EQ(printable("\xe2\x82\xac \xf0\x9f\x98\x80"), "€ 😀");
  EXPECT_EQ(printable("\xe2\x82 \xff\x80"), "\\xe2\\x82 \\xff\\x80") << "cut, and no UTF-8 at all";
  EXPECT_EQ(printable("\xc0\xaf\xed\xa0\x80"), "\\xc0\\xaf\\xed\\xa0\\x80") << "too long a form; half a pair";
}

// At the step whose gradients are not finite, on all ranks; with nothing said of ranks that differ.
TEST(Train, ARunThatDivergesStopsAtThatStepAndSaysSo) {
  struct Row {
    int ranks, tp, pp;
    const char* precision;
  };
  for (const Row& row : {Row{1, 1, 1, "fp32"}, Row{2, 1, 1, "fp32"}, Row{4, 2, 2, "fp32"}, Row{2, 1, 1, "fp16"}}) {
    TrainRequest options = diverging_run();
    options.ranks = row.ranks;
    options.tp = row.tp;
    options.pp = row.pp;
    options.precision = row.precision;
    const Trained got = train(options);
    const bool scaled = options.precision == "fp16";
    EXPECT_TRUE(got.diverged);
    ASSERT_GT(got.losses.size(), 2u);
    EXPECT_LT(got.losses.size(), 60u);
    EXPECT_EQ(std::isfinite(got.losses[got.losses.size() - 2]), !scaled) << "at the first such step";
    ASSERT_EQ(got.complaints.size(), 1u);
    const std::string begin = fmt::format("the run diverged at step {}: ", got.losses.size());
    EXPECT_TRUE(got.complaints[0].starts_with(begin)) << got.complaints[0];
    // The loss of that step may be infinite already: that depends on how the compiler orders sums.
    const std::regex why(scaled ? "its gradients overflow at every loss scale" : "gradient norm (inf|NaN)");
    EXPECT_TRUE(std::regex_search(got.complaints[0], why)) << got.complaints[0];
  }
}

TEST(Train, LearnsMoreThanHowOftenEachByteOccurs) {
  TrainRequest options = small_run();
  options.steps = 120;
  options.warmup = 10;
  options.batch = 32;
  options.sequence = 32;
  options.learning_rate = 1e-2;
  const Trained got = train(options);
  const TrainPlan plan = make_plan(options, 0);
  EXPECT_LT(got.losses.back(), plan.corpus->unigram_entropy() - 0.3);
  EXPECT_LT(got.validation, plan.corpus->unigram_entropy() - 0.3);
}

// Same claim as 21.12 for plain gradient descent: more than 80 % of the loss reduction of a run that sums gradients in
// every step.
TEST(Train, OuterStepsLearnWithAFractionOfTheBytes) {
  TrainRequest options = small_run();
  options.ranks = 4;
  options.steps = 60;  // no multiple of 8: the last outer step comes early
  options.warmup = 10;
  options.batch = options.sequence = 32;
  options.learning_rate = 1e-2;
  const Trained summed = train(options);
  const double falls = summed.losses.front() - summed.validation;
  ASSERT_GT(falls, 1.5);
  struct Row {
    int every;
    double rate, momentum;
  };
  for (const Row& row : {Row{8, 0.7, 0.5}, Row{3, 1, 0}}) {
    TrainRequest outer = options;
    outer.outer_steps = row.every;
    outer.outer_learning_rate = row.rate;
    outer.outer_momentum = row.momentum;
    const Trained seen = train(outer);
    const std::string what = fmt::format("H = {}, rate {}, momentum {}", row.every, row.rate, row.momentum);
    const double part = (seen.losses.front() - seen.validation) / falls;
    const double bytes = 2 * 3.0 / 4 * 4 * static_cast<double>(make_plan(outer, 0).step.model.parameters());
    fmt::print("{}: the loss falls by {:.0f}% as much, with {:.1f}% of the bytes\n", what, 100 * part,
               100 * seen.bytes_sent.at(40) / summed.bytes_sent.at(40));
    EXPECT_GT(part, 0.8) << what;
    EXPECT_NEAR(seen.bytes_sent.at(40) * row.every / bytes, 1, 2e-3) << what;
    for (const double squares : seen.squares) EXPECT_EQ(squares, seen.squares[0]) << "replicas at the end, " << what;
  }
}

// Descent is linear in gradients, and so is its momentum: to average parameters after every step is to average
// gradients.
TEST(Train, AnOuterStepAfterEveryStepOfDescentIsASum) {
  TrainRequest options = small_run();
  options.ranks = 3;
  options.batch = 9;
  options.microbatches = 2;
  options.optimizer = "sgd";
  options.learning_rate = 0.5;
  options.warmup = 1;
  options.clip = 0;
  const Trained summed = train(options);
  options.outer_steps = 1;
  options.outer_learning_rate = 1;
  options.outer_momentum = 0;
  const Trained seen = train(options);
  ASSERT_EQ(seen.losses.size(), summed.losses.size());
  EXPECT_LT(summed.losses.back(), summed.losses.front() - 0.05);
  for (std::size_t i = 0; i < seen.losses.size(); ++i)
    EXPECT_NEAR(seen.losses[i], summed.losses[i], 1e-5 * summed.losses[i]) << "step " << i;
  options.outer_steps = 4;
  EXPECT_GT(std::abs(train(options).losses.back() - summed.losses.back()), 1e-5) << "replicas that never drift apart";
}

TEST(Train, RanksOnTheirOwnWayDivergeTogether) {
  TrainRequest options = diverging_run();
  options.ranks = 2;
  options.outer_steps = 4;
  const Trained got = train(options);
  EXPECT_TRUE(got.diverged);
  EXPECT_EQ(got.losses.size() % 4, 0u) << "at an outer step, where all ranks look";
  EXPECT_LT(got.losses.size(), 60u);
}

TEST(Train, LearningRateWarmsUpAndFallsToATenth) {
  TrainRequest options;
  options.steps = 100;
  options.warmup = 10;
  options.learning_rate = 1;
  EXPECT_FLOAT_EQ(learning_rate(0, options), 0.1f);
  EXPECT_FLOAT_EQ(learning_rate(9, options), 1);
  EXPECT_FLOAT_EQ(learning_rate(10, options), 1);
  EXPECT_FLOAT_EQ(learning_rate(55, options), 0.55f);
  EXPECT_FLOAT_EQ(learning_rate(100, options), 0.1f);
}

TEST(Train, LearningRateGrowsWithTheBatch) {
  TrainRequest options;
  options.steps = 100;
  options.warmup = 10;
  options.learning_rate = 0.5;
  options.batch = 32;
  options.base_batch = 8;
  options.lr_scaling = "linear";
  EXPECT_FLOAT_EQ(learning_rate(0, options), 0.65f) << "warm-up begins at --lr";
  EXPECT_FLOAT_EQ(learning_rate(9, options), 2);
  EXPECT_FLOAT_EQ(learning_rate(100, options), 0.2f);
  options.lr_scaling = "sqrt";
  EXPECT_FLOAT_EQ(learning_rate(9, options), 1);
}

// Momentum 0.9 of the mean gradient: after one step from zero state the parameters have moved by rate · gradient.
TEST(Train, DescentFollowsTheGradientAndNotItsSign) {
  TrainRequest options = small_run();
  options.optimizer = "sgd";
  options.learning_rate = 1;
  options.warmup = 0;
  options.clip = 0;
  options.steps = 40;
  const std::vector<double> losses = train(options).losses;
  EXPECT_LT(losses.back(), losses.front() - 0.5);
  options.clip = 1e-6;  // the same direction, and next to no step: AdamW would not care
  const std::vector<double> clipped = train(options).losses;
  EXPECT_NEAR(clipped.back(), clipped.front(), 0.2);
}

TEST(Train, CompressedRunsSendWhatTheFormulaSaysAndReplicasStayEqual) {
  struct Row {
    const char* compress;
    bool no_feedback;
    week21::Method method;
    double most;  // loss against the run without compression
  };
  TrainRequest options = small_run();
  options.ranks = 3;
  options.steps = 20;
  const Trained plain = train(options);
  for (const Row& row :
       {Row{"int8", false, week21::Method::int8, 0.02},
        Row{"int8-two-step", false, week21::Method::int8_two_step, 0.02},
        Row{"topk+int8:0.05", false, week21::Method::mixed, 0.02},
        Row{"topk+int8:0.05", true, week21::Method::mixed, 0.02}, Row{"topk:0.05", false, week21::Method::top_k, 1},
        Row{"topk:0.05", true, week21::Method::top_k, 1}}) {
    options.compress = row.compress;
    options.no_feedback = row.no_feedback;
    const Trained run = train(options);
    for (const double squares : run.squares) EXPECT_EQ(squares, run.squares.front()) << row.compress;
    EXPECT_LT(run.losses.back(), run.losses.front()) << row.compress;
    EXPECT_NEAR(run.losses.back(), plain.losses.back(), row.most) << row.compress;
    const double parameters = static_cast<double>(make_plan(options, 0).own_parameters());
    // All else, values at the start and losses for the log, is sent by both.
    const auto total = [](const Trained& of) { return static_cast<double>(of.outcome.ledgers[1].traffic.bytes_sent); };
    const double sent = options.steps * week21::bytes_sent({}, 3, parameters) - (total(plain) - total(run));
    const double said = options.steps * week21::bytes_sent({.method = row.method, .density = 0.05}, 3, parameters);
    EXPECT_NEAR(sent / said, 1, 0.01) << row.compress << ": but for what does not divide";
  }
}

TEST(Train, TopKSendsAnElementOfEachBucketAndSaysSo) {
  TrainRequest options = small_run();
  options.ranks = 3;
  options.steps = 2;
  struct Bytes {
    double sent, said;
  };
  const auto bytes_with = [&](const char* compress) {
    options.compress = compress;
    return Bytes{static_cast<double>(train(options).outcome.ledgers[1].traffic.bytes_sent),
                 options.steps * make_plan(options, 0).compressed_bytes()};
  };
  const Bytes few = bytes_with("topk:1e-9"), many = bytes_with("topk:0.03");
  const TrainPlan plan = make_plan(options, 0);
  const std::size_t buckets = plan.buckets().size();
  ASSERT_GT(buckets, 1u);
  EXPECT_EQ(few.said, static_cast<double>(options.steps) * 2 * 8 * static_cast<double>(buckets));
  EXPECT_EQ(many.sent - few.sent, many.said - few.said);  // all else is sent by both
  const Bytes mixed = bytes_with("topk+int8:0.03"), rounded = bytes_with("int8-two-step");
  EXPECT_EQ(mixed.sent - rounded.sent, many.said);  // the pairs
  EXPECT_EQ(mixed.said - rounded.said, many.said);
}

}  // namespace
}  // namespace lockstep::train
