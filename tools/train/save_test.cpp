// ./lab train --checkpoint: saves during training, signals, and no error of a file costs more than the last save.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <fstream>
#include <iterator>
#include <thread>

#include "common/gpt/checkpoint/reader.hpp"
#include "common/gpt/tests/files_around.hpp"
#include "common/support/json/row_fields.hpp"
#include "tools/train/checkpoint_testing.hpp"

namespace lockstep::train {
namespace {

/// Holds back all writes of step 2 until the run has told of step 3.
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
  TrainRequest options = run_in(kMesh, 6);
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

/// Sends this process a signal when a file of a step is written.
class Signals final : public checkpoint::FilesAround {
 public:
  Signals(Files& files, int number) : FilesAround(files), number_(number) {}
  void write(const std::string& path, std::initializer_list<std::string_view> parts) override {
    // This thread gets it: ThreadSanitizer keeps one for the process from a thread that waits, as the main one does.
    if (number_ != 0 && path.find("step-00000004") != path.npos) raise(number_.exchange(0));
    FilesAround::write(path, parts);
  }

 private:
  std::atomic<int> number_;
};

TEST_F(Saved, ASignalSavesAndEndsOnAllRanksAfterTheSameStep) {
  for (const Layout& layout : {kSerial, kMesh, Layout{3, 1, 1, 3}})
    for (const int number : {SIGTERM, SIGINT}) {
      TrainRequest options = run_in(layout, 30);
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
  TrainRequest options = run_in({2}, 4);
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
  TrainRequest options = run_in({2}, 8);
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
    TrainRequest options = run_in({ranks}, 100);
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
  // Parameters that overflow before a loss does: the run ends with the save that finds it.
  TrainRequest options = run_in(kSerial, 2);
  options.checkpoint = path("out");
  options.checkpoint_every = 1;
  checkpoint::MemoryFiles files;
  train_with(options, files);
  options.resume = path("out");
  options.steps = 200;
  options.warmup = 0;
  options.learning_rate = 1e39;
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

// The disk is full for a rank's file, for the entry that describes it, or for the manifest, which rank 0 writes when
// the others have long continued.
TEST_F(Saved, AFullDiskEndsTheSaveAndTheRunGoesOnOrStops) {
  for (const char* file : {"rank-1.f32", "rank-0.entry", "manifest"}) {
    TrainRequest options = run_in({2, 1, 1, 1}, 8);
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
    for (const char* word : {"step 4 was not written", file, "No space left on device", "the run continues"})
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

/// The result of a run with four saves, the second of which a full disk ends.
Row row_with_saves(TrainRequest options, const std::string& directory, checkpoint::Files& files) {
  options.checkpoint_every = 2;
  options.checkpoint = directory;
  FullFor once(files, "manifest", {"step-00000004"});
  const TrainPlan plan = make_plan(options, 0);
  TrainLog log(plan, nullptr);
  StopSignals signals(true);
  const Outcome outcome = run(plan.run, [&](Rank me) { return train_rank(me, plan, log, once, signals); });
  return log.result_row(outcome.check());
}

TEST_F(Saved, SavesAreTimedThatBecameComplete) {
  checkpoint::MemoryFiles memory;
  const Row serial = row_with_saves(run_in(kSerial, 8), path("serial"), memory);
  EXPECT_EQ(std::get<std::uint64_t>(*find(serial, "timed_saves")), 3u) << "of four, one was not written";
  const double stopped = number(serial, "save_stopped_seconds"), complete = number(serial, "save_complete_seconds");
  EXPECT_GT(stopped, 0);
  EXPECT_GT(complete, stopped);
  const Row mesh = row_with_saves(run_in(kMesh, 8), path("mesh"), memory);
  EXPECT_EQ(std::get<std::uint64_t>(*find(mesh, "timed_saves")), 0u) << "virtual time has no clock for a disk";
  EXPECT_TRUE(std::isnan(number(mesh, "save_stopped_seconds")));
}

}  // namespace
}  // namespace lockstep::train
