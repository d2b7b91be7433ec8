// ./lab train: data-parallel training is the serial training, and what cannot work is refused in one sentence.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <sstream>

#include "labs/trainer/peak_memory.hpp"
#include "tools/train/phantom.hpp"
#include "tools/train/sample.hpp"
#include "tools/train/train_testing.hpp"

namespace lockstep::train {
namespace {

/// What parse() makes of a command line.
std::optional<int> parsed(std::vector<std::string> words, TrainOptions& options) {
  words.insert(words.begin(), "train");
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  return parse(static_cast<int>(pointers.size()), pointers.data(), options);
}

TEST(Train, ASampleCannotTellTheTerminalWhatToDo) {
  EXPECT_EQ(printable("a\x1b[2J\x07\x7f\tb\né"), "a\\x1b[2J\\x07\\x7f\tb\né");
  EXPECT_EQ(printable("\xe2\x82\xac \xf0\x9f\x98\x80"), "€ 😀");
  EXPECT_EQ(printable("\xe2\x82 \xff\x80"), "\\xe2\\x82 \\xff\\x80") << "cut, and no UTF-8 at all";
  EXPECT_EQ(printable("\xc0\xaf\xed\xa0\x80"), "\\xc0\\xaf\\xed\\xa0\\x80") << "too long a form; half a pair";
}

TEST_F(Folder, AConfigurationFileIsACommandLine) {
  std::ofstream(path("a.cfg")) << "# a run\nsteps = 3\nmodel = \"tiny\"\nno-overlap = true\nlr=1e-4\n";
  TrainOptions options;
  EXPECT_EQ(parsed({"--config", path("a.cfg"), "--steps", "4"}, options), std::nullopt);
  EXPECT_EQ(options.steps, 4) << "the command line goes before the file";
  EXPECT_EQ(options.model, "tiny");
  EXPECT_TRUE(options.no_overlap);
  EXPECT_EQ(options.learning_rate, 1e-4);

  const auto refused = [&](const std::string& text) {
    if (!text.empty()) std::ofstream(path("b.cfg")) << text;
    testing::internal::CaptureStderr();
    TrainOptions other;
    EXPECT_EQ(parsed({"--config", path("b.cfg")}, other), 2);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_NE(refused("stepps = 3\n").find("b.cfg: unknown option '--stepps': did you mean '--steps'?"),
            std::string::npos);
  EXPECT_NE(refused("steps = many\n").find("--steps wants a whole number"), std::string::npos);
  EXPECT_NE(refused("threads = 100000\n").find("--threads wants a whole number from 1 to 4096"), std::string::npos);
  std::filesystem::remove(path("b.cfg"));
  ASSERT_EQ(mkfifo(path("b.cfg").c_str(), 0600), 0);
  EXPECT_NE(refused("").find("cannot read " + path("b.cfg") + ": it is a pipe (FIFO), not a file"), std::string::npos);
}

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
        options.accumulate = accumulate;
        options.no_overlap = !overlap;
        options.bucket_bytes = "100kB";
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
    serial.precision = precision;
    if (serial.precision == "fp16") serial.loss_scale = "2^8";  // a rank's gradients are p times as large: no overflow
    serial.attention = "materialised";
    const Trained expected = train(serial);
    for (int ranks : {1, 3})
      for (const char* recompute : {"none", "selective", "full"}) {
        TrainOptions options = serial;
        options.ranks = ranks;
        options.recompute = recompute;
        options.reduce = ranks > 1 ? "fp32" : "";
        const Trained got = train(options);
        const double tolerance = ranks == 1 ? 0 : options.precision == "fp32" ? 2e-4 : 0.02;
        for (std::size_t i = 0; i < got.losses.size(); ++i)
          EXPECT_NEAR(got.losses[i], expected.losses[i], tolerance)
              << "step " << i + 1 << ", " << precision << ", recompute " << recompute << ", " << ranks << " ranks";
        for (double squares : got.squares) EXPECT_EQ(squares, got.squares.front());
        for (const RankLedger& ledger : got.outcome.ledgers)  // the first replica has most sequences
          EXPECT_LE(ledger.memory.peak_of(Category::activation), make_plan(options, 0).peak().activation);
        EXPECT_EQ(got.outcome.ledgers[0].memory.peak_of(Category::activation), make_plan(options, 0).peak().activation);
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
      TrainOptions options = small_run();
      options.ranks = ranks;
      options.zero = stage;
      options.accumulate = static_cast<std::size_t>(ranks == 3 ? 2 : 1);
      options.wrap = stage == 2 ? "5000" : "block";
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
      options.tp = tp;
      options.sequence_parallel = rows;
      options.accumulate = ranks == tp ? 2 : 1;
      const Trained seen = train(options);
      ASSERT_EQ(seen.losses.size(), expected.losses.size());
      for (std::size_t i = 0; i < expected.losses.size(); ++i)
        ASSERT_NEAR(seen.losses[i], expected.losses[i], 2e-6 * expected.losses[i])
            << "step " << i << " of --ranks " << ranks << " --tp " << tp << (rows ? " --sequence-parallel" : "");
      EXPECT_NEAR(seen.validation, expected.validation, 1e-5);
      for (double squares : seen.squares) EXPECT_NEAR(squares / expected.squares[0], 1, 1e-5);
    }
}

void set_mesh(TrainOptions& options, int dp, int tp, int pp) {
  options.dp = dp;
  options.tp = tp;
  options.pp = pp;
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
    options.accumulate = row.microbatches;
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

// By category, to the byte: ./lab train prints both, and a difference would be a formula's mistake or the program's.
TEST(Train, PredictedMemoryIsWhatTheLedgerMeasures) {
  struct Row {
    int dp, tp, pp;
    std::function<void(TrainOptions&)> more = [](TrainOptions&) {};
  };
  std::vector<Row> rows = {{1, 1, 1},
                           {3, 1, 1},
                           {1, 2, 1},
                           {2, 2, 1},
                           {1, 1, 3},
                           {2, 1, 2},
                           {1, 2, 2},
                           {2, 2, 2},
                           {1, 1, 1, [](TrainOptions& o) { o.recompute = "full", o.accumulate = 2; }},
                           {1, 2, 1, [](TrainOptions& o) { o.sequence_parallel = true; }},
                           {2, 2, 2, [](TrainOptions& o) { o.sequence_parallel = true, o.recompute = "full"; }},
                           {1, 1, 2, [](TrainOptions& o) { o.untied = true, o.steps = 1; }},
                           {1, 1, 2, [](TrainOptions& o) { o.recompute = "selective", o.attention = "materialised"; }},
                           {1, 1, 4, [](TrainOptions& o) { o.accumulate = 1; }},  // stages without a block
                           {1, 1, 2, [](TrainOptions& o) { o.sample = 3, o.precision = "bf16"; }},
                           {2, 2, 1, [](TrainOptions& o) { o.sample = 3, o.recompute = "full"; }},
                           {2, 1, 2, [](TrainOptions& o) { o.zero = 1, o.bucket_bytes = "20kB"; }},
                           {1, 1, 1, [](TrainOptions& o) { o.precision = "fp16", o.sample = 3; }},
                           {3, 1, 1, [](TrainOptions& o) { o.zero = 1, o.precision = "fp16"; }},
                           {3, 1, 1, [](TrainOptions& o) { o.compress = "topk:0.02"; }},
                           {2, 1, 1, [](TrainOptions& o) { o.compress = "topk:0.02", o.no_feedback = true; }},
                           {2, 1, 1, [](TrainOptions& o) { o.compress = "int8-two-step"; }}};
  for (const char* schedule : {"naive", "gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2"})
    for (const std::size_t microbatches : {4, 6})  // of 9 sequences: 3, 2, 2, 2; 2, 2, 2, 1, 1, 1
      rows.push_back({1, 1, 2, [=](TrainOptions& o) { o.schedule = schedule, o.accumulate = microbatches; }});
  for (const int zero : {2, 3})
    for (const char* wrap : {"model", "block", "layer", "5000"})
      for (const int prefetch : {0, 1, 2})
        rows.push_back({3, 1, 1, [=](TrainOptions& o) {
                          o.zero = zero, o.wrap = wrap, o.prefetch = prefetch, o.sample = prefetch == 1 ? 2 : 0;
                        }});
  for (const int zero : {1, 2, 3}) {
    rows.push_back({2, 2, 1, [=](TrainOptions& o) { o.zero = zero, o.accumulate = 2, o.sample = 2; }});
    rows.push_back({2, 1, 1, [=](TrainOptions& o) { o.zero = zero, o.precision = "bf16", o.no_overlap = true; }});
    rows.push_back({1, 1, 1, [=](TrainOptions& o) { o.zero = zero; }});
  }
  for (const Row& row : rows) {
    TrainOptions options = small_run();
    options.steps = 3;
    options.heads = 4;
    options.batch = 9;
    set_mesh(options, row.dp, row.tp, row.pp);
    row.more(options);
    const std::string what = fmt::format(
        "--dp {} --tp {} --pp {} --zero {} --wrap {} --prefetch {} --schedule {} --microbatches {} --sample {}", row.dp,
        row.tp, row.pp, options.zero, options.wrap, options.prefetch, options.schedule, options.accumulate,
        options.sample);
    const week25::PeakMemory predicted = make_plan(options, 0).peak();
    const Trained seen = train(options);
    const auto measured = [&](Category category) {
      std::uint64_t most = 0;
      for (const RankLedger& ledger : seen.outcome.ledgers) most = std::max(most, ledger.memory.peak_of(category));
      return most;
    };
    EXPECT_EQ(measured(Category::parameter), predicted.parameter) << what;
    EXPECT_EQ(measured(Category::gradient), predicted.gradient) << what;
    EXPECT_EQ(measured(Category::optimizer), predicted.optimizer) << what;
    EXPECT_EQ(measured(Category::activation), predicted.activation) << what;
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

TrainOptions diverging_run() {
  TrainOptions options = small_run();
  options.steps = 100;
  options.warmup = 0;
  options.learning_rate = options.weight_decay.emplace(10);  // all values times −99 a step
  return options;
}

// At the step whose gradients are not finite, on all ranks; with nothing said of ranks that differ.
TEST(Train, ARunThatDivergesStopsAtThatStepAndSaysSo) {
  struct Row {
    int ranks, tp, pp;
    const char* precision;
  };
  for (const Row& row : {Row{1, 1, 1, "fp32"}, Row{2, 1, 1, "fp32"}, Row{4, 2, 2, "fp32"}, Row{2, 1, 1, "fp16"}}) {
    TrainOptions options = diverging_run();
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
    const char* why = scaled ? "its gradients overflow at every loss scale" : "gradient norm inf";
    EXPECT_NE(got.complaints[0].find(why), std::string::npos) << got.complaints[0];
  }
}

TEST(Train, LearnsMoreThanHowOftenEachByteOccurs) {
  TrainOptions options = small_run();
  options.steps = 120;
  options.warmup = 10;
  options.batch = 32;
  options.sequence = 32;
  options.learning_rate = 1e-2;
  const Trained got = train(options);
  const Plan plan = make_plan(options, 0);
  EXPECT_LT(got.losses.back(), plan.corpus->unigram_entropy() - 0.3);
  EXPECT_LT(got.validation, plan.corpus->unigram_entropy() - 0.3);
}

TEST(Train, TheFirstStepIsNotChargedForSettingUp) {
  TrainOptions options = small_run();
  options.ranks = 2;
  options.steps = 1;
  options.validate_every = 100;
  const Trained run = train(options);
  ASSERT_EQ(run.bytes_sent.size(), 1u);
  const double gradients = 4.0 * static_cast<double>(make_plan(options, 0).model.parameters());
  EXPECT_NEAR(run.bytes_sent[0] / gradients, 1, 1e-3) << "2(p − 1)/p of them, and a loss for the log";
}

TEST(Train, PhantomRunsSendAndHoldWhatRealRunsDo) {
  TrainOptions options = small_run();
  options.steps = 3;
  options.ranks = 3;
  options.validate_every = 100;
  const Trained real = train(options);
  options.phantom = true;
  const Trained phantom = train(options);
  ASSERT_EQ(real.outcome.ledgers.size(), phantom.outcome.ledgers.size());
  const std::size_t parameters = make_plan(options, 0).model.parameters();
  for (std::size_t r = 0; r < 3; ++r) {
    const RankLedger &a = real.outcome.ledgers[r], &b = phantom.outcome.ledgers[r];
    EXPECT_EQ(a.memory.peak_of(Category::activation), b.memory.peak_of(Category::activation));
    EXPECT_EQ(b.memory.peak_of(Category::optimizer), 8 * parameters);
    EXPECT_EQ(a.region("broadcast")->traffic.bytes_sent, b.region("broadcast")->traffic.bytes_sent);
  }
}

TEST_F(Folder, APhantomMeshIsReportedOneRankAStage) {
  TrainOptions options = small_run();
  options.phantom = true;
  options.machine = "dgx-a100-hdr";
  options.batch = 16;
  options.json = path("row.json");
  options.trace = path("step.json");
  set_mesh(options, 4, 2, 2);
  const Plan plan = make_plan(options, 0);
  ASSERT_TRUE(is_folded(plan));
  testing::internal::CaptureStdout();
  EXPECT_EQ(report_phantom(plan), 0);
  const std::string report = testing::internal::GetCapturedStdout();
  for (const char* word : {"MFU", "bubble", "memory", "NVLink", "InfiniBand", "simulated 2 ranks"})
    EXPECT_NE(report.find(word), report.npos) << word << " is not in\n" << report;
  const auto read = [](const std::string& file) {
    std::ifstream in(file);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::string row = read(path("row.json")), documentation = read(LOCKSTEP_SOURCE_DIR "/docs/output.md");
  for (const char* field : {"simulated_ranks", "mfu", "model_flop", "bubble_of_ideal", "exposed_seconds",
                            "tensor_seconds", "data_seconds", "idle_seconds", "update_seconds", "memory_bytes_peak",
                            "bytes_sent_across_nodes", "stages", "replicas", "schedule", "stage_compute_seconds",
                            "stage_idle_seconds", "stage_activation_bytes_peak", "stage_memory_bytes_peak"}) {
    EXPECT_NE(row.find('"' + std::string(field) + '"'), row.npos) << field;
    EXPECT_NE(documentation.find('`' + std::string(field) + '`'), documentation.npos) << field;
  }
  EXPECT_NE(read(path("step.json")).find("\"F1\""), std::string::npos);
  options.every_rank = true;
  EXPECT_FALSE(is_folded(make_plan(options, 0)));
}

TEST_F(Folder, WhatCannotWorkIsRefusedInOneSentence) {
  std::ofstream(path("empty.txt")).close();
  std::ofstream(path("short.txt")) << "too short";
  mkfifo(path("fifo").c_str(), 0666);
  struct Case {
    const char* says;
    std::function<void(TrainOptions&)> spoil;
  };
  const std::vector<Case> cases = {
      {"do not divide", [](TrainOptions& o) { o.heads = 5; }},
      {"did you mean 'tiny'", [](TrainOptions& o) { o.model = "tyni"; }},
      {"none.txt", [&](TrainOptions& o) { o.data = path("none.txt"); }},
      {"empty.txt", [&](TrainOptions& o) { o.data = path("empty.txt"); }},
      {"short.txt", [&](TrainOptions& o) { o.data = path("short.txt"); }},
      {"global batch of 7", [](TrainOptions& o) { o.ranks = 8; }},
      {"global batch of 7", [](TrainOptions& o) { o.accumulate = 8; }},
      {"tokens", [](TrainOptions& o) { o.tokens = "words"; }},
      {"precision", [](TrainOptions& o) { o.precision = "fp8"; }},
      {"type of sums", [](TrainOptions& o) { o.reduce = "fp8"; }},
      {"power of two", [](TrainOptions& o) { o.precision = "fp16", o.loss_scale = "1000"; }},
      {"power of two", [](TrainOptions& o) { o.precision = "fp16", o.loss_scale = "nan"; }},
      {"from 2^-24 to 2^48", [](TrainOptions& o) { o.precision = "fp16", o.loss_scale = "2^-140"; }},
      {"fifo: it is a pipe (FIFO), not a file", [&](TrainOptions& o) { o.data = path("fifo"); }},
      {"zero: it is a device, not a file", [](TrainOptions& o) { o.data = "/dev/zero"; }},
      {"it is a folder", [&](TrainOptions& o) { o.data = path(""); }},
      {"fifo is a file: checkpoints are directories", [&](TrainOptions& o) { o.checkpoint = path("fifo"); }},
      {"fp16", [](TrainOptions& o) { o.loss_scale = "off"; }},
      {"attention", [](TrainOptions& o) { o.attention = "linear"; }},
      {"recompute", [](TrainOptions& o) { o.recompute = "some"; }},
      {"--attention materialised", [](TrainOptions& o) { o.recompute = "selective"; }},
      {"machine", [](TrainOptions& o) { o.machine = "dgx-h1000"; }},
      {"do not fit", [](TrainOptions& o) { o.model = "gpt3-175b"; }},
      {"absurd", [](TrainOptions& o) { o.d_model = std::size_t{1} << 40; }},
      {"--tf32 is for GPUs", [](TrainOptions& o) { o.tf32 = true; }},
      {"emulate", [](TrainOptions& o) { o.emulate = "laptop"; }},
      {"100x", [](TrainOptions& o) { o.bucket_bytes = "100x"; }},
      {"phantom", [](TrainOptions& o) { o.phantom = true, o.resume = "a"; }},
      {"checkpoint", [](TrainOptions& o) { o.checkpoint_every = 5; }},
      {"go-on", [](TrainOptions& o) { o.on_save_error = "go_on"; }},
      {"directories", [&](TrainOptions& o) { o.checkpoint = path("short.txt"); }},
      {"no stage 4", [](TrainOptions& o) { o.zero = 4; }},
      {"--wrap", [](TrainOptions& o) { o.zero = 3, o.wrap = "blocks"; }},
      {"wrap smaller", [](TrainOptions& o) { o.zero = 3, o.wrap = "model", o.phantom = true, o.model = "gpt3-175b"; }},
      {"--reduce", [](TrainOptions& o) { o.zero = 2, o.precision = "bf16", o.reduce = "fp32"; }},
      {"take 3 layers or more, or fewer stages", [](TrainOptions& o) { o.pp = 5; }},
      {"take 6 layers or more, or fewer stages or chunks",
       [](TrainOptions& o) { o.pp = 4, o.schedule = "interleaved"; }},
      {"--schedule gpipe is of a pipeline", [](TrainOptions& o) { o.typed = {"--schedule"}, o.schedule = "gpipe"; }},
      {"3 microbatches do not divide by 2 stages; take 4",
       [](TrainOptions& o) { o.pp = 2, o.schedule = "interleaved", o.accumulate = 3; }},
      {"m times the traffic", [](TrainOptions& o) { o.pp = 2, o.zero = 3; }},
      {"zb-h2", [](TrainOptions& o) { o.pp = 2, o.schedule = "zb-h3"; }},
      {"--dp 2 × --tp 1 × --pp 2", [](TrainOptions& o) { o.ranks = 6, o.dp = 2, o.pp = 2; }},
      {"no multiple of --tp 2", [](TrainOptions& o) { o.ranks = 3, o.tp = 2; }},
      {"--base-batch", [](TrainOptions& o) { o.lr_scaling = "linear"; }},
      {"lr-scaling", [](TrainOptions& o) { o.lr_scaling = "lineal", o.base_batch = 4; }},
      {"--base-batch is for", [](TrainOptions& o) { o.base_batch = 4; }},
      {"optimizer", [](TrainOptions& o) { o.optimizer = "adam"; }},
      {"compress", [](TrainOptions& o) { o.ranks = 2, o.compress = "top-k"; }},
      {"from 1e-9 to 1", [](TrainOptions& o) { o.ranks = 2, o.compress = "topk:1.5"; }},
      {"from 1e-9 to 1", [](TrainOptions& o) { o.ranks = 2, o.compress = "topk:1e-12"; }},
      {"at least two ranks", [](TrainOptions& o) { o.compress = "int8"; }},
      {"plain data parallelism", [](TrainOptions& o) { o.ranks = 2, o.zero = 1, o.compress = "int8"; }},
      {"plain data parallelism", [](TrainOptions& o) { o.ranks = 2, o.zero = 3, o.compress = "topk:0.01"; }},
      {"plain data parallelism", [](TrainOptions& o) { o.tp = 2, o.dp = 2, o.compress = "int8"; }},
      {"fp32 gradients", [](TrainOptions& o) { o.ranks = 2, o.precision = "bf16", o.compress = "int8"; }},
      {"--no-feedback is for", [](TrainOptions& o) { o.ranks = 2, o.compress = "int8", o.no_feedback = true; }},
      {"nowhere", [](TrainOptions& o) { o.csv = "/nowhere/at/all.csv"; }},
  };
  for (const Case& c : cases) {
    TrainOptions options = small_run();
    c.spoil(options);
    try {
      make_plan(options, 0);
      ADD_FAILURE() << "accepted: " << c.says;
    } catch (const Error& error) {
      EXPECT_EQ(error.verdict(), Verdict::usage) << error.what();
      EXPECT_NE(std::string(error.what()).find(c.says), std::string::npos) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    }
  }
}

// Those that the handout of week 25 prints, but for what takes long: plans are made of them, on a laptop.
TEST(Train, TheHandoutsLinesWork) {
  std::ifstream handout(LOCKSTEP_SOURCE_DIR "/labs/week25_3d/README.md");
  int lines = 0;
  for (std::string line; std::getline(handout, line);) {
    if (!line.starts_with("./lab train ") || line.find("--backend") != line.npos) continue;
    std::istringstream text(line.substr(12));
    const std::vector<std::string> words{std::istream_iterator<std::string>(text), {}};
    TrainOptions options;
    ASSERT_EQ(parsed(words, options), std::nullopt) << line;
    options.trace = "";
    EXPECT_NO_THROW(make_plan(options, 0)) << line;
    ++lines;
  }
  EXPECT_GE(lines, 2);
}

// In our words, not the parser's, with what was meant.
TEST(Train, WrongOptionsAreAnsweredInOneSentence) {
  struct Case {
    std::vector<std::string> words;
    const char* says;
  };
  for (const Case& c :
       std::vector<Case>{{{"--modle", "tiny"}, "unknown option '--modle': did you mean '--model'?"},
                         {{"--text", "a.txt"}, "unknown option '--text': did you mean '--data'?"},
                         {{"--qwzzk=4"}, "unknown option '--qwzzk'; --help lists them all."},
                         {{"--steps", "two"}, "--steps wants a whole number from 1 to a thousand million, not 'two'"},
                         {{"--lr", "fast"}, "--lr wants a number from 1e-12 to 10, not 'fast'"},
                         {{"--lr", "-1"}, "--lr wants a number from 1e-12 to 10, not '-1'"},
                         {{"--clip", "nan"}, "--clip wants a number from 0 to 1e+09, not 'nan'"},
                         {{"--clip", "inf"}, "--clip wants a number from 0 to 1e+09, not 'inf'"},
                         {{"--clip", "1e300"}, "--clip wants a number from 0 to 1e+09, not '1e300'"},
                         {{"--weight-decay", "nan"}, "--weight-decay wants a number from 0 to 10, not 'nan'"},
                         {{"--weight-decay", "inf"}, "--weight-decay wants a number from 0 to 10, not 'inf'"},
                         {{"--weight-decay", "1e30"}, "--weight-decay wants a number from 0 to 10, not '1e30'"},
                         {{"--threads", "100000"}, "--threads wants a whole number from 1 to 4096, not '100000'"},
                         {{"--checkpoint", ""}, "--checkpoint wants a value, not ''"},
                         {{"--resume="}, "--resume wants a value"},
                         {{"--dp", "0"}, "--dp wants a whole number from 1"},
                         {{"--steps"}, "--steps wants a value"},
                         {{"--steps", "1", "--steps", "2"}, "--steps is given more than once"},
                         {{"tiny"}, "'tiny' belongs to no option"},
                         {{"--zero", "two"}, "--zero wants a whole number, not 'two'"}}) {
    testing::internal::CaptureStderr();
    TrainOptions options;
    EXPECT_EQ(parsed(c.words, options), 2) << c.says;
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find(std::string("lab train: ") + c.says), said.npos) << said;
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  }
}

TEST(Train, WhatDoesNothingIsSaid) {
  struct Case {
    std::vector<std::string> words;
    std::vector<std::string> about;
  };
  for (const Case& c : std::vector<Case>{{{"--ranks", "2", "--machine", "dgx-h100"}, {}},
                                         {{"--machine", "dgx-h100"}, {"--machine"}},
                                         {{"--zero", "3", "--wrap", "layer", "--prefetch", "2"}, {"--zero"}},
                                         {{"--ranks", "2", "--zero", "2", "--prefetch", "2", "--bucket-bytes", "1MB"},
                                          {"--prefetch", "--bucket-bytes"}},
                                         {{"--wrap", "block", "--no-overlap", "--loss-scale-interval", "5"},
                                          {"--wrap", "--no-overlap", "--loss-scale-interval"}},
                                         {{"--pp", "2", "--schedule", "gpipe"}, {}}}) {
    TrainOptions options = small_run();
    ASSERT_EQ(parsed(c.words, options), std::nullopt);
    const std::vector<std::string> said = without_effect(make_plan(options, 0));
    ASSERT_EQ(said.size(), c.about.size()) << fmt::format("{}", fmt::join(said, "; "));
    for (std::size_t i = 0; i < said.size(); ++i) EXPECT_TRUE(said[i].starts_with(c.about[i] + " ")) << said[i];
  }
}

TEST(Train, LearningRateWarmsUpAndFallsToATenth) {
  TrainOptions options;
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
  TrainOptions options;
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
  TrainOptions options = small_run();
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
  TrainOptions options = small_run();
  options.ranks = 3;
  options.steps = 20;
  const Trained plain = train(options);
  for (const Row& row :
       {Row{"int8", false, week21::Method::int8, 0.02},
        Row{"int8-two-step", false, week21::Method::int8_two_step, 0.02},
        Row{"topk:0.05", false, week21::Method::top_k, 1}, Row{"topk:0.05", true, week21::Method::top_k, 1}}) {
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
  TrainOptions options = small_run();
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
  const Plan plan = make_plan(options, 0);
  const std::size_t buckets = week25::bucket_units(gpt_parameter_table(plan.model), plan.run3d).size();
  ASSERT_GT(buckets, 1u);
  EXPECT_EQ(few.said, static_cast<double>(options.steps) * 2 * 8 * static_cast<double>(buckets));
  EXPECT_EQ(many.sent - few.sent, many.said - few.said);  // all else is sent by both
}

}  // namespace
}  // namespace lockstep::train
