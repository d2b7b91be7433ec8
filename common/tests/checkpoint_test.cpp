// Checkpoints: what was saved in any layout is read in any other; whatever is altered is refused by name; and wherever
// a save ends, the last good one is there.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <numeric>
#include <random>

#include "common/checkpoint/crc32c.hpp"
#include "common/checkpoint/reader.hpp"
#include "common/checkpoint/saver.hpp"
#include "common/tests/files_around.hpp"
#include "common/tests/memory_files.hpp"

namespace lockstep::checkpoint {
namespace {

const std::string kDirectory = "/out";

std::vector<Tensor> some_tensors() { return {{"embedding", 7, 5}, {"bias", 1, 11}, {"up", 12, 4}, {"down", 4, 9}}; }

/// Which elements of the model each rank has, and in which order: cut by columns, by rows, or anywhere; by chance.
using Layout = std::vector<std::vector<Run>>;

Layout random_layout(const std::vector<Tensor>& tensors, std::size_t ranks, std::mt19937& random) {
  Layout layout(ranks);
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const std::size_t rows = tensors[t].rows, columns = tensors[t].columns;
    const auto add = [&](std::size_t rank, std::size_t first, std::size_t count) {
      if (count > 0) layout[rank].push_back({t, first, 0, count});
    };
    std::vector<Run> runs;
    switch (random() % 4) {
      case 0:  // columns
        for (std::size_t row = 0; row < rows; ++row)
          for (std::size_t r = 0; r < ranks; ++r) {
            const std::size_t begin = columns * r / ranks;
            add(r, row * columns + begin, columns * (r + 1) / ranks - begin);
          }
        break;
      case 1:  // whole rows, to anybody
        for (std::size_t row = 0; row < rows; ++row) add(random() % ranks, row * columns, columns);
        break;
      case 2:  // stretches of anything, also of several rows, in any order
        for (std::size_t first = 0, count = 0; first < rows * columns; first += count) {
          count = std::min(rows * columns - first, random() % 2 ? columns * (random() % 3) : 1 + random() % columns);
          runs.push_back({t, first, 0, count});
        }
        std::shuffle(runs.begin(), runs.end(), random);
        for (const Run& run : runs) add(random() % ranks, run.first, run.count);
        break;
      default:  // chunks
        for (std::size_t r = 0; r < ranks; ++r) {
          const std::size_t begin = rows * columns * r / ranks;
          add(r, begin, rows * columns * (r + 1) / ranks - begin);
        }
    }
  }
  for (auto& runs : layout) runs = packed(std::move(runs));
  return layout;
}

/// Array k of element i of tensor t at step s: a number of its own.
float value_of(int step, std::size_t tensor, std::size_t element, std::size_t k) {
  return static_cast<float>(step * 1000 + static_cast<int>(tensor * 200 + element)) + 0.25f * static_cast<float>(k);
}

Share share_of(const std::vector<Tensor>& tensors, const std::vector<Run>& runs, int step) {
  Share share{pieces_of(tensors, runs), {}};
  for (const Run& run : runs)
    for (std::size_t i = 0; i < run.count; ++i)
      for (std::size_t k = 0; k < kArrays; ++k) share.arrays[k].push_back(value_of(step, run.tensor, run.first + i, k));
  return share;
}

Manifest head_of(int step) { return {step, {{"model", "four tensors"}, {"loss_scale", "65536"}}, some_tensors(), {}}; }

/// What every rank does, one after the other.
void save(Files& files, const Layout& layout, int step, unsigned attempt, int keep = 2) {
  const std::string path = begin(files, kDirectory, step, attempt);
  const int ranks = static_cast<int>(layout.size());
  for (int rank = 0; rank < ranks; ++rank)
    write_share(files, path, rank, share_of(some_tensors(), layout[static_cast<std::size_t>(rank)], step));
  EXPECT_TRUE(all_written(files, path, ranks));
  commit(files, kDirectory, path, head_of(step), ranks);
  prune(files, kDirectory, step, keep);
}

/// Reads all of a checkpoint in a layout, and compares.
void expect_step(Files& files, int step, const Layout& layout) {
  const std::string path = step_path(kDirectory, step);
  const Manifest manifest = read_manifest(files, path);
  EXPECT_EQ(manifest.step, step);
  EXPECT_EQ(manifest.facts, head_of(step).facts);
  EXPECT_EQ(manifest.tensors, some_tensors());
  for (const auto& runs : layout) {
    const Share expected = share_of(some_tensors(), runs, step);
    Share seen{expected.pieces, {}};
    read_share(files, path, manifest, elements_of(runs), seen);
    for (std::size_t k = 0; k < kArrays; ++k) EXPECT_EQ(seen.arrays[k], expected.arrays[k]);
  }
}

std::vector<int> good_steps(Files& files, const Layout& layout) {
  std::vector<int> good;
  for (const int step : steps_in(files, kDirectory)) {
    try {
      expect_step(files, step, layout);
      good.push_back(step);
    } catch (const Error& error) {
      ADD_FAILURE() << "a checkpoint that is there cannot be read: " << error.what();
    }
  }
  return good;
}

TEST(Crc32c, IsTheStandards) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  std::string text(100, 'a');
  std::iota(text.begin(), text.end(), ' ');
  for (std::size_t cut = 0; cut <= text.size(); ++cut)
    EXPECT_EQ(crc32c(text.substr(cut), crc32c(text.substr(0, cut))), crc32c(text)) << cut;
}

TEST(Checkpoint, ColumnsAreOnePieceAndAnyStretchAtMostThree) {
  const std::vector<Tensor> tensors{{"a", 1000, 64}};
  std::vector<checkpoint::Run> columns;
  for (std::size_t row = 0; row < 1000; ++row) columns.push_back({0, row * 64 + 16, row * 16, 16});
  EXPECT_EQ(pieces_of(tensors, columns), (std::vector<Piece>{{0, 0, 1000, 16, 16, 0, 16}}));
  EXPECT_EQ(pieces_of(tensors, {{0, 70, 0, 500}}),
            (std::vector<Piece>{{0, 1, 1, 6, 58, 0, 58}, {0, 2, 6, 0, 64, 58, 64}, {0, 8, 1, 0, 58, 442, 58}}));
  EXPECT_EQ(pieces_of(tensors, {{0, 64, 0, 640}}), (std::vector<Piece>{{0, 1, 10, 0, 64, 0, 64}}));
}

TEST(Checkpoint, AnyLayoutIsReadInAnyOther) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    MemoryFiles files;
    const Layout written = random_layout(some_tensors(), 1 + random() % 5, random);
    save(files, written, 40, seed);
    const Layout read = random_layout(some_tensors(), 1 + random() % 5, random);
    expect_step(files, 40, read);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

TEST(Checkpoint, TheManifestNamesEachElementOnce) {
  std::mt19937 random(1);
  MemoryFiles files;
  save(files, random_layout(some_tensors(), 3, random), 8, 0);
  const Manifest manifest = read_manifest(files, step_path(kDirectory, 8));
  std::size_t elements = 0;
  for (const Shard& shard : manifest.shards) elements += elements_of(shard.pieces);
  EXPECT_EQ(elements, 7u * 5 + 11 + 12 * 4 + 4 * 9);
  EXPECT_EQ(files.list(step_path(kDirectory, 8)),
            (std::vector<std::string>{"manifest", "rank-0.f32", "rank-1.f32", "rank-2.f32"}));
}

/// Whatever is done to it, what cannot be trusted is refused, and the sentence names the file.
class Damaged : public testing::Test {
 protected:
  Damaged() {
    std::mt19937 random(3);
    layout_ = random_layout(some_tensors(), 2, random);
    save(files_, layout_, 1, 0);
  }
  void expect_refused(const std::string& names, const std::string& says) {
    try {
      const std::string path = step_path(kDirectory, 1);
      const Manifest manifest = read_manifest(files_, path);
      for (const auto& runs : layout_) {
        Share share{pieces_of(some_tensors(), runs), {}};
        read_share(files_, path, manifest, elements_of(runs), share);
      }
      ADD_FAILURE() << "accepted: " << names << " " << says;
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_EQ(error.verdict(), Verdict::usage);
      EXPECT_NE(text.find(names), text.npos) << text;
      EXPECT_NE(text.find(says), text.npos) << text;
    }
  }
  std::string& contents(const std::string& name) { return files_.contents(step_path(kDirectory, 1) + "/" + name); }

  MemoryFiles files_;
  Layout layout_;
};

TEST_F(Damaged, AnAlteredByteAnywhere) {
  for (const std::string name : {"rank-0.f32", "rank-1.f32", "manifest"})
    for (std::size_t i = 0; i < contents(name).size(); ++i) {
      contents(name)[i] = static_cast<char>(contents(name)[i] ^ (1 << (i % 8)));
      expect_refused(name == "manifest" ? "its manifest" : "/" + name, name == "manifest" ? "" : "was altered");
      contents(name)[i] = static_cast<char>(contents(name)[i] ^ (1 << (i % 8)));
      ASSERT_FALSE(HasFailure()) << name << ", byte " << i;
    }
}

TEST_F(Damaged, AFileThatIsCutShortAnywhereOrLonger) {
  for (const std::string name : {"rank-1.f32", "manifest"}) {
    const std::string whole = contents(name);
    for (std::size_t length = 0; length < whole.size(); ++length) {
      contents(name) = whole.substr(0, length);
      expect_refused(name == "manifest" ? "its manifest" : "/rank-1.f32", name == "manifest" ? "" : "cut short");
      ASSERT_FALSE(HasFailure()) << name << ", " << length << " bytes";
    }
    contents(name) = whole + "x";
    expect_refused(name == "manifest" ? "its manifest" : "/rank-1.f32", "");
    contents(name) = whole;
  }
}

TEST_F(Damaged, AMissingFile) {
  files_.remove(step_path(kDirectory, 1) + "/rank-1.f32");
  expect_refused("/rank-1.f32", "is missing");
  files_.remove(manifest_path(step_path(kDirectory, 1)));
  expect_refused("/manifest", "is missing");
}

TEST_F(Damaged, AManifestWithARightChecksumThatMakesNoSense) {
  const std::string path = step_path(kDirectory, 1);
  const Manifest good = read_manifest(files_, path);
  const auto expect = [&](const std::string& says, const std::function<void(Manifest&)>& spoil) {
    Manifest bad = good;
    spoil(bad);
    contents("manifest") = manifest_text(bad);
    expect_refused("", says);
  };
  expect("does not fit", [](Manifest& m) { m.shards[0].pieces[0].rows += 100; });
  expect("does not fit", [](Manifest& m) { m.shards[0].pieces[0].column = static_cast<std::size_t>(-1); });
  expect("does not fit", [](Manifest& m) { m.shards[1].pieces[0].tensor = 4; });
  expect("does not fit", [](Manifest& m) { m.shards[1].pieces[0].at = m.shards[1].elements; });
  expect("/x", [](Manifest& m) { m.shards[1].file = "../x"; });
  expect("lacks", [](Manifest& m) { m.shards[1].pieces.pop_back(); });
  expect("cut short", [](Manifest& m) { m.shards[1].elements += 1; });
}

// A crash at every single operation of a save, with and without what had not reached the disk.
TEST(Checkpoint, ACrashBetweenAnyTwoOperationsLeavesTheLastGoodOne) {
  std::mt19937 layouts(5), power(6);
  const Layout layout = random_layout(some_tensors(), 2, layouts);
  std::size_t crashes = 0;
  for (int variant = 0; variant < 9; ++variant)
    for (std::size_t at = 0;; ++at) {
      MemoryFiles files;
      save(files, layout, 10, 0);
      save(files, layout, 20, 1);
      files.crash_at(at);
      bool crashed = false;
      try {
        save(files, layout, 30, 2);  // removes 10 at its end
      } catch (const MemoryFiles::Crash&) {
        crashed = true;
      }
      files.recover(variant == 0 ? nullptr : &power);
      const std::vector<int> good = good_steps(files, layout);
      const int last = good.empty() ? 0 : good.front();
      EXPECT_TRUE(last == 20 || last == 30) << last;
      EXPECT_TRUE(crashed || last == 30) << "was committed, and is gone";
      remove_leftovers(files, kDirectory);
      save(files, layout, 30, 3);
      EXPECT_EQ(good_steps(files, layout).front(), 30);
      remove_leftovers(files, kDirectory);
      for (const std::string& name : files.list(kDirectory)) EXPECT_EQ(name.find("tmp"), name.npos) << name;
      ASSERT_FALSE(HasFailure()) << "operation " << at << ", variant " << variant;
      if (!crashed) break;
      ++crashes;
    }
  EXPECT_GT(crashes, 9u * 15);
}

TEST(Checkpoint, OlderOnesGoAndLaterOnesStay) {
  std::mt19937 random(7);
  const Layout layout = random_layout(some_tensors(), 2, random);
  MemoryFiles files;
  for (int step : {50, 10, 20, 30}) save(files, layout, step, 0);
  EXPECT_EQ(steps_in(files, kDirectory), (std::vector<int>{50, 30, 20}));
  save(files, layout, 50, 1);  // takes the place of the old one
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
  /// Nobody's write ends before the gate is open.
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
  two.start(10);  // returns, though nothing can be written
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
  // Room for the first checkpoint and for ever more of the second, so that each of its writes fails once.
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

// The same on the computer's own files.
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
