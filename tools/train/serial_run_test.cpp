// However a run of ./lab train is spread over ranks, and in whatever precision, it is the serial run.
#include <gtest/gtest.h>

#include <cmath>

#include "tools/train/train_testing.hpp"

namespace lockstep::train {
namespace {

TEST(Train, DataParallelRunsAreTheSerialRun) {
  const TrainOptions serial = small_run();
  const Trained expected = train(serial);
  ASSERT_EQ(expected.losses.size(), 8u);
  EXPECT_NEAR(expected.losses.front(), std::log(256.0), 0.4);
  for (int ranks : {2, 3})  // 7 sequences: shards of 4 and 3, of 3, 2 and 2
    for (std::size_t accumulate : {1, 2})
      for (bool overlap : {true, false}) {
        TrainOptions options = serial;
        options.ranks = ranks;
        options.microbatches = accumulate;
        options.no_overlap = !overlap;
        options.words.bucket_bytes = "100kB";
        const Trained got = train(options);
        ASSERT_EQ(got.losses.size(), expected.losses.size());
        for (std::size_t i = 0; i < got.losses.size(); ++i)
          EXPECT_NEAR(got.losses[i], expected.losses[i], 2e-4) << "step " << i + 1 << ", " << ranks << " ranks";
        EXPECT_NEAR(got.validation, expected.validation, 2e-4);
        for (double squares : got.squares) EXPECT_EQ(squares, got.squares.front());
      }
}

// 16-bit gradients are rounded once more for each shard; a recomputed activation is the same to the bit.
TEST(Train, PrecisionAndRecomputation) {
  for (const char* precision : {"fp32", "bf16", "fp16"}) {
    TrainOptions serial = small_run();
    serial.words.precision = precision;
    if (serial.words.precision == "fp16")
      serial.words.loss_scale = "2^8";  // a rank's gradients are p times as large: no overflow
    serial.words.attention = "materialised";
    const Trained expected = train(serial);
    for (int ranks : {1, 3})
      for (const char* recompute : {"none", "selective", "full"}) {
        TrainOptions options = serial;
        options.ranks = ranks;
        options.words.recompute = recompute;
        options.words.reduce = ranks > 1 ? "fp32" : "";
        const Trained got = train(options);
        const double tolerance = ranks == 1 ? 0 : options.words.precision == "fp32" ? 2e-4 : 0.02;
        for (std::size_t i = 0; i < got.losses.size(); ++i)
          EXPECT_NEAR(got.losses[i], expected.losses[i], tolerance)
              << "step " << i + 1 << ", " << precision << ", recompute " << recompute << ", " << ranks << " ranks";
        for (double squares : got.squares) EXPECT_EQ(squares, got.squares.front());
        for (const RankLedger& ledger : got.outcome.ledgers)  // the first replica has most sequences
          EXPECT_LE(ledger.memory.peak_of(Category::activation),
                    make_plan(options, 0).peak.peak_of(Category::activation));
        EXPECT_EQ(got.outcome.ledgers[0].memory.peak_of(Category::activation),
                  make_plan(options, 0).peak.peak_of(Category::activation));
      }
  }
}

// A loss scale far too low: the gradients vanish. One that may grow finds its way, one far too high too.
TEST(Train, Fp16NeedsAScaleAndFindsIt) {
  const auto last_loss = [](const char* precision, const char* scale, int interval) {
    TrainOptions options = small_run();
    options.steps = 100;
    options.warmup = 10;
    options.batch = 8;
    options.learning_rate = 1e-2;
    options.words.precision = precision;
    options.words.loss_scale = scale;
    options.loss_scale_interval = interval;
    const Trained got = train(options);
    double sum = 0;
    for (std::size_t i = 90; i < 100; ++i) sum += got.losses[i] / 10;
    return sum;
  };
  const double fp32 = last_loss("fp32", "dynamic", 2000);
  EXPECT_NEAR(last_loss("bf16", "dynamic", 2000), fp32, 0.1);
  // A quarter of the steps is lost on the way.
  EXPECT_LT(last_loss("fp16", "2^40", 2000), fp32 + 0.4);
  EXPECT_LT(last_loss("fp16", "2^-17", 2), fp32 + 0.4);
  EXPECT_GT(last_loss("fp16", "2^-17", 1000), fp32 + 1);
}

TEST(Train, EveryZeroStageIsTheSerialRun) {
  const Trained expected = train(small_run());
  for (int stage : {1, 2, 3})
    for (int ranks : {1, 3}) {
      TrainOptions options = small_run();
      options.ranks = ranks;
      options.zero = stage;
      options.microbatches = static_cast<std::size_t>(ranks == 3 ? 2 : 1);
      options.words.wrap = stage == 2 ? "5000" : "block";
      const Trained got = train(options);
      ASSERT_EQ(got.losses.size(), expected.losses.size());
      for (std::size_t i = 0; i < got.losses.size(); ++i)
        EXPECT_NEAR(got.losses[i], expected.losses[i], 2e-4) << "stage " << stage << ", step " << i + 1;
      EXPECT_NEAR(got.validation, expected.validation, 2e-4) << "stage " << stage;
      for (double squares : got.squares) EXPECT_NEAR(squares, expected.squares.front(), 1e-3 * squares);
    }
}

TEST(Train, TensorParallelRunsAreTheSerialRun) {
  TrainOptions serial = small_run();
  serial.heads = 4;
  serial.batch = 6;
  const Trained expected = train(serial);
  for (const auto& [ranks, tp] : std::vector<std::pair<int, int>>{{2, 2}, {4, 4}, {4, 2}})
    for (bool rows : {false, true}) {
      TrainOptions options = serial;
      options.ranks = ranks;
      options.mesh.tp = tp;
      options.sequence_parallel = rows;
      options.microbatches = ranks == tp ? 2 : 1;
      const Trained seen = train(options);
      ASSERT_EQ(seen.losses.size(), expected.losses.size());
      for (std::size_t i = 0; i < expected.losses.size(); ++i)
        ASSERT_NEAR(seen.losses[i], expected.losses[i], 2e-6 * expected.losses[i])
            << "step " << i << " of --ranks " << ranks << " --tp " << tp << (rows ? " --sequence-parallel" : "");
      EXPECT_NEAR(seen.validation, expected.validation, 1e-5);
      for (double squares : seen.squares) EXPECT_NEAR(squares / expected.squares[0], 1, 1e-5);
    }
}

TEST(Train, PipelinesAndMeshesAreTheSerialRun) {
  TrainOptions serial = small_run();
  serial.heads = 4;
  serial.batch = 9;
  const Trained expected = train(serial);
  struct Row {
    int dp, tp, pp;
    const char* schedule;
    int zero = 0;
    std::size_t microbatches = 4;  // of 9 sequences: 3, 2, 2, 2
  };
  for (const Row& row :
       {Row{1, 1, 2, "1f1b"}, Row{1, 1, 3, "naive"}, Row{1, 1, 4, "gpipe"}, Row{1, 1, 2, "interleaved"},
        Row{1, 1, 2, "zb-h1", 0, 5}, Row{1, 1, 2, "zb-h2", 0, 5}, Row{2, 1, 2, "1f1b", 1}, Row{2, 2, 1, "1f1b", 2},
        Row{2, 2, 1, "1f1b", 3}, Row{2, 2, 2, "1f1b", 1, 0}}) {
    TrainOptions options = serial;
    set_mesh(options, row.dp, row.tp, row.pp);
    options.schedule = row.schedule;
    options.zero = row.zero;
    options.microbatches = row.microbatches;
    options.sequence_parallel = row.tp > 1;
    const Trained seen = train(options);
    const std::string what =
        std::to_string(row.dp) + " × " + std::to_string(row.tp) + " × " + std::to_string(row.pp) + " " + row.schedule;
    ASSERT_EQ(seen.losses.size(), expected.losses.size()) << what;
    for (std::size_t i = 0; i < expected.losses.size(); ++i)
      ASSERT_NEAR(seen.losses[i], expected.losses[i], 2e-6 * expected.losses[i]) << "step " << i << ", " << what;
    EXPECT_NEAR(seen.validation, expected.validation, 1e-5) << what;
    for (double squares : seen.squares) {
      EXPECT_EQ(squares, seen.squares[0]) << what;
      EXPECT_NEAR(squares / expected.squares[0], 1, 1e-5) << what;
    }
  }
}

TEST(Train, LossScalesWorkOnShares) {
  // A scale that overflows at once: every rank must see it, though each holds a part of the gradients; and all stages
  // skip the same steps.
  std::vector<double> plain;
  for (int stage : {0, 1, 2, 3}) {
    TrainOptions options = small_run();
    options.ranks = 2;
    options.zero = stage;
    options.batch = 8;
    options.words.precision = "fp16";
    options.words.loss_scale = "16777216";
    options.steps = 16;
    const Trained got = train(options);
    EXPECT_TRUE(std::isfinite(got.losses.back())) << "stage " << stage;
    if (stage == 0) plain = got.losses;
    // Chunks are cut elsewhere, so fp16 sums round elsewhere; one step more or less would be a hundredth.
    for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(got.losses[i], plain[i], 1e-3) << "stage " << stage;
    EXPECT_LT(got.losses.back(), got.losses.front()) << "stage " << stage;
    EXPECT_EQ(got.squares[0], got.squares[1]) << "stage " << stage;
  }
}

}  // namespace
}  // namespace lockstep::train
