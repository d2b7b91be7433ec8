// ./lab train --checkpoint and --resume: a resumed run is the run that was not interrupted, on the same ranks bit for
// bit; on any others to rounding; and no error of a file costs more than the last save.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <thread>

#include "common/gpt/checkpoint/reader.hpp"
#include "common/gpt/tests/files_around.hpp"
#include "common/gpt/tests/memory_files.hpp"
#include "tools/train/train_testing.hpp"

namespace lockstep::train {
namespace {

struct Layout {
  int dp = 1, tp = 1, pp = 1, zero = 0;
  const char *wrap = "block", *schedule = "1f1b";
  int ranks() const { return dp * tp * pp; }
  std::string name() const { return fmt::format("({}, {}, {}), ZeRO-{}, {}, {}", dp, tp, pp, zero, wrap, schedule); }
};
const Layout kSerial = {}, kMesh = {2, 2, 2, 1};
const std::vector<Layout> kLayouts = {kSerial,      kMesh,
                                      {3},          {1, 4, 1},
                                      {2, 2, 1},    {4, 1, 2},
                                      {1, 1, 4},    {2, 1, 2, 0, "block", "interleaved"},
                                      {3, 1, 1, 1}, {2, 2, 1, 2, "5000"},
                                      {3, 1, 1, 3}, {2, 2, 1, 3, "layer"}};

class Saved : public Folder {
 protected:
  Saved() {  // a little text, read in no time
    std::string text(20000, ' ');
    std::ifstream(std::string(LOCKSTEP_SOURCE_DIR) + "/data/austen.txt").read(text.data(), 20000);
    std::ofstream(path("text")) << text.substr(0, text.rfind(' '));
  }
  TrainOptions run_in(const Layout& layout, int steps) const;
};

TrainOptions Saved::run_in(const Layout& layout, int steps) const {
  TrainOptions options = small_run();
  options.data = path("text");
  options.heads = 4;
  options.batch = 8;
  options.accumulate = layout.pp > 1 ? 2 : 1;
  options.tokens = "char";  // a vocabulary that no number of ranks divides
  options.ranks = layout.ranks();
  options.tp = layout.tp;
  options.pp = layout.pp;
  options.schedule = layout.schedule;
  options.zero = layout.zero;
  options.wrap = layout.wrap;
  options.steps = steps;
  return options;
}

/// All files below a path.
std::map<std::string, std::string> files_in(checkpoint::Files& files, const std::string& path) {
  std::map<std::string, std::string> all;
  for (const std::string& step : files.list(path))
    for (const std::string& name : files.list(path + "/" + step))
      all[step + "/" + name] = files.read(path + "/" + step + "/" + name);
  return all;
}

Trained train_with(const TrainOptions& options, checkpoint::Files& files) {
  Trained result = try_to_train(options, files);
  result.outcome.check();
  return result;
}

TEST_F(Saved, OnTheSameRanksAResumedRunIsTheUninterruptedOneToTheBit) {
  const auto compare = [&](TrainOptions options, const std::string& name) {
    checkpoint::MemoryFiles files;
    options.steps = 8;
    options.checkpoint = path("whole");
    options.checkpoint_every = 4;
    const Trained whole = train_with(options, files);
    TrainOptions half = options;
    half.steps = 4;
    half.checkpoint = path("half");
    train_with(half, files);
    options.checkpoint = options.resume = half.checkpoint;
    const Trained rest = train_with(options, files);
    ASSERT_EQ(rest.losses.size(), 4u);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(rest.losses[i], whole.losses[4 + i]) << name;
    EXPECT_EQ(rest.squares, whole.squares) << name;
    EXPECT_TRUE(rest.complaints.empty()) << rest.complaints.front();
    const auto expected = files_in(files, path("whole")), seen = files_in(files, path("half"));
    EXPECT_EQ(expected.size(), 2 * (1 + static_cast<std::size_t>(options.ranks)));  // the last two
    EXPECT_TRUE(expected == seen) << name;
  };
  for (const Layout& layout : kLayouts) compare(run_in(layout, 8), layout.name());
  for (const char* precision : {"bf16", "fp16"})
    for (const Layout& layout : {Layout{3}, kMesh, Layout{3, 1, 1, 3}}) {
      TrainOptions options = run_in(layout, 8);
      options.precision = precision;
      options.loss_scale_interval = 3;  // it doubles before and after the interruption
      compare(options, layout.name() + ", " + precision);
    }
  for (const char* compress : {"int8", "int8-two-step"}) {  // random rounding goes on where it was
    TrainOptions options = run_in({3}, 8);
    options.compress = compress;
    compare(options, compress);
  }
}

TEST_F(Saved, OnOtherRanksItIsTheSameToRounding) {
  for (std::size_t i = 0; i < kLayouts.size(); ++i) {
    const Layout& written = kLayouts[i];
    checkpoint::MemoryFiles files;
    TrainOptions first = run_in(written, 4);
    first.checkpoint = path("half");
    train_with(first, files);
    std::size_t elements = 0;
    for (const auto& shard : checkpoint::read_manifest(files, path("half/step-00000004")).shards) {
      elements += checkpoint::elements_of(shard.pieces);
      EXPECT_EQ(shard.elements, checkpoint::elements_of(shard.pieces)) << written.name();
    }
    EXPECT_EQ(elements, make_plan(run_in(kSerial, 4), 0).model.parameters()) << "each once: " << written.name();
    const auto resume = [&](const Layout& layout) {
      TrainOptions rest = run_in(layout, 8);
      rest.resume = path("half");
      return train_with(rest, files).losses;
    };
    const std::vector<double> expected = resume(kSerial);
    ASSERT_EQ(expected.size(), 4u);
    // The mesh as all others; each of them as the one after it.
    std::vector<Layout> others = kLayouts;
    if (i != 1) others = {kLayouts[(i + 1) % kLayouts.size()]};
    for (const Layout& read : others) {
      const std::vector<double> seen = resume(read);
      ASSERT_EQ(seen.size(), 4u);
      for (std::size_t k = 0; k < 4; ++k)
        EXPECT_NEAR(seen[k], expected[k], 2e-6 * expected[k])
            << "step " << 5 + k << ", " << written.name() << " as " << read.name();
    }
  }
}

/// Nothing of step 2 is written before the run has told of step 3.
class Slow final : public checkpoint::FilesAround {
 public:
  Slow(Files& files, std::string log) : FilesAround(files), log_(std::move(log)) {}
  void write(const std::string& path, std::initializer_list<std::string_view> parts) override {
    for (int tries = 0; path.find("step-00000002") != path.npos && !told(); ++tries) {
      if (tries > 30'000) throw Error(Verdict::fail, "training waits for " + path);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    FilesAround::write(path, parts);
  }

 private:
  bool told() const {
    std::ifstream file(log_);
    return std::string(std::istreambuf_iterator<char>(file), {}).find("3/6  loss") != std::string::npos;
  }
  std::string log_;
};

TEST_F(Saved, TrainingGoesOnWhileASaveIsWrittenAndTheNextWaitsForIt) {
  checkpoint::MemoryFiles memory;
  Slow files(memory, path("log"));
  TrainOptions options = run_in(kMesh, 6);
  options.checkpoint = path("out");
  options.checkpoint_every = 2;
  options.log_every = 1;
  std::FILE* log = std::fopen(path("log").c_str(), "w");
  const Trained seen = try_to_train(options, files, log);
  std::fclose(log);
  EXPECT_TRUE(seen.outcome.passed()) << seen.outcome.message;
  EXPECT_TRUE(seen.complaints.empty()) << seen.complaints.front();
  EXPECT_EQ(memory.list(path("out")), (std::vector<std::string>{"step-00000004", "step-00000006"}));
}

/// Two checkpoints, of steps 2 and 4, by two ranks.
class TwoSaved : public Saved {
 protected:
  TwoSaved() : options_(run_in({2, 1, 1, 1}, 4)) {
    options_.checkpoint = path("out");
    options_.checkpoint_every = 2;
    train(options_);
    options_.checkpoint = "";
    options_.checkpoint_every = 0;
    options_.resume = path("out");
    options_.steps = 6;
  }
  void alter(const std::string& name) {
    std::fstream file(path("out/" + name), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(1000);
    file.put('!');
  }
  /// In place of a file: who opened it to read would wait for a writer.
  void make_fifo(const std::string& name) {
    fs::remove(path("out/" + name));
    mkfifo(path("out/" + name).c_str(), 0666);
  }
  TrainOptions options_;
};

TEST_F(TwoSaved, ADamagedOneIsRefusedByNameAndTheOneBeforeIsUsed) {
  const Trained undamaged = train(options_);
  ASSERT_EQ(undamaged.losses.size(), 2u);
  const std::vector<std::pair<std::string, std::function<void()>>> damages = {
      {"rank-1.f32 was altered", [&] { alter("step-00000004/rank-1.f32"); }},
      {"its manifest was cut short or altered", [&] { alter("step-00000004/manifest"); }},
      {"rank-0.f32 was cut short", [&] { fs::resize_file(path("out/step-00000004/rank-0.f32"), 5000); }},
      {"rank-1.f32 is missing", [&] { fs::remove(path("out/step-00000004/rank-1.f32")); }},
      {"manifest is missing", [&] { fs::remove(path("out/step-00000004/manifest")); }},
      {"rank-1.f32: it is a pipe (FIFO), not a file", [&] { make_fifo("step-00000004/rank-1.f32"); }},
      {"manifest: it is a pipe (FIFO), not a file", [&] { make_fifo("step-00000004/manifest"); }},
  };
  for (const auto& [says, damage] : damages) {
    fs::copy(path("out"), path("copy"), fs::copy_options::recursive);
    damage();
    const Trained seen = train(options_);
    EXPECT_EQ(seen.losses.size(), 4u) << "goes on from step 2";
    ASSERT_EQ(seen.complaints.size(), 1u) << says;
    EXPECT_NE(seen.complaints[0].find("step-00000004"), std::string::npos) << seen.complaints[0];
    EXPECT_NE(seen.complaints[0].find(says), std::string::npos) << seen.complaints[0];
    EXPECT_EQ(std::vector<double>(seen.losses.begin() + 2, seen.losses.end()), undamaged.losses);
    fs::remove_all(path("out"));
    fs::rename(path("copy"), path("out"));
  }
}

TEST_F(TwoSaved, WhereNoneIsGoodOrOfThisModelTheRunIsRefused) {
  const auto expect = [&](const std::string& says) {
    checkpoint::Disk disk;
    const Outcome outcome = try_to_train(options_, disk).outcome;
    EXPECT_FALSE(outcome.passed());
    EXPECT_NE(outcome.message.find(says), std::string::npos) << outcome.message;
  };
  options_.layers = 3;
  expect("of 2 layers, 4 heads");
  options_.layers = 0;
  options_.optimizer = "sgd";
  expect("step-00000004 was made with --optimizer adamw, not sgd");
  options_.optimizer = "adamw";
  options_.steps = 3;
  expect("has 4 steps already: ask for more --steps than 3");
  options_.steps = 8;
  for (const char* step : {"2", "4"}) alter(fmt::format("step-0000000{}/rank-0.f32", step));
  expect("no checkpoint in " + options_.resume + " can be used");
  options_.resume = path("none");
  expect("none holds no checkpoint");
}

TEST_F(TwoSaved, OneCanGoBackAndWhatCameLaterIsSetAside) {
  options_.checkpoint = path("out//");
  options_.resume = path("out/step-00000002");
  options_.steps = 3;
  fs::create_directories(path("out/step-00000005.tmp-7"));  // of a run that was killed
  EXPECT_EQ(train(options_).losses.size(), 1u);
  checkpoint::Disk disk;
  EXPECT_EQ(disk.list(path("out")),
            (std::vector<std::string>{"step-00000002", "step-00000003", "step-00000004.aside"}));
}

TEST_F(TwoSaved, NobodysCheckpointsAreOverwritten) {
  TrainOptions other = run_in(kSerial, 4);
  other.checkpoint = path("out");
  try {
    make_plan(other, 0);
    ADD_FAILURE() << "writes among another run's checkpoints";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("has a checkpoint of step 4 already"), std::string::npos) << error.what();
  }
}

// What a loop over --resume meets: nothing saved yet, then a part, then all of it.
TEST_F(Saved, ALoopOverResumeBeginsGoesOnAndEnds) {
  TrainOptions options = run_in({2}, 8);
  options.checkpoint = options.resume = path("out/");
  options.checkpoint_every = 2;
  EXPECT_EQ(train(options).losses.size(), 8u) << "nothing saved yet";
  const Trained again = train(options);
  EXPECT_TRUE(again.losses.empty());
  EXPECT_TRUE(again.saved && again.complaints.empty() && !again.diverged && again.stop_code == 0);
  options.checkpoint = path("other");
  options.resume = path("none");
  checkpoint::Disk disk;
  EXPECT_FALSE(try_to_train(options, disk).outcome.passed()) << "a directory that the run does not save to";
}

/// Sends this process a signal when a file of a step is written.
class Signals final : public checkpoint::FilesAround {
 public:
  Signals(Files& files, int number) : FilesAround(files), number_(number) {}
  void write(const std::string& path, std::initializer_list<std::string_view> parts) override {
    if (number_ != 0 && path.find("step-00000004") != path.npos) kill(getpid(), number_.exchange(0));
    FilesAround::write(path, parts);
  }

 private:
  std::atomic<int> number_;
};

TEST_F(Saved, ASignalSavesAndEndsOnAllRanksAfterTheSameStep) {
  for (const Layout& layout : {kSerial, kMesh, Layout{3, 1, 1, 3}})
    for (const int number : {SIGTERM, SIGINT}) {
      TrainOptions options = run_in(layout, 30);
      options.checkpoint = path("whole");
      checkpoint::MemoryFiles files;
      train_with(options, files);
      options.checkpoint = path("out");
      options.checkpoint_every = 4;
      Signals signals(files, number);
      const Trained stopped = train_with(options, signals);
      EXPECT_EQ(stopped.stop_code, 128 + number) << layout.name();
      ASSERT_LT(stopped.losses.size(), 30u) << layout.name();
      EXPECT_EQ(files.list(path("out")).back(), fmt::format("step-{:08}", stopped.losses.size()));
      options.resume = path("out");
      EXPECT_EQ(train_with(options, files).stop_code, 0);
      EXPECT_TRUE(files.read(path("out/step-00000030/manifest")) == files.read(path("whole/step-00000030/manifest")))
          << "the interrupted run ends with other bytes: " << layout.name();
    }
}

TEST_F(Saved, TwoRunsDoNotShareAFolder) {
  TrainOptions options = run_in({2}, 4);
  options.checkpoint = path("out");
  checkpoint::Disk disk;
  auto other = disk.lock(path("out"));
  const Outcome refused = try_to_train(options, disk).outcome;
  EXPECT_EQ(refused.verdict, Verdict::usage);
  EXPECT_NE(refused.message.find(fmt::format("out is in use: process {} on ", getpid())), std::string::npos)
      << refused.message;
  other.reset();
  EXPECT_TRUE(train(options).saved);
}

/// The disk, but the directory of one save vanishes when a rank's file is in it.
class Vanishing final : public checkpoint::FilesAround {
 public:
  using FilesAround::FilesAround;
  void write(const std::string& path, std::initializer_list<std::string_view> parts) override {
    FilesAround::write(path, parts);
    if (path.find("step-00000004") != path.npos && path.ends_with("rank-0.f32"))
      FilesAround::remove(path.substr(0, path.rfind('/')));
  }
};

TEST_F(Saved, AFolderThatVanishesDuringASaveEndsTheSaveAndNotTheRun) {
  TrainOptions options = run_in({2}, 8);
  options.checkpoint = path("out");
  options.checkpoint_every = 4;
  checkpoint::Disk disk;
  Vanishing files(disk);
  const Trained seen = train_with(options, files);
  EXPECT_EQ(seen.losses.size(), 8u);
  EXPECT_TRUE(seen.saved);
  ASSERT_FALSE(seen.complaints.empty());
  EXPECT_NE(seen.complaints[0].find("step 4 was not written"), std::string::npos) << seen.complaints[0];
  EXPECT_EQ(disk.list(path("out")), std::vector<std::string>{"step-00000008"});
}

TEST_F(Saved, ARunThatDivergesKeepsTheLastGoodCheckpoint) {
  for (const int ranks : {1, 2}) {
    TrainOptions options = run_in({ranks}, 100);
    options.warmup = 0;
    options.learning_rate = options.weight_decay.emplace(10);
    options.checkpoint = path("out");
    options.checkpoint_every = 1;
    checkpoint::MemoryFiles files;
    const Trained seen = train_with(options, files);
    EXPECT_TRUE(seen.diverged);
    ASSERT_EQ(seen.complaints.size(), 1u);
    const std::string last = files.list(path("out")).back();
    EXPECT_NE(seen.complaints[0].find("the last good checkpoint is " + path("out/" + last)), std::string::npos)
        << seen.complaints[0];
    EXPECT_LT(last, fmt::format("step-{:08}", seen.losses.size()));
  }
  // Moments that overflow before a loss does: the run ends with the save that finds it.
  TrainOptions options = run_in(kSerial, 200);
  options.warmup = 0;
  options.learning_rate = 10;
  options.optimizer = "sgd";
  options.clip = 0;
  options.checkpoint = path("out");
  options.checkpoint_every = 1;
  checkpoint::MemoryFiles files;
  const Trained seen = try_to_train(options, files);
  EXPECT_NE(seen.outcome.message.find("the run diverged: "), std::string::npos) << seen.outcome.message;
  EXPECT_NE(seen.outcome.message.find(checkpoint::kNotFinite), std::string::npos) << seen.outcome.message;
  EXPECT_EQ(checkpoint::steps_in(files, path("out")).size(), 2u);
  EXPECT_EQ(files.list(path("out")).size(), 2u) << "and nothing of the save that comes next";
}

/// The disk, but writing one file of some steps fails, as when it is full.
class FullFor final : public checkpoint::FilesAround {
 public:
  FullFor(Files& disk, std::string file, std::vector<std::string> steps)
      : FilesAround(disk), file_(std::move(file)), steps_(std::move(steps)) {}
  void write(const std::string& path, std::initializer_list<std::string_view> parts) override {
    const auto in_path = [&](const std::string& word) { return path.find(word) != path.npos; };
    if (in_path(file_) && std::any_of(steps_.begin(), steps_.end(), in_path))
      throw Error(Verdict::fail, "cannot write " + path + ": No space left on device");
    FilesAround::write(path, parts);
  }

 private:
  std::string file_;
  std::vector<std::string> steps_;
};

// Of a rank's file, of what it says of it, and of the manifest, which rank 0 writes when the others are long past.
TEST_F(Saved, AFullDiskEndsTheSaveAndTheRunGoesOnOrStops) {
  for (const char* file : {"rank-1.f32", "rank-0.entry", "manifest"}) {
    TrainOptions options = run_in({2, 1, 1, 1}, 8);
    options.checkpoint_every = 2;
    options.checkpoint = path("out");
    checkpoint::Disk disk;
    const auto steps = [&] { return disk.list(path("out")); };
    FullFor once(disk, file, {"step-00000004"});
    const Trained on = try_to_train(options, once);
    EXPECT_TRUE(on.outcome.passed()) << on.outcome.message;
    EXPECT_EQ(on.losses.size(), 8u);
    EXPECT_TRUE(on.saved);
    ASSERT_EQ(on.complaints.size(), 1u) << file;
    for (const char* word : {"step 4 was not written", file, "No space left on device", "the run goes on"})
      EXPECT_NE(on.complaints[0].find(word), std::string::npos) << on.complaints[0];
    EXPECT_EQ(steps(), (std::vector<std::string>{"step-00000006", "step-00000008"}));
    fs::remove_all(path("out"));

    FullFor last(disk, file, {"step-00000008"});
    EXPECT_FALSE(try_to_train(options, last).saved) << "the end of the run is in no checkpoint";
    EXPECT_EQ(steps(), (std::vector<std::string>{"step-00000004", "step-00000006"}));
    fs::remove_all(path("out"));

    options.on_save_error = "stop";
    FullFor again(disk, file, {"step-00000004", "step-00000006", "step-00000008"});
    const Outcome stopped = try_to_train(options, again).outcome;
    EXPECT_EQ(stopped.verdict, Verdict::fail);
    for (const char* word : {"step 4 was not written", file, "No space left on device"})
      EXPECT_NE(stopped.message.find(word), std::string::npos) << stopped.message;
    options.resume = path("out");
    EXPECT_EQ(train(options).losses.size(), 6u);  // from step 2
    fs::remove_all(path("out"));
  }
}

}  // namespace
}  // namespace lockstep::train
