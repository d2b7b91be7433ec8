// Tests how ./lab train reads its command line, and its refusals.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "common/support/tests/refusal_testing.hpp"
#include "common/support/text/files.hpp"
#include "tools/train/train_testing.hpp"

namespace lockstep::train {
namespace {

/// Reads a command line as parse() does.
std::optional<int> parsed(std::vector<std::string> words, TrainRequest& options) {
  words.insert(words.begin(), "train");
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  return parse(static_cast<int>(pointers.size()), pointers.data(), options);
}

TEST_F(Folder, AConfigurationFileIsACommandLine) {
  std::ofstream(path("a.cfg")) << "# a run\nsteps = 3\nmodel = \"tiny\"\nno-overlap = true\nlr=1e-4\n";
  TrainRequest options;
  EXPECT_EQ(parsed({"--config", path("a.cfg"), "--steps", "4"}, options), std::nullopt);
  EXPECT_EQ(options.steps, 4) << "the command line goes before the file";
  EXPECT_EQ(options.model, "tiny");
  EXPECT_TRUE(options.no_overlap);
  EXPECT_EQ(options.learning_rate, 1e-4);
  EXPECT_EQ(options.command_line, "./lab train --config a.cfg --steps 4");

  const auto refused = [&](const std::string& text) {
    if (!text.empty()) std::ofstream(path("b.cfg")) << text;
    testing::internal::CaptureStderr();
    TrainRequest other;
    EXPECT_EQ(parsed({"--config", path("b.cfg")}, other), 2);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_NE(refused("stepps = 3\n").find("b.cfg: unknown option '--stepps': did you mean '--steps'?"),
            std::string::npos);
  EXPECT_NE(refused("steps = many\n").find("--steps needs a whole number"), std::string::npos);
  EXPECT_NE(refused("threads = 100000\n").find("--threads needs a whole number from 1 to 4096"), std::string::npos);
  std::filesystem::remove(path("b.cfg"));
  ASSERT_EQ(mkfifo(path("b.cfg").c_str(), 0600), 0);
  EXPECT_NE(refused("").find("cannot read " + path("b.cfg") + ": it is a pipe (FIFO), not a file"), std::string::npos);
}

// ./lab starts as many processes as this says: one fewer, and the run is refused; one more, and it has another batch.
TEST_F(Folder, WhatIsStartedIsWhatRuns) {
  std::ofstream(path("mesh.cfg")) << "backend = mpi\ndp = 2\ncp = 2\n";
  std::ofstream(path("serial.cfg")) << "backend = serial\n";
  struct Case {
    std::vector<std::string> words;
    std::string backend;
    int ranks;  // 0: as many as there are
  };
  const std::vector<Case> cases = {
      {{}, "", 0},
      {{"--tp", "1", "--outer-steps", "2"}, "", 0},
      {{"--ranks", "1"}, "", 1},
      {{"--ranks", "4"}, "", 4},
      {{"--dp", "1"}, "", 1},
      {{"--dp", "4", "--outer-steps", "2"}, "", 4},
      {{"--cp", "2"}, "", 2},
      {{"--dp=2", "--cp=2"}, "", 4},
      {{"--tp", "2"}, "", 2},
      {{"--pp", "4"}, "", 4},
      {{"--dp", "2", "--tp", "2", "--pp", "2", "--backend", "mpi"}, "mpi", 8},
      {{"--ranks", "8", "--cp", "2", "--pp", "2"}, "", 8},
      {{"--dp", "4", "--zero", "3", "--shard-group", "2", "--backend", "nccl"}, "nccl", 4},
      {{"--config", path("mesh.cfg")}, "mpi", 4},
      {{"--config", path("mesh.cfg"), "--cp", "1", "--pp", "4"}, "mpi", 8},
      {{"--config=" + path("mesh.cfg"), "--backend", "sim"}, "sim", 4},
      {{"--backend", "serial"}, "serial", 1},
      {{"--config", path("serial.cfg")}, "serial", 1},
  };
  for (Case c : cases) {
    SCOPED_TRACE(testing::PrintToString(c.words));
    c.words.insert(c.words.begin(), {"train", "--model", "tiny", "--batch", "8", "--sequence", "16"});
    std::vector<char*> pointers;
    for (std::string& word : c.words) pointers.push_back(word.data());
    TrainRequest options;
    ASSERT_EQ(parse(static_cast<int>(pointers.size()), pointers.data(), options, true), std::nullopt);
    EXPECT_EQ(options.backend, c.backend);
    const int asked = ranks_asked_for(options), started = asked > 0 ? asked : 2;
    EXPECT_EQ(asked, c.ranks);
    EXPECT_EQ(make_plan(options, started).run.ranks, started);
  }
}

TEST_F(Folder, WhatCannotWorkIsRefusedInOneSentence) {
  std::ofstream(path("empty.txt")).close();
  std::ofstream(path("short.txt")) << "too short";
  mkfifo(path("fifo").c_str(), 0666);
  struct Case {
    const char* says;
    std::function<void(TrainRequest&)> spoil;
  };
  const std::vector<Case> cases = {
      {"do not divide", [](TrainRequest& o) { o.heads = 5; }},
      {"did you mean 'tiny'", [](TrainRequest& o) { o.model = "tyni"; }},
      {"none.txt", [&](TrainRequest& o) { o.data = path("none.txt"); }},
      {"empty.txt", [&](TrainRequest& o) { o.data = path("empty.txt"); }},
      {"short.txt", [&](TrainRequest& o) { o.data = path("short.txt"); }},
      {"global batch of 7", [](TrainRequest& o) { o.ranks = 8; }},
      {"global batch of 7", [](TrainRequest& o) { o.microbatches = 8; }},
      {"tokens", [](TrainRequest& o) { o.tokens = "words"; }},
      {"precision", [](TrainRequest& o) { o.precision = "fp8"; }},
      {"type of sums", [](TrainRequest& o) { o.reduce = "fp8"; }},
      {"power of two", [](TrainRequest& o) { o.precision = "fp16", o.loss_scale = "1000"; }},
      {"power of two", [](TrainRequest& o) { o.precision = "fp16", o.loss_scale = "nan"; }},
      {"from 2^-24 to 2^48", [](TrainRequest& o) { o.precision = "fp16", o.loss_scale = "2^-140"; }},
      {"fifo: it is a pipe (FIFO), not a file", [&](TrainRequest& o) { o.data = path("fifo"); }},
      {"zero: it is a device, not a file", [](TrainRequest& o) { o.data = "/dev/zero"; }},
      {"it is a folder", [&](TrainRequest& o) { o.data = path(""); }},
      {"fifo is a file: checkpoints are directories", [&](TrainRequest& o) { o.checkpoint = path("fifo"); }},
      {"fp16", [](TrainRequest& o) { o.loss_scale = "off"; }},
      {"attention", [](TrainRequest& o) { o.attention = "linear"; }},
      {"recompute", [](TrainRequest& o) { o.recompute = "some"; }},
      {"--attention materialised", [](TrainRequest& o) { o.recompute = "selective"; }},
      {"machine", [](TrainRequest& o) { o.machine = "dgx-h1000"; }},
      {"do not fit", [](TrainRequest& o) { o.model = "gpt3-175b"; }},
      {"is too large", [](TrainRequest& o) { o.d_model = std::size_t{1} << 40; }},
      {"--tf32 is for GPUs", [](TrainRequest& o) { o.tf32 = true; }},
      {"emulate", [](TrainRequest& o) { o.emulate = "laptop"; }},
      {"100x", [](TrainRequest& o) { o.bucket_bytes = "100x"; }},
      {"phantom", [](TrainRequest& o) { o.phantom = true, o.resume = "a"; }},
      {"checkpoint", [](TrainRequest& o) { o.checkpoint_every = 5; }},
      {"continue", [](TrainRequest& o) { o.on_save_error = "contnue"; }},
      {"directories", [&](TrainRequest& o) { o.checkpoint = path("short.txt"); }},
      {"no stage 4", [](TrainRequest& o) { o.zero = 4; }},
      {"--wrap", [](TrainRequest& o) { o.zero = 3, o.wrap = "blocks"; }},
      {"wrap smaller", [](TrainRequest& o) { o.zero = 3, o.wrap = "model", o.phantom = true, o.model = "gpt3-175b"; }},
      {"--reduce", [](TrainRequest& o) { o.zero = 2, o.precision = "bf16", o.reduce = "fp32"; }},
      {"the all-reduces of --tp overlap", [](TrainRequest& o) { o.ranks = o.tp = 2, o.overlap_scatter = true; }},
      {"--overlap-scatter with --no-overlap",
       [](TrainRequest& o) {
         o.ranks = o.tp = 2;
         o.sequence_parallel = o.overlap_scatter = o.no_overlap = true;
       }},
      {"--zero 1 and 2: plain", [](TrainRequest& o) { o.ranks = 2, o.overlap_gather = true; }},
      {"--prefetch units ahead", [](TrainRequest& o) { o.ranks = 2, o.zero = 3, o.overlap_gather = true; }},
      {"leave one of them out", [](TrainRequest& o) { o.zero = 1, o.overlap_gather = o.no_overlap = true; }},
      {"--load-ahead needs virtual time", [](TrainRequest& o) { o.load_ahead = 1; }},
      {"--load-rate needs virtual time", [](TrainRequest& o) { o.load_rate = 1; }},
      {"loads nothing; add --every-rank", [](TrainRequest& o) { o.pp = 2, o.phantom = true, o.load_rate = 1; }},
      {"use 3 layers or more, or fewer stages", [](TrainRequest& o) { o.pp = 5; }},
      {"use 6 layers or more, or fewer stages or chunks",
       [](TrainRequest& o) { o.pp = 4, o.schedule = "interleaved"; }},
      {"--schedule gpipe needs a pipeline", [](TrainRequest& o) { o.typed = {"--schedule"}, o.schedule = "gpipe"; }},
      {"as many microbatches as there are stages; use 4",
       [](TrainRequest& o) { o.pp = 2, o.schedule = "interleaved", o.microbatches = 3; }},
      {"one on each leg of the V, not 3", [](TrainRequest& o) { o.pp = 2, o.schedule = "zb-v", o.chunks = 3; }},
      {"m times the traffic", [](TrainRequest& o) { o.pp = 2, o.zero = 3; }},
      {"zb-h2", [](TrainRequest& o) { o.pp = 2, o.schedule = "zb-h3"; }},
      {"--dp 2 × --tp 1 × --pp 2", [](TrainRequest& o) { o.ranks = 6, o.dp = 2, o.pp = 2; }},
      {"not a multiple of --tp 2", [](TrainRequest& o) { o.ranks = 3, o.tp = 2; }},
      {"must be at least 1", [](TrainRequest& o) { o.cp = 0; }},
      {"not a multiple of --cp 2 × --tp 1", [](TrainRequest& o) { o.ranks = 3, o.cp = 2; }},
      {"--dp 2 × --cp 2 × --tp 1 × --pp 1 are 4", [](TrainRequest& o) { o.ranks = 8, o.cp = 2, o.dp = 2; }},
      {"16 tokens do not divide into 6 chunks", [](TrainRequest& o) { o.cp = 3; }},
      {"global batch of 7", [](TrainRequest& o) { o.cp = 2, o.dp = 8; }},
      {"no rank ever has all probabilities", [](TrainRequest& o) { o.cp = 2, o.attention = "materialised"; }},
      {"groups of 2 ranks that hold one copy of the state need ZeRO-3",
       [](TrainRequest& o) { o.dp = 4, o.zero = 2, o.shard_group = 2; }},
      {"6 ranks along dp do not divide into groups of 4",
       [](TrainRequest& o) { o.dp = 6, o.zero = 3, o.shard_group = 4; }},
      {"are for --outer-steps H", [](TrainRequest& o) { o.ranks = 2, o.typed = {"--outer-lr"}; }},
      {"each have the whole model", [](TrainRequest& o) { o.ranks = 2, o.outer_steps = 4, o.zero = 1; }},
      {"each have the whole model", [](TrainRequest& o) { o.ranks = 2, o.outer_steps = 4, o.compress = "int8"; }},
      {"no others to average with", [](TrainRequest& o) { o.ranks = 1, o.outer_steps = 4; }},
      {"averages fp32 parameters", [](TrainRequest& o) { o.ranks = 2, o.outer_steps = 4, o.precision = "bf16"; }},
      {"zb-h1 with cp 2", [](TrainRequest& o) { o.cp = 2, o.pp = 2, o.schedule = "zb-h1"; }},
      {"plain data parallelism: leave out --cp", [](TrainRequest& o) { o.cp = 2, o.compress = "int8"; }},
      {"--base-batch", [](TrainRequest& o) { o.lr_scaling = "linear"; }},
      {"lr-scaling", [](TrainRequest& o) { o.lr_scaling = "lineal", o.base_batch = 4; }},
      {"--base-batch is for", [](TrainRequest& o) { o.base_batch = 4; }},
      {"optimizer", [](TrainRequest& o) { o.optimizer = "adam"; }},
      {"compress", [](TrainRequest& o) { o.ranks = 2, o.compress = "top-k"; }},
      {"from 1e-9 to 1", [](TrainRequest& o) { o.ranks = 2, o.compress = "topk:1.5"; }},
      {"from 1e-9 to 1", [](TrainRequest& o) { o.ranks = 2, o.compress = "topk:1e-12"; }},
      {"from 1e-9 to 1", [](TrainRequest& o) { o.ranks = 2, o.compress = "topk+int8:2"; }},
      {"at least two ranks", [](TrainRequest& o) { o.compress = "int8"; }},
      {"plain data parallelism", [](TrainRequest& o) { o.ranks = 2, o.zero = 1, o.compress = "int8"; }},
      {"plain data parallelism", [](TrainRequest& o) { o.ranks = 2, o.zero = 3, o.compress = "topk:0.01"; }},
      {"plain data parallelism", [](TrainRequest& o) { o.tp = 2, o.dp = 2, o.compress = "int8"; }},
      {"fp32 gradients", [](TrainRequest& o) { o.ranks = 2, o.precision = "bf16", o.compress = "int8"; }},
      {"--no-feedback is for", [](TrainRequest& o) { o.ranks = 2, o.compress = "int8", o.no_feedback = true; }},
      {"nowhere", [](TrainRequest& o) { o.csv = "/nowhere/at/all.csv"; }},
  };
  for (const Case& c : cases) {
    TrainRequest options = small_run();
    c.spoil(options);
    const std::string said = refusal([&] { make_plan(options, 0); });
    EXPECT_NE(said.find(c.says), std::string::npos) << (said.empty() ? "accepted: " : said) << c.says;
    EXPECT_EQ(said.find('\n'), std::string::npos) << said;
  }
}

/// The words after "./lab train" of a line, without ./lab's own options and without a remark.
std::vector<std::string> words_of(const std::string& line) {
  std::istringstream text(line.substr(12, line.find("  ") - 12));
  std::vector<std::string> words;
  for (std::string word; text >> word && word != "#";) {
    if (word == "--backend")
      text >> word;
    else if (word != "--mine")
      words.push_back(word);
  }
  return words;
}

// Makes a plan, for a laptop, of each line that the handouts print.
TEST(Train, TheHandoutsLinesWork) {
  int lines = 0;
  for (const auto& page : std::filesystem::recursive_directory_iterator(LOCKSTEP_SOURCE_DIR "/labs")) {
    if (page.path().extension() != ".md") continue;
    std::ifstream handout(page.path());
    for (std::string line; std::getline(handout, line);) {
      if (!line.starts_with("./lab train ")) continue;
      TrainRequest options;
      ASSERT_EQ(parsed(words_of(line), options), std::nullopt) << line;
      options.trace = options.csv = "";
      EXPECT_NO_THROW(make_plan(options, 0)) << line;
      ++lines;
    }
  }
  EXPECT_GE(lines, 20);
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
                         {{"--steps", "two"}, "--steps needs a whole number from 1 to 1,000,000,000, not 'two'"},
                         {{"--lr", "fast"}, "--lr needs a number from 1e-12 to 10, not 'fast'"},
                         {{"--lr", "-1"}, "--lr needs a number from 1e-12 to 10, not '-1'"},
                         {{"--clip", "nan"}, "--clip needs a number from 0 to 1e+09, not 'nan'"},
                         {{"--clip", "inf"}, "--clip needs a number from 0 to 1e+09, not 'inf'"},
                         {{"--clip", "1e300"}, "--clip needs a number from 0 to 1e+09, not '1e300'"},
                         {{"--weight-decay", "nan"}, "--weight-decay needs a number from 0 to 10, not 'nan'"},
                         {{"--weight-decay", "inf"}, "--weight-decay needs a number from 0 to 10, not 'inf'"},
                         {{"--weight-decay", "1e30"}, "--weight-decay needs a number from 0 to 10, not '1e30'"},
                         {{"--threads", "100000"}, "--threads needs a whole number from 1 to 4096, not '100000'"},
                         {{"--checkpoint", ""}, "--checkpoint needs a value, not ''"},
                         {{"--resume="}, "--resume needs a value"},
                         {{"--dp", "0"}, "--dp needs a whole number from 1"},
                         {{"--steps"}, "--steps needs a value"},
                         {{"--steps", "1", "--steps", "2"}, "--steps is given more than once"},
                         {{"tiny"}, "'tiny' is not an option"},
                         {{"--zero", "two"}, "--zero needs a whole number, not 'two'"}}) {
    testing::internal::CaptureStderr();
    TrainRequest options;
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
    TrainRequest options = small_run();
    ASSERT_EQ(parsed(c.words, options), std::nullopt);
    const std::vector<std::string> said = without_effect(make_plan(options, 0));
    ASSERT_EQ(said.size(), c.about.size()) << fmt::format("{}", fmt::join(said, "; "));
    for (std::size_t i = 0; i < said.size(); ++i) EXPECT_TRUE(said[i].starts_with(c.about[i] + " ")) << said[i];
  }
}

TEST(Train, EveryFieldOfAnOptionIsOnThePage) {
  const std::string page = read_file(LOCKSTEP_SOURCE_DIR "/docs/use/output.md");
  for (const bool in_context : {false, true}) {
    Row row;
    set_asked(row, {}, in_context);
    ASSERT_FALSE(row.fields().empty());
    for (const Row::Field& field : row.fields())
      EXPECT_NE(page.find('`' + field.name + '`'), page.npos)
          << "docs/use/output.md has no row of `" << field.name << '`';
  }
}

}  // namespace
}  // namespace lockstep::train
