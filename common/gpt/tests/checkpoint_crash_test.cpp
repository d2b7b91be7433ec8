// Tests that the last good checkpoint survives a save that ends anywhere, by a crash or a full disk; that saves run in
// the background; and that only one run at a time saves to a folder.
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <functional>

#include "common/gpt/checkpoint/lock.hpp"
#include "common/gpt/checkpoint/saver.hpp"
#include "common/gpt/tests/checkpoint_testing.hpp"
#include "common/gpt/tests/files_around.hpp"
#include "common/gpt/tests/memory_files.hpp"
#include "common/support/tests/folder_testing.hpp"
#include "common/support/tests/refusal_testing.hpp"

namespace lockstep::checkpoint {
namespace {

/// Crashes at operation `at` of a save of step 30, where steps 10 and 20 exist, or 20 and another 30; power may be
/// lost. Returns true if the crash came before the end of the save.
bool survives_crash(std::size_t at, bool replaces, std::mt19937* power, const Layout& layout) {
  MemoryFiles files;
  save(files, layout, 10, 0);
  save(files, layout, 20, 1);
  if (replaces) save(files, layout, 30, 2);
  files.crash_at(at);
  bool crashed = false;
  try {
    save(files, layout, 30, 3);  // removes 10 at its end
  } catch (const MemoryFiles::Crash&) {
    crashed = true;
  }
  files.recover(power);
  const std::vector<int> good = good_steps(files, layout);
  const int last = good.empty() ? 0 : good.front();
  EXPECT_TRUE(last == 20 || last == 30) << last;
  EXPECT_TRUE(crashed || last == 30) << "was committed, and is gone";
  remove_leftovers(files, kDirectory);
  save(files, layout, 30, 4);
  EXPECT_EQ(good_steps(files, layout).front(), 30);
  remove_leftovers(files, kDirectory);
  for (const std::string& name : files.list(kDirectory)) EXPECT_EQ(name.find("tmp"), name.npos) << name;
  return crashed;
}

// Crashes at every single operation, with and without losing the data that had not reached the disk.
TEST(Checkpoint, ACrashBetweenAnyTwoOperationsLeavesTheLastGoodOne) {
  std::mt19937 layouts(5), power(6);
  const Layout layout = random_layout(some_tensors(), 2, layouts);
  for (const bool replaces : {false, true})
    for (int variant = 0; variant < 5; ++variant) {
      std::size_t at = 0;
      while (survives_crash(at, replaces, variant == 0 ? nullptr : &power, layout)) {
        ASSERT_FALSE(HasFailure()) << "operation " << at << ", variant " << variant;
        ++at;
      }
      EXPECT_GT(at, 15u);
    }
}

TEST(Checkpoint, OlderOnesGoAndLaterOnesStay) {
  std::mt19937 random(7);
  const Layout layout = random_layout(some_tensors(), 2, random);
  MemoryFiles files;
  for (int step : {50, 10, 20, 30}) save(files, layout, step, 0);
  EXPECT_EQ(steps_in(files, kDirectory), (std::vector<int>{50, 30, 20}));
  save(files, layout, 50, 1);  // replaces the old one
  EXPECT_EQ(good_steps(files, layout), (std::vector<int>{50, 30}));
}

/// Two ranks that save in the background.
struct TwoSavers {
  explicit TwoSavers(Files& f) : files(f) {}
  void start(int step) {
    const std::string path = begin(files, kDirectory, step, 0);
    for (int rank : {0, 1}) start_one(path, step, rank);
  }
  void start_one(const std::string& path, int step, int rank) {
    savers[rank].start(path, share_of(some_tensors(), layout[static_cast<std::size_t>(rank)], step),
                       rank == 0 ? head_of(step) : Manifest{});
  }
  std::mt19937 random{11};
  Layout layout = random_layout(some_tensors(), 2, random);
  Files& files;
  Saver savers[2] = {{files, kDirectory, 0, 2}, {files, kDirectory, 1, 2}};
};

TEST(Saver, ReturnsAtOnceAndCommitsWhenAllHaveWritten) {
  /// Blocks every write until the gate is open.
  class Gated final : public FilesAround {
   public:
    using FilesAround::FilesAround;
    void write(const std::string& path, std::initializer_list<std::string_view> parts) override {
      gate.wait(false);
      FilesAround::write(path, parts);
    }
    std::atomic<bool> gate = false;
  };
  MemoryFiles memory;
  Gated files(memory);
  TwoSavers two(files);
  two.start(10);  // returns although nothing can be written
  EXPECT_TRUE(two.savers[0].under_way());
  EXPECT_EQ(two.savers[0].failure(), "");
  EXPECT_TRUE(steps_in(files, kDirectory).empty());
  files.gate = true;
  files.gate.notify_all();
  for (Saver& saver : two.savers) EXPECT_EQ(saver.wait_for_share(), "");
  for (Saver& saver : two.savers) EXPECT_EQ(saver.settle(true), "");
  expect_step(files, 10, two.layout);
}

TEST(Saver, WhereOneRankDoesNotWriteNothingIsLeftAndTheNextSaveIsGood) {
  MemoryFiles files;
  TwoSavers two(files);
  const std::string path = begin(files, kDirectory, 10, 0);
  two.start_one(path, 10, 0);
  EXPECT_EQ(two.savers[0].wait_for_share(), "");
  EXPECT_EQ(two.savers[0].settle(false), "");
  EXPECT_TRUE(files.list(kDirectory).empty());
  two.start(20);
  for (Saver& saver : two.savers) EXPECT_EQ(saver.wait_for_share(), "");
  for (Saver& saver : two.savers) EXPECT_EQ(saver.settle(true), "");
  expect_step(files, 20, two.layout);
}

TEST(Saver, AFullDiskIsSaidAndWhatWasThereStays) {
  // Leaves room for the first checkpoint and more and more of the second, so that each of its writes fails once.
  for (std::size_t room = 0; room < 6000; room += 100) {
    MemoryFiles files;
    TwoSavers two(files);
    save(files, two.layout, 10, 1);
    files.set_room(room);
    std::string failure;
    bool good = true;
    two.start(20);
    for (Saver& saver : two.savers) failure += saver.wait_for_share();
    good = failure.empty();
    for (Saver& saver : two.savers) failure += saver.settle(good);
    const bool enough = failure.empty();
    EXPECT_TRUE(enough || failure.find("No space left on device") != failure.npos) << failure;
    EXPECT_EQ(good_steps(files, two.layout), enough ? (std::vector<int>{20, 10}) : std::vector<int>{10});
    EXPECT_EQ(files.list(kDirectory).size(), enough ? 2u : 1u);  // nothing half done
    ASSERT_TRUE(room > 1000 || !enough);
    ASSERT_TRUE(room < 5500 || enough);
    files.set_room({});
    two.start(30);
    for (Saver& saver : two.savers) EXPECT_EQ(saver.wait_for_share(), "");
    for (Saver& saver : two.savers) EXPECT_EQ(saver.settle(true), "");
    expect_step(files, 30, two.layout);
    ASSERT_FALSE(HasFailure()) << "room for " << room << " bytes";
  }
}

// The folder of a save vanishes, or a rank never writes. Rank 0 must report an error; it once waited forever.
TEST(Saver, ASaveThatCannotBecomeCompleteIsGivenUp) {
  MemoryFiles files;
  TwoSavers two(files);
  const std::string path = begin(files, kDirectory, 10, 0);
  two.start_one(path, 10, 0);
  EXPECT_EQ(two.savers[0].wait_for_share(), "");
  files.remove(path);
  EXPECT_EQ(two.savers[0].settle(true), path + " was removed while it was being written");

  Saver hasty(files, kDirectory, 0, 2, 2, std::chrono::milliseconds(20));
  const std::string again = begin(files, kDirectory, 20, 0);
  hasty.start(again, share_of(some_tensors(), two.layout[0], 20), head_of(20));
  EXPECT_EQ(hasty.wait_for_share(), "");
  EXPECT_EQ(hasty.settle(true),
            again + ": only 1 of 2 ranks have written their files, and no further rank within 0.02 s");
  EXPECT_TRUE(files.list(kDirectory).empty());
}

TEST(Saver, WhatIsNotFiniteIsNoCheckpoint) {
  MemoryFiles files;
  TwoSavers two(files);
  save(files, two.layout, 10, 1);
  Share share = share_of(some_tensors(), two.layout[0], 20);
  share.arrays[1].back() = NAN;
  two.savers[0].start(begin(files, kDirectory, 20, 0), share, head_of(20));
  EXPECT_EQ(two.savers[0].wait_for_share(), kNotFinite);
  EXPECT_EQ(two.savers[0].settle(false), "");
  EXPECT_EQ(files.list(kDirectory), (std::vector<std::string>{"step-00000010"}));
}

class FolderLocks : public TestFolder {
 protected:
  std::unique_ptr<Lock> lock() const { return lock_folder(folder_.string()); }
  bool is_left() const { return fs::exists(folder_ / "lock"); }
};

TEST_F(FolderLocks, OneRunHasItAndTheOtherIsToldWhich) {
  auto first = lock();
  EXPECT_TRUE(first->held());
  const std::string said = refusal([this] { lock(); });
  EXPECT_TRUE(said.starts_with(folder_.string() + " is in use: process " + std::to_string(getpid()) + " on ")) << said;
  EXPECT_NE(said.find("UTC, saves its checkpoints there"), said.npos) << said;
  EXPECT_EQ(said.find("remove"), said.npos) << "the system knows whether it has ended";
  first.reset();
  EXPECT_FALSE(is_left());
  EXPECT_EQ(refusal([this] { lock(); }), "");
}

TEST_F(FolderLocks, OfAProcessThatDiedIsTakenOver) {
  const pid_t holder = fork();
  if (holder == 0) {
    const auto killed = lock();
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(holder, &status, 0), holder);
  ASSERT_TRUE(WIFSIGNALED(status) && is_left());
  EXPECT_EQ(refusal([this] { lock(); }), "");
  EXPECT_FALSE(is_left());
}

TEST_F(FolderLocks, ItIsLostWithItsFolder) {
  const auto first = lock();
  std::filesystem::remove_all(folder_);
  EXPECT_FALSE(first->held());
  std::filesystem::create_directories(folder_);
  const auto second = lock();
  EXPECT_FALSE(first->held());
  EXPECT_TRUE(second->held());
}

// The same on this computer's file system.
TEST(Disk, WritesReadsAndSaysWhatItCannot) {
  Disk disk;
  const std::string folder = std::filesystem::temp_directory_path() / ("lockstep_disk_" + std::to_string(getpid()));
  disk.make_directory(folder + "/a/b");
  disk.write(folder + "/a/file", {"one ", "", "two"});
  disk.write(folder + "/a/file", {"one ", "", "three"});
  disk.sync_directory(folder + "/a");
  EXPECT_EQ(disk.read(folder + "/a/file"), "one three");
  EXPECT_EQ(disk.list(folder + "/a"), (std::vector<std::string>{"b", "file"}));
  EXPECT_TRUE(disk.list(folder + "/none").empty());
  disk.rename(folder + "/a", folder + "/c");
  EXPECT_FALSE(disk.exists(folder + "/a"));
  EXPECT_TRUE(disk.exists(folder + "/c/b"));
  const auto expect = [](const std::string& says, const std::function<void()>& f) {
    try {
      f();
      ADD_FAILURE() << "no error: " << says;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), says);
    }
  };
  expect("cannot write /dev/full: No space left on device", [&] { disk.write("/dev/full", {"much"}); });
  expect("cannot read " + folder + "/none: No such file or directory", [&] { disk.read(folder + "/none"); });
  const std::string pipe = folder + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  expect("cannot read " + pipe + ": it is a pipe (FIFO), not a file", [&] { disk.read(pipe); });
  expect("cannot make the directory " + folder + "/c/file/x: Not a directory",
         [&] { disk.make_directory(folder + "/c/file/x"); });
  disk.make_directory(folder + "/d/e");
  expect("cannot rename to " + folder + "/d: Directory not empty", [&] { disk.rename(folder + "/c", folder + "/d"); });
  disk.remove(folder);
  disk.remove(folder);
  EXPECT_FALSE(disk.exists(folder));
}

}  // namespace
}  // namespace lockstep::checkpoint
