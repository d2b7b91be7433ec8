// ./lab train --resume: a resumed run is the run that was not interrupted, on the same ranks bit for bit; on any others
// to rounding; and damaged checkpoints are refused by name.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <functional>

#include "common/gpt/checkpoint/reader.hpp"
#include "common/support/tests/refusal_testing.hpp"
#include "tools/train/checkpoint_testing.hpp"
#include "tools/train/weights.hpp"

namespace lockstep::train {
namespace {

TEST_F(Saved, OnTheSameRanksAResumedRunIsTheUninterruptedOneToTheBit) {
  const auto compare = [&](TrainRequest options, const std::string& name) {
    checkpoint::MemoryFiles files;
    options.steps = 8;
    options.dropout = 0.1;  // another step drops others
    options.checkpoint = path("whole");
    options.checkpoint_every = 4;
    const Trained whole = train_with(options, files);
    TrainRequest half = options;
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
      TrainRequest options = run_in(layout, 8);
      options.precision = precision;
      options.loss_scale_interval = 3;  // it doubles before and after the interruption
      compare(options, layout.name() + ", " + precision);
    }
  for (const char* compress : {"int8", "int8-two-step"}) {  // random rounding continues where it was
    TrainRequest options = run_in({3}, 8);
    options.compress = compress;
    compare(options, compress);
  }
}

TEST_F(Saved, OnOtherRanksItIsTheSameToRounding) {
  for (std::size_t i = 0; i < kLayouts.size(); ++i) {
    const Layout& written = kLayouts[i];
    checkpoint::MemoryFiles files;
    TrainRequest first = run_in(written, 4);
    first.checkpoint = path("half");
    train_with(first, files);
    std::size_t elements = 0;
    for (const auto& shard : checkpoint::read_manifest(files, path("half/step-00000004")).shards) {
      elements += checkpoint::elements_of(shard.pieces);
      EXPECT_EQ(shard.elements, checkpoint::elements_of(shard.pieces)) << written.name();
    }
    EXPECT_EQ(elements, make_plan(run_in(kSerial, 4), 0).step.model.parameters()) << "each once: " << written.name();
    const auto resume = [&](const Layout& layout) {
      TrainRequest rest = run_in(layout, 8);
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

class OuterSaved : public Saved {
 protected:
  TrainRequest outer_run(int ranks, int every, double momentum) const {
    TrainRequest options = run_in({ranks}, 8);
    options.batch = 12;
    options.outer_steps = every;
    options.outer_momentum = momentum;
    options.checkpoint = path("whole");
    options.checkpoint_every = 2;  // the last two stay: 6 and 8
    return options;
  }
};

TEST_F(OuterSaved, ReplicasThatStepOnTheirOwnResumeWhereTheyWere) {
  for (const int ranks : {2, 3})
    for (const int every : {3, 4})  // at step 6 an outer step, and between two
      for (const double momentum : {0.9, 0.0}) {
        const std::string name = fmt::format("{} replicas, {} local steps, momentum {}", ranks, every, momentum);
        checkpoint::MemoryFiles files;
        TrainRequest options = outer_run(ranks, every, momentum);
        const Trained whole = train_with(options, files);
        options.resume = path("whole/step-00000006");
        options.checkpoint = path("rest");
        const Trained rest = train_with(options, files);
        EXPECT_EQ(rest.losses, std::vector<double>(whole.losses.begin() + 6, whole.losses.end())) << name;
        EXPECT_EQ(rest.squares, whole.squares) << name;
        EXPECT_TRUE(rest.complaints.empty()) << rest.complaints.front();
        const auto expected = files_in(files, path("whole")), seen = files_in(files, path("rest"));
        EXPECT_EQ(seen.size(), 1 + static_cast<std::size_t>(ranks));
        for (const auto& [file, text] : seen) EXPECT_TRUE(expected.at(file) == text) << name << ": " << file;
        std::size_t elements = 0;
        for (const auto& shard : checkpoint::read_manifest(files, path("whole/step-00000006")).shards)
          elements += checkpoint::elements_of(shard.pieces);
        EXPECT_EQ(elements, (1 + static_cast<std::size_t>(ranks)) * make_plan(options, 0).step.model.parameters());
      }
}

TEST_F(OuterSaved, OtherReplicasAreRefusedAndOtherOuterOptionsAreSaid) {
  checkpoint::MemoryFiles files;
  train_with(outer_run(2, 4, 0.9), files);
  TrainRequest plain = run_in({2}, 8);
  plain.checkpoint = path("plain");
  train_with(plain, files);
  const auto refusal = [&](TrainRequest options, const std::string& from) {
    options.checkpoint = "";
    options.checkpoint_every = 0;
    options.resume = path(from);
    options.steps = 10;
    return try_to_train(options, files).outcome.message;
  };
  const auto expect = [](const std::string& message, const std::string& part) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect(refusal(outer_run(3, 4, 0.9), "whole"),
         "step-00000008 was made with --outer-steps on 2 replicas, and this run is with --outer-steps on 3 replicas");
  expect(refusal(run_in({2}, 8), "whole"), "and this run is without --outer-steps");
  expect(refusal(outer_run(2, 4, 0.9), "plain"), "was made without --outer-steps, and this run is with");
  TrainRequest others = outer_run(2, 5, 0.8);
  others.resume = path("whole");
  others.steps = 10;
  const Trained seen = train_with(others, files);
  ASSERT_EQ(seen.complaints.size(), 1u);
  expect(seen.complaints[0], "this run has 2 replicas, 0 local steps since the last outer step, which follows 5");
}

TEST_F(OuterSaved, TheModelOfTheLastOuterStepIsExportedAndAllReplicasBeginWithIt) {
  checkpoint::MemoryFiles files;
  TrainRequest options = outer_run(2, 4, 0.9);
  const Trained whole = train_with(options, files);
  export_weights(files, path("whole"), path("out.safetensors"));
  options.checkpoint = "";
  options.checkpoint_every = 0;
  options.init = path("out.safetensors");
  options.steps = 4;
  const Trained seen = train_with(options, files);
  ASSERT_EQ(seen.losses.size(), 4u);
  TrainRequest plain = options;
  plain.outer_steps = 0;
  EXPECT_NEAR(seen.losses[0], train_with(plain, files).losses[0], 1e-6) << "the same model, before any step";
  EXPECT_LT(seen.losses[0], whole.losses[0]);
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
  TrainRequest options_;
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
  expect("has 4 steps: use --steps with more than 3");
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
  TrainRequest other = run_in(kSerial, 4);
  other.checkpoint = path("out");
  const std::string said = refusal([&] { make_plan(other, 0); });
  EXPECT_NE(said.find("already has a checkpoint of step 4"), std::string::npos) << said;
}

// A loop over --resume meets nothing saved yet, then a part, then all of it.
TEST_F(Saved, ALoopOverResumeBeginsGoesOnAndEnds) {
  TrainRequest options = run_in({2}, 8);
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

}  // namespace
}  // namespace lockstep::train
