// However a run of ./lab train is spread over ranks, and in whatever precision, it is the serial run.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "common/support/json/row_fields.hpp"
#include "common/support/tests/refusal_testing.hpp"
#include "tools/train/train_testing.hpp"

namespace lockstep::train {
namespace {

/// Losses step by step: within `absolute`, and `relative` of the expected ones.
void expect_losses(const Trained& got, const Trained& expected, double absolute, double relative,
                   const std::string& what) {
  ASSERT_EQ(got.losses.size(), expected.losses.size()) << what;
  for (std::size_t i = 0; i < got.losses.size(); ++i)
    EXPECT_NEAR(got.losses[i], expected.losses[i], absolute + relative * expected.losses[i])
        << "step " << i + 1 << ", " << what;
}

TEST(Train, DataParallelRunsAreTheSerialRun) {
  const TrainRequest serial = small_run();
  const Trained expected = train(serial);
  ASSERT_EQ(expected.losses.size(), 8u);
  EXPECT_NEAR(expected.losses.front(), std::log(256.0), 0.4);
  for (int ranks : {2, 3})  // 7 sequences: shards of 4 and 3, of 3, 2 and 2
    for (std::size_t accumulate : {1, 2})
      for (bool overlap : {true, false}) {
        TrainRequest options = serial;
        options.ranks = ranks;
        options.microbatches = accumulate;
        options.no_overlap = !overlap;
        options.bucket_bytes = "100kB";
        const Trained got = train(options);
        expect_losses(got, expected, 2e-4, 0, fmt::format("{} ranks", ranks));
        EXPECT_NEAR(got.validation, expected.validation, 2e-4);
        for (double squares : got.squares) EXPECT_EQ(squares, got.squares.front());
      }
}

// 16-bit gradients are rounded once more for each shard; a recomputed activation is the same to the bit.
TEST(Train, PrecisionAndRecomputation) {
  for (const char* precision : {"fp32", "bf16", "fp16"}) {
    TrainRequest serial = small_run();
    serial.precision = precision;
    if (serial.precision == "fp16") serial.loss_scale = "2^8";  // a rank's gradients are p times as large: no overflow
    serial.attention = "materialised";
    const Trained expected = train(serial);
    for (int ranks : {1, 3})
      for (const char* recompute : {"none", "selective", "full"}) {
        TrainRequest options = serial;
        options.ranks = ranks;
        options.recompute = recompute;
        options.reduce = ranks > 1 ? "fp32" : "";
        const Trained got = train(options);
        const double tolerance = ranks == 1 ? 0 : options.precision == "fp32" ? 2e-4 : 0.02;
        expect_losses(got, expected, tolerance, 0,
                      fmt::format("{}, recompute {}, {} ranks", precision, recompute, ranks));
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
    TrainRequest options = small_run();
    options.steps = 100;
    options.warmup = 10;
    options.batch = 8;
    options.learning_rate = 1e-2;
    options.precision = precision;
    options.loss_scale = scale;
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
      TrainRequest options = small_run();
      options.ranks = ranks;
      options.zero = stage;
      options.microbatches = static_cast<std::size_t>(ranks == 3 ? 2 : 1);
      options.wrap = stage == 2 ? "5000" : "block";
      const Trained got = train(options);
      expect_losses(got, expected, 2e-4, 0, fmt::format("stage {}", stage));
      EXPECT_NEAR(got.validation, expected.validation, 2e-4) << "stage " << stage;
      for (double squares : got.squares) EXPECT_NEAR(squares, expected.squares.front(), 1e-3 * squares);
    }
}

/// Losses and norms to the last bit, and as many bytes sent by every rank.
void expect_same_bits(const Trained& got, const Trained& expected, const std::string& what) {
  EXPECT_EQ(got.losses, expected.losses) << what;
  EXPECT_EQ(got.validation, expected.validation) << what;
  EXPECT_EQ(got.squares, expected.squares) << what;
  for (std::size_t r = 0; r < got.outcome.ledgers.size(); ++r)
    EXPECT_EQ(got.outcome.ledgers[r].traffic.bytes_sent, expected.outcome.ledgers[r].traffic.bytes_sent) << what;
}

// Gathering behind the next forward gives the same bits as gathering before it, in the same messages.
TEST(Train, ValuesGatheredBehindTheForwardHaveTheSameBits) {
  struct Row {
    int dp, tp, pp, zero;
    const char *schedule, *precision = "fp32";
    std::size_t sample = 0;
  };
  for (const Row& row : {Row{2, 1, 1, 1, "1f1b"}, Row{3, 1, 1, 2, "1f1b", "fp32", 20}, Row{2, 1, 1, 1, "1f1b", "fp16"},
                         Row{2, 1, 2, 1, "1f1b", "bf16", 20}, Row{2, 2, 2, 1, "interleaved"}}) {
    TrainRequest options = small_run();
    options.heads = 4;
    options.batch = 13;
    set_mesh(options, row.dp, row.tp, row.pp);
    options.microbatches = 4;
    options.schedule = row.schedule;
    options.zero = row.zero;
    options.precision = row.precision;
    options.loss_scale = row.precision == std::string("fp16") ? "2^24" : "dynamic";  // the first steps overflow
    options.bucket_bytes = "20kB";
    options.wrap = "5000";
    options.validate_every = 3;
    options.sample = row.sample;
    const Trained expected = train(options);
    options.overlap_gather = true;
    const Trained got = train(options);
    const std::string what =
        fmt::format("dp {} tp {} pp {} ZeRO-{} {}", row.dp, row.tp, row.pp, row.zero, row.precision);
    expect_same_bits(got, expected, what);
    for (std::size_t r = 0; r < got.outcome.ledgers.size(); ++r) {
      const RankLedger &now = got.outcome.ledgers[r], &before = expected.outcome.ledgers[r];
      EXPECT_EQ(now.memory.peak_total, before.memory.peak_total) << what;
    }
  }
}

// A scatter behind a product adds in the same order: the same bits and messages, for blocks of either kind.
TEST(Train, GradientsScatteredBehindAProductHaveTheSameBits) {
  for (const char* model : {"tiny", "tiny-llama"})
    for (const auto& [dp, tp, pp, precision] :
         std::vector<std::tuple<int, int, int, const char*>>{{1, 2, 1, "fp32"}, {2, 2, 2, "bf16"}, {1, 2, 1, "fp16"}}) {
      TrainRequest options = small_run();
      options.model = model;
      options.batch = 8;
      set_mesh(options, dp, tp, pp);
      options.zero = dp > 1 ? 1 : 0;
      options.sequence_parallel = true;
      options.precision = precision;
      options.loss_scale = precision == std::string("fp16") ? "2^8" : "dynamic";
      if (pp == 1 && precision != std::string("fp32")) options.recompute = "full";
      const Trained expected = train(options);
      options.overlap_scatter = true;
      const Trained got = train(options);
      const std::string what = fmt::format("{}: dp {} tp {} pp {} {}", model, dp, tp, pp, precision);
      expect_same_bits(got, expected, what);
      for (std::size_t r = 0; r < got.outcome.ledgers.size(); ++r) {
        const RankLedger &now = got.outcome.ledgers[r], &before = expected.outcome.ledgers[r];
        EXPECT_NEAR(static_cast<double>(now.memory.peak_total), static_cast<double>(before.memory.peak_total),
                    1e-3 * static_cast<double>(before.memory.peak_total))
            << what << ": a ring's scratch lives longer";
      }
    }
}

TEST(Train, TensorParallelRunsAreTheSerialRun) {
  TrainRequest serial = small_run();
  serial.heads = 4;
  serial.batch = 6;
  const Trained expected = train(serial);
  for (const auto& [ranks, tp] : std::vector<std::pair<int, int>>{{2, 2}, {4, 4}, {4, 2}})
    for (bool rows : {false, true}) {
      TrainRequest options = serial;
      options.ranks = ranks;
      options.tp = tp;
      options.sequence_parallel = rows;
      options.microbatches = ranks == tp ? 2 : 1;
      const Trained seen = train(options);
      expect_losses(seen, expected, 0, 2e-6,
                    fmt::format("--ranks {} --tp {}{}", ranks, tp, rows ? " --sequence-parallel" : ""));
      EXPECT_NEAR(seen.validation, expected.validation, 1e-5);
      for (double squares : seen.squares) EXPECT_NEAR(squares / expected.squares[0], 1, 1e-5);
    }
}

TEST(Train, PipelinesAndMeshesAreTheSerialRun) {
  TrainRequest serial = small_run();
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
        Row{1, 1, 2, "zb-h1", 0, 5}, Row{1, 1, 2, "zb-h2", 0, 5}, Row{1, 1, 2, "zb-v", 0, 5}, Row{2, 1, 2, "zb-v", 1},
        Row{1, 1, 2, "dualpipev", 0, 5}, Row{2, 1, 2, "dualpipev", 1}, Row{2, 1, 2, "1f1b", 1}, Row{2, 2, 1, "1f1b", 2},
        Row{2, 2, 1, "1f1b", 3}, Row{2, 2, 2, "1f1b", 1, 0}}) {
    TrainRequest options = serial;
    set_mesh(options, row.dp, row.tp, row.pp);
    options.schedule = row.schedule;
    options.zero = row.zero;
    options.microbatches = row.microbatches;
    options.sequence_parallel = row.tp > 1;
    const Trained seen = train(options);
    const std::string what =
        std::to_string(row.dp) + " × " + std::to_string(row.tp) + " × " + std::to_string(row.pp) + " " + row.schedule;
    expect_losses(seen, expected, 0, 2e-6, what);
    EXPECT_NEAR(seen.validation, expected.validation, 1e-5) << what;
    for (double squares : seen.squares) {
      EXPECT_EQ(squares, seen.squares[0]) << what;
      EXPECT_NEAR(squares / expected.squares[0], 1, 1e-5) << what;
    }
  }
}

TEST(Train, LlamasOnAnyMeshAreTheSerialRun) {
  TrainRequest serial = small_run();
  serial.model = "tiny-llama";
  serial.batch = 9;
  const Trained expected = train(serial);
  EXPECT_NEAR(expected.losses.front(), std::log(256.0), 0.4);
  EXPECT_LT(expected.losses.back(), expected.losses.front() - 0.1);
  struct Row {
    int dp, tp, pp;
    const char* schedule;
    int zero = 0;
    bool rows = false;
    const char* recompute = "none";
    const char* attention = "flash";
    std::size_t microbatches = 4;
  };
  for (const Row& row :
       {Row{3, 1, 1, "1f1b"}, Row{1, 2, 1, "1f1b"}, Row{1, 2, 1, "1f1b", 0, true},
        Row{1, 2, 1, "1f1b", 0, true, "full"}, Row{1, 2, 1, "1f1b", 0, false, "selective", "materialised"},
        Row{1, 1, 2, "1f1b", 0, false, "full"}, Row{1, 1, 2, "interleaved"},
        Row{1, 1, 2, "zb-h1", 0, false, "none", "flash", 5}, Row{3, 1, 1, "1f1b", 1}, Row{2, 2, 1, "1f1b", 2, true},
        Row{3, 1, 1, "1f1b", 3}, Row{2, 2, 1, "1f1b", 3}, Row{2, 2, 2, "1f1b", 1, true, "none", "flash", 0}}) {
    TrainRequest options = serial;
    set_mesh(options, row.dp, row.tp, row.pp);
    options.schedule = row.schedule;
    options.zero = row.zero;
    options.microbatches = row.dp > 2 ? 1 : row.microbatches;
    options.sequence_parallel = row.rows;
    options.recompute = row.recompute;
    options.attention = row.attention;
    const Trained seen = train(options);
    const std::string what = std::to_string(row.dp) + " × " + std::to_string(row.tp) + " × " + std::to_string(row.pp) +
                             " " + row.schedule + ", ZeRO-" + std::to_string(row.zero) + ", " + row.recompute;
    expect_losses(seen, expected, 0, 4e-6, what);
    EXPECT_NEAR(seen.validation, expected.validation, 2e-5) << what;
    for (double squares : seen.squares) EXPECT_NEAR(squares / expected.squares[0], 1, 1e-5) << what;
    for (const RankLedger& ledger : seen.outcome.ledgers)
      EXPECT_LE(ledger.memory.peak_of(Category::activation), make_plan(options, 0).peak.peak_of(Category::activation))
          << what;
  }
}

TEST(Train, LlamasThatCannotBeCutAreRefusedInWords) {
  const auto answer = [](int tp, const std::string& more) {
    TrainRequest options = small_run();
    options.model = "tiny-llama";
    set_mesh(options, 1, tp, 1);
    if (more == "heads") options.heads = 8;
    return refusal([&] { make_plan(options, 0); });
  };
  EXPECT_EQ(answer(2, ""), "");
  EXPECT_EQ(answer(4, ""),
            "2 key-value heads do not divide over 4 tensor-parallel ranks: a head is never split or copied");
  EXPECT_EQ(answer(3, ""), "4 heads do not divide over 3 tensor-parallel ranks: a head is never split");
}

/// Losses step by step, the validation's, and the squares of the values at the end.
void expect_serial(const TrainRequest& options, const Trained& expected, double tolerance) {
  const Trained seen = train(options);
  const std::string what =
      fmt::format("--model {} --dp {} --cp {} --tp {} --pp {} --zero {} --recompute {}", options.model, options.dp,
                  options.cp, options.tp, options.pp, options.zero, options.recompute);
  expect_losses(seen, expected, 0, tolerance, what);
  EXPECT_NEAR(seen.validation, expected.validation, 5 * tolerance) << what;
  for (double squares : seen.squares) EXPECT_NEAR(squares / expected.squares[0], 1, 5 * tolerance) << what;
}

struct ContextRow {
  int dp, cp, tp, pp, zero;
  const char* recompute;
};
void expect_serial(const TrainRequest& serial, const Trained& expected, double tolerance,
                   std::initializer_list<ContextRow> rows) {
  for (const ContextRow& row : rows) {
    TrainRequest options = serial;
    set_mesh(options, row.dp, row.tp, row.pp);
    options.cp = row.cp;
    options.zero = row.zero;
    options.recompute = row.recompute;
    expect_serial(options, expected, tolerance);
  }
}

/// Every mesh of up to 8 ranks whose sequences are shared.
int expect_every_mesh(const TrainRequest& serial, const Trained& expected, double tolerance,
                      std::initializer_list<int> tensor) {
  int meshes = 0;
  for (const int cp : {2, 4, 8})
    for (int dp = 1; dp * cp <= 8; ++dp)
      for (const int tp : tensor)
        for (int pp = 1; dp * cp * tp * pp <= 8 && pp <= 4; ++pp, ++meshes) {
          TrainRequest options = serial;
          set_mesh(options, dp, tp, pp);
          options.cp = cp;
          options.microbatches = pp > 1 ? 0 : 2;
          expect_serial(options, expected, tolerance);
        }
  return meshes;
}

TEST(Train, ContextParallelRunsAreTheSerialRun) {
  TrainRequest serial = small_run();
  serial.heads = 4;
  serial.batch = 9;
  const Trained expected = train(serial);
  EXPECT_EQ(expect_every_mesh(serial, expected, 2e-6, {1, 2, 4}), 17);
  expect_serial(serial, expected, 2e-6,
                {{1, 2, 1, 1, 1, "none"},
                 {2, 2, 1, 1, 2, "none"},
                 {1, 4, 1, 1, 3, "none"},
                 {2, 2, 1, 2, 1, "full"},
                 {1, 2, 2, 2, 0, "full"}});
  TrainRequest odd = serial;  // chunks of 4 positions, 6 of them
  odd.sequence = 24;
  const Trained of_24 = train(odd);
  odd.cp = 3;
  odd.dp = 1;
  expect_serial(odd, of_24, 2e-6);
}

/// Rotary positions are those of the whole sequence, and heads that share keys share them round the ring. The tolerance
/// is that of LlamasOnAnyMeshAreTheSerialRun: sums over ranks round otherwise, and eight steps carry that on.
TEST(Train, LlamasShareTheirSequencesToo) {
  TrainRequest serial = small_run();
  serial.model = "tiny-llama";
  serial.batch = 9;
  serial.heads = 8;  // of which four share a key-value head
  const Trained expected = train(serial);
  EXPECT_EQ(expect_every_mesh(serial, expected, 4e-6, {1, 2}), 16);
  expect_serial(serial, expected, 4e-6,
                {{1, 2, 1, 1, 1, "none"},
                 {2, 2, 1, 1, 2, "none"},
                 {1, 4, 1, 1, 3, "none"},
                 {2, 2, 1, 2, 1, "full"},
                 {1, 2, 2, 2, 0, "full"}});
}

/// Groups of ranks that hold the whole state each: the losses are plain ZeRO-3's to rounding, as sums go in another
/// order, and the state is divided over the ranks of one group.
TEST(Train, HybridShardingIsTheSerialRun) {
  TrainRequest serial = small_run();
  serial.heads = 4;
  serial.batch = 16;
  const Trained expected = train(serial);
  struct Row {
    int dp, group, cp, tp;
    int microbatches;
    const char* wrap;
  };
  for (const Row& row : {Row{4, 2, 1, 1, 1, "block"}, Row{6, 3, 1, 1, 2, "layer"}, Row{8, 2, 1, 1, 2, "block"},
                         Row{8, 4, 1, 1, 1, "model"}, Row{4, 1, 1, 1, 3, "block"}, Row{2, 2, 2, 1, 2, "block"},
                         Row{4, 2, 1, 2, 2, "block"}, Row{4, 4, 1, 1, 2, "block"}}) {
    TrainRequest options = serial;
    set_mesh(options, row.dp, row.tp, 1);
    options.cp = row.cp;
    options.zero = 3;
    options.shard_group = row.group;
    options.microbatches = row.microbatches;
    options.wrap = row.wrap;
    options.sequence_parallel = row.tp > 1;
    expect_serial(options, expected, 2e-6);
    if (row.cp > 1) continue;
    const auto state_of = [](const TrainRequest& o) {
      std::uint64_t most = 0;
      for (const RankLedger& ledger : train(o).outcome.ledgers)
        most = std::max(most, ledger.memory.peak_of(Category::optimizer));
      return most;
    };
    TrainRequest group_alone = options;
    group_alone.shard_group = 0;
    group_alone.dp = row.group;
    EXPECT_EQ(state_of(options), state_of(group_alone)) << row.dp << " ranks in groups of " << row.group;
  }
}

TEST(Train, LossScalesWorkOnShares) {
  // A scale that overflows at once: every rank must see it, though each holds a part of the gradients; and all stages
  // skip the same steps.
  std::vector<double> plain;
  for (int stage : {0, 1, 2, 3}) {
    TrainRequest options = small_run();
    options.ranks = 2;
    options.zero = stage;
    options.batch = 8;
    options.precision = "fp16";
    options.loss_scale = "16777216";
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

// Ranks sum gradients before they divide by their number. So a scale that is too high for the serial run's gradients is
// too high for theirs, and N ranks must halve it log2 N times more; whether they are replicas or share sequences.
TEST(Train, GradientsThatRanksSumNeedALowerLossScale) {
  const auto last_scale = [](int dp, int cp) {
    TrainRequest options = small_run();
    set_mesh(options, dp, 1, 1);
    options.cp = cp;
    options.batch = 8;
    options.precision = "fp16";
    options.loss_scale = "2^20";
    const Trained got = train(options);
    for (const double squares : got.squares) EXPECT_EQ(squares, got.squares.front()) << "a rank skipped other steps";
    return number(got.row, "loss_scale");
  };
  const double alone = last_scale(1, 1);
  EXPECT_LT(alone, 0x1p20);
  EXPECT_EQ(last_scale(4, 1), alone / 4);
  EXPECT_EQ(last_scale(1, 4), alone / 4);
  EXPECT_EQ(last_scale(2, 2), alone / 4);
}

}  // namespace
}  // namespace lockstep::train
