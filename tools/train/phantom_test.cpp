// Tests the predictions of ./lab train: memory, and runs without data.
#include "tools/train/phantom.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "tools/train/train_testing.hpp"

namespace lockstep::train {
namespace {

// By category, to the byte: ./lab train prints both, and a difference would be a formula's mistake or the program's.
TEST(Train, PredictedMemoryIsWhatTheLedgerMeasures) {
  struct Row {
    int dp, tp, pp;
    std::function<void(TrainRequest&)> more = [](TrainRequest&) {};
  };
  std::vector<Row> rows = {
      {1, 1, 1},
      {3, 1, 1},
      {1, 2, 1},
      {2, 2, 1},
      {1, 1, 3},
      {2, 1, 2},
      {1, 2, 2},
      {2, 2, 2},
      {1, 1, 1, [](TrainRequest& o) { o.recompute = "full", o.microbatches = 2; }},
      {1, 2, 1, [](TrainRequest& o) { o.sequence_parallel = true; }},
      {2, 2, 2, [](TrainRequest& o) { o.sequence_parallel = true, o.recompute = "full"; }},
      {1, 1, 2, [](TrainRequest& o) { o.untied = true, o.steps = 1; }},
      {1, 1, 2, [](TrainRequest& o) { o.recompute = "selective", o.attention = "materialised"; }},
      {1, 2, 1, [](TrainRequest& o) { o.attention = "materialised", o.microbatches = 2; }},
      {1, 2, 1, [](TrainRequest& o) { o.recompute = "selective", o.attention = "materialised"; }},
      {2, 2, 2,
       [](TrainRequest& o) { o.recompute = "selective", o.attention = "materialised", o.sequence_parallel = true; }},
      {1, 1, 4, [](TrainRequest& o) { o.microbatches = 1; }},  // stages without a block
      {1, 1, 2, [](TrainRequest& o) { o.sample = 3, o.precision = "bf16"; }},
      {2, 2, 1, [](TrainRequest& o) { o.sample = 3, o.recompute = "full"; }},
      {2, 1, 2, [](TrainRequest& o) { o.zero = 1, o.bucket_bytes = "20kB"; }},
      {1, 1, 1, [](TrainRequest& o) { o.precision = "fp16", o.sample = 3; }},
      {3, 1, 1, [](TrainRequest& o) { o.zero = 1, o.precision = "fp16"; }},
      {3, 1, 1, [](TrainRequest& o) { o.compress = "topk:0.02"; }},
      {2, 1, 1, [](TrainRequest& o) { o.compress = "topk:0.02", o.no_feedback = true; }},
      {3, 1, 1, [](TrainRequest& o) { o.compress = "topk+int8:0.02"; }},
      {2, 1, 1, [](TrainRequest& o) { o.compress = "int8-two-step"; }}};
  for (const char* schedule : {"naive", "gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "dualpipev"})
    for (const std::size_t microbatches : {4, 6})  // of 9 sequences: 3, 2, 2, 2; 2, 2, 2, 1, 1, 1
      rows.push_back({1, 1, 2, [=](TrainRequest& o) { o.schedule = schedule, o.microbatches = microbatches; }});
  for (const int zero : {2, 3})
    for (const char* wrap : {"model", "block", "layer", "5000"})
      for (const int prefetch : {0, 1, 2})
        rows.push_back({3, 1, 1, [=](TrainRequest& o) {
                          o.zero = zero, o.wrap = wrap, o.prefetch = prefetch, o.sample = prefetch == 1 ? 2 : 0;
                        }});
  for (const int zero : {1, 2, 3}) {
    rows.push_back({2, 2, 1, [=](TrainRequest& o) { o.zero = zero, o.microbatches = 2, o.sample = 2; }});
    rows.push_back({2, 1, 1, [=](TrainRequest& o) { o.zero = zero, o.precision = "bf16", o.no_overlap = true; }});
    rows.push_back({1, 1, 1, [=](TrainRequest& o) { o.zero = zero; }});
  }
  for (const int group : {1, 2})
    for (const int microbatches : {1, 2})
      rows.push_back({4, 1, 1, [=](TrainRequest& o) {
                        o.zero = 3, o.shard_group = group, o.microbatches = microbatches, o.sample = group;
                      }});
  for (const double momentum : {0.0, 0.9})
    rows.push_back({3, 1, 1, [=](TrainRequest& o) { o.outer_steps = 2, o.outer_momentum = momentum, o.sample = 2; }});
  rows.push_back({2, 1, 1, [](TrainRequest& o) { o.zero = 3, o.shard_group = 2, o.cp = 2; }});
  for (const Row& row : rows) {
    TrainRequest options = small_run();
    options.steps = 3;
    options.heads = 4;
    options.batch = 9;
    set_mesh(options, row.dp, row.tp, row.pp);
    row.more(options);
    const std::string what = fmt::format(
        "--dp {} --tp {} --pp {} --zero {} --wrap {} --prefetch {} --schedule {} --microbatches {} --sample {}", row.dp,
        row.tp, row.pp, options.zero, options.wrap, options.prefetch, options.schedule, options.microbatches,
        options.sample);
    const Memory predicted = make_plan(options, 0).peak;
    const Trained seen = train(options);
    for (const State& state : kState) {
      std::uint64_t most = 0;
      for (const RankLedger& ledger : seen.outcome.ledgers)
        most = std::max(most, ledger.memory.peak_of(state.category));
      EXPECT_EQ(most, predicted.peak_of(state.category)) << to_string(state.category) << ": " << what;
    }
  }
}

TEST(Train, TheFirstStepIsNotChargedForSettingUp) {
  TrainRequest options = small_run();
  options.ranks = 2;
  options.steps = 1;
  options.validate_every = 100;
  const Trained run = train(options);
  ASSERT_EQ(run.bytes_sent.size(), 1u);
  const double gradients = 4.0 * static_cast<double>(make_plan(options, 0).step.model.parameters());
  EXPECT_NEAR(run.bytes_sent[0] / gradients, 1, 1e-3) << "2(p − 1)/p of them, and a loss for the log";
}

TEST(Train, PhantomRunsSendAndHoldWhatRealRunsDo) {
  TrainRequest options = small_run();
  options.steps = 3;
  options.ranks = 3;
  options.validate_every = 100;
  const Trained real = train(options);
  options.phantom = true;
  const Trained phantom = train(options);
  ASSERT_EQ(real.outcome.ledgers.size(), phantom.outcome.ledgers.size());
  const std::size_t parameters = make_plan(options, 0).step.model.parameters();
  for (std::size_t r = 0; r < 3; ++r) {
    const RankLedger &a = real.outcome.ledgers[r], &b = phantom.outcome.ledgers[r];
    EXPECT_EQ(a.memory.peak_of(Category::activation), b.memory.peak_of(Category::activation));
    EXPECT_EQ(b.memory.peak_of(Category::optimizer), 8 * parameters);
    EXPECT_EQ(a.region("broadcast")->traffic.bytes_sent, b.region("broadcast")->traffic.bytes_sent);
  }
}

// A text's characters are fewer than bytes, and a token file's numbers more.
TEST_F(Folder, APhantomRunHasTheModelOfTheRealRun) {
  std::vector<std::int32_t> header = {20240520, 1, 1000};  // llm.c's, of GPT-2's tokens
  header.resize(256);
  const std::vector<std::uint16_t> tokens(1000, 7);
  std::ofstream(path("tokens.bin"), std::ios::binary)
      .write(reinterpret_cast<const char*>(header.data()), 4 * 256)
      .write(reinterpret_cast<const char*>(tokens.data()), 2 * 1000);
  for (const bool file : {false, true}) {
    TrainRequest options = small_run();
    options.tokens = "char";
    if (file) options.data = path("tokens.bin");
    const std::size_t real = make_plan(options, 0).step.model.vocabulary;
    EXPECT_NE(real, 256u);
    options.phantom = true;
    EXPECT_EQ(make_plan(options, 0).step.model.vocabulary, real);
  }
}

TEST(Train, APhantomMeshOfLongSequencesSaysWhatTheMaskHides) {
  TrainRequest options = small_run();
  options.phantom = true;
  options.machine = "dgx-h100-ndr";
  options.model = "llama3-8b";
  options.precision = "bf16";
  options.batch = 2;
  set_mesh(options, 2, 2, 1);
  options.cp = 4;
  const auto report_of = [&](std::size_t tokens) {
    options.sequence = tokens;
    testing::internal::CaptureStdout();
    EXPECT_EQ(report_phantom(make_plan(options, 0)), 0);
    return testing::internal::GetCapturedStdout();
  };
  const std::string report = report_of(131072);
  EXPECT_NE(report.find("2 replicas × 4 context-parallel × 2 tensor-parallel"), report.npos) << report;
  EXPECT_NE(report.find("% without masked scores)"), report.npos) << report;
  EXPECT_EQ(report_of(2048).find("mask"), report.npos);
}

TEST(Train, TheBubblesFormulaIsOfWholeBackwards) {
  const auto report_of = [](const char* schedule) {
    TrainRequest options = small_run();
    options.phantom = true;
    options.machine = "dgx-a100-hdr";
    options.layers = 8;
    options.batch = 16;
    set_mesh(options, 1, 1, 4);
    options.microbatches = 8;
    options.schedule = schedule;
    testing::internal::CaptureStdout();
    EXPECT_EQ(report_phantom(make_plan(options, 0)), 0);
    return testing::internal::GetCapturedStdout();
  };
  EXPECT_NE(report_of("1f1b").find("of the whole; by formula 37.5 and 27.3%"), std::string::npos);
  EXPECT_NE(report_of("interleaved").find("of the whole; by formula 18.8 and 15.8%"), std::string::npos);
  for (const char* halves : {"zb-h1", "zb-h2", "zb-v", "dualpipev"})
    EXPECT_NE(report_of(halves).find("of the whole\n"), std::string::npos) << halves;
}

TEST_F(Folder, APhantomMeshIsReportedOneRankAStage) {
  TrainRequest options = small_run();
  options.phantom = true;
  options.machine = "dgx-a100-hdr";
  options.batch = 16;
  options.json = path("row.json");
  options.trace = path("step.json");
  set_mesh(options, 4, 2, 2);
  const TrainPlan plan = make_plan(options, 0);
  ASSERT_TRUE(is_folded(plan));
  testing::internal::CaptureStdout();
  EXPECT_EQ(report_phantom(plan), 0);
  const std::string report = testing::internal::GetCapturedStdout();
  for (const char* word : {"118528 parameters", "MFU", "bubble", "memory", "NVLink", "InfiniBand", "simulated 2 ranks"})
    EXPECT_NE(report.find(word), report.npos) << word << " is not in\n" << report;
  const auto read = [](const std::string& file) {
    std::ifstream in(file);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::string row = read(path("row.json")), documentation = read(LOCKSTEP_SOURCE_DIR "/docs/use/output.md");
  for (const char* field :
       {"simulated_ranks", "mfu", "model_flop", "bubble_of_ideal", "exposed_seconds", "tensor_seconds", "data_seconds",
        "idle_seconds", "update_seconds", "memory_bytes_peak", "bytes_sent_across_nodes", "stages", "replicas",
        "schedule", "shard_group", "stage_compute_seconds", "stage_idle_seconds", "stage_activation_bytes_peak",
        "stage_memory_bytes_peak"}) {
    EXPECT_NE(row.find('"' + std::string(field) + '"'), row.npos) << field;
    EXPECT_NE(documentation.find('`' + std::string(field) + '`'), documentation.npos) << field;
  }
  EXPECT_NE(read(path("step.json")).find("\"F1\""), std::string::npos);
  options.every_rank = true;
  EXPECT_FALSE(is_folded(make_plan(options, 0)));
}

}  // namespace
}  // namespace lockstep::train
