// LOCKSTEP_TUNE: each product's algorithm is chosen once, for all processes that share the file; choices of another GPU
// or library are ignored. On the fake GPU each process measures different times, as on a real one.
#include "common/devices/cuda/tuning.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "common/testing/fakes/tests/fixture.hpp"

namespace lockstep {
namespace {

using Values = std::vector<float>;

class TunedProducts : public FakeTest {
 protected:
  TunedProducts() : folder_(std::filesystem::temp_directory_path() / ("lockstep_tuning_" + std::to_string(getpid()))) {
    setenv("LOCKSTEP_TUNE", file().c_str(), 1);
  }
  ~TunedProducts() override {
    unsetenv("LOCKSTEP_TUNE");
    std::filesystem::remove_all(folder_);
  }

  std::string file() const { return (folder_ / "deeper" / "products.txt").string(); }
  std::string text() const {
    std::ifstream in(file());
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::size_t lines() const {
    const std::string all = text();
    return static_cast<std::size_t>(std::count(all.begin(), all.end(), '\n'));
  }
  void append(const std::string& text) const { std::ofstream(file(), std::ios::app) << text; }

  struct Process {
    std::uint64_t times = 1, library = 1;
    std::string name = "Fake GPU";
  };
  /// Returns the process's results: an element of each of kShapes products.
  Values products(const Process& process) {
    start({.library_seed = process.library, .times_seed = process.times, .name = process.name});
    Values values(kMost * kMost);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1 / static_cast<float>(i % 89 + 1);
    float *const a = upload(values), *const b = upload(values), *const c = allocate<float>(kMost * kMost);
    Values results;
    {
      cuda::ProductLibrary library(nullptr, false);
      for (std::size_t i = 0; i < kShapes; ++i) {
        cuda::Product product{kMost - i, kMost, kMost};
        product.a = a;
        product.b = b;
        product.c = c;
        EXPECT_TRUE(library.run(product));
        results.push_back(download(c + i, 1).front());
      }
    }
    free(a, b, c);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(fake::finish(), Found{});
    return results;
  }
  /// The same, and its output on standard error.
  Values products(const Process& process, std::string& said) {
    testing::internal::CaptureStderr();
    const Values results = products(process);
    said = testing::internal::GetCapturedStderr();
    return results;
  }

  static constexpr std::size_t kShapes = 12, kMost = 96;
  std::filesystem::path folder_;
};

/// Products taken from the file, and measured ones, since the last call.
using Counts = cuda::TuningOrigins::Counts;
Counts take_counts() {
  const Counts counts = cuda::tuning_origins().counts();
  cuda::tuning_origins().forget();
  return counts;
}

TEST_F(TunedProducts, LaterProcessesTakeWhatTheFirstMeasured) {
  (void)take_counts();
  const Values first = products({.times = 1});
  EXPECT_EQ(take_counts(), (Counts{0, kShapes}));
  for (std::uint64_t times = 2; times < 6; ++times) {
    EXPECT_EQ(products({.times = times}), first);
    EXPECT_EQ(take_counts(), (Counts{kShapes, 0}));
  }
  EXPECT_EQ(lines(), kShapes);
}

TEST_F(TunedProducts, WithoutTheFileProcessesDiffer) {
  const Values first = products({.times = 1});
  std::filesystem::remove(file());
  EXPECT_NE(products({.times = 2}), first);
  setenv("LOCKSTEP_TUNE", "0", 1);
  const Values untuned = products({.times = 1});
  EXPECT_NE(untuned, first);
  unsetenv("LOCKSTEP_TUNE");
  EXPECT_EQ(products({.times = 2}), untuned);
}

TEST_F(TunedProducts, ProcessesThatMeasureAtTheSameTimeTakeOneWay) {
  constexpr std::uint64_t kProcesses = 6;
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::vector<pid_t> children;
  for (std::uint64_t times = 1; times <= kProcesses; ++times) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    const Values mine = products({.times = times});
    const auto bytes = static_cast<ssize_t>(mine.size() * sizeof(float));
    _exit(!HasFailure() && ::write(ends[1], mine.data(), static_cast<std::size_t>(bytes)) == bytes ? 0 : 1);
  }
  close(ends[1]);
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  Values first(kShapes), other(kShapes);
  const auto bytes = static_cast<ssize_t>(kShapes * sizeof(float));
  ASSERT_EQ(::read(ends[0], first.data(), static_cast<std::size_t>(bytes)), bytes);
  for (std::uint64_t i = 1; i < kProcesses; ++i) {
    ASSERT_EQ(::read(ends[0], other.data(), static_cast<std::size_t>(bytes)), bytes);
    EXPECT_EQ(other, first);
  }
  close(ends[0]);
  EXPECT_EQ(lines(), kShapes) << text();
}

// A process that measures the same product later uses the algorithm in the file when it comes to write its own.
TEST_F(TunedProducts, WhoMeasuresLaterTakesTheWayOfTheFirst) {
  cuda::Tuning slow(file(), "GPU", "library"), fast(file(), "GPU", "library");
  const cuda::ProductKey key{.m = 100, .n = 100, .k = 100};
  const auto usable = [](const cuda::Way&) { return true; };
  const cuda::Way way = slow.choose(key, usable, [&] {
    EXPECT_EQ(fast.choose(key, usable, [] { return cuda::Way{7, 8}; }), (cuda::Way{7, 8}));
    return cuda::Way{1};
  });
  EXPECT_EQ(way, (cuda::Way{7, 8}));
  EXPECT_EQ(lines(), 1u);
  const cuda::ProductKey later{.m = 200, .n = 100, .k = 100};
  (void)fast.choose(later, usable, [] { return cuda::Way{9}; });
  EXPECT_EQ(slow.choose(later, usable,
                        [] {
                          ADD_FAILURE() << "the file has it by now";
                          return cuda::Way{};
                        }),
            cuda::Way{9});
}

// A process that reads the file to add to it locks it meanwhile.
TEST_F(TunedProducts, OfManyThatWriteAtOnceOneIsTaken) {
  constexpr std::uint64_t kWriters = 4, kProducts = 150;
  std::vector<std::vector<cuda::Way>> taken(kWriters);
  std::vector<std::thread> writers;
  std::atomic<std::uint64_t> arrived{0};
  for (std::uint64_t w = 0; w < kWriters; ++w)
    writers.emplace_back([&, w] {
      cuda::Tuning tuning(file(), "GPU", "library");
      for (std::uint64_t i = 0; i < kProducts; ++i)
        taken[w].push_back(tuning.choose(
            cuda::ProductKey{.m = 100 + i, .n = 100, .k = 100}, [](const cuda::Way&) { return true; },
            [&] {
              ++arrived;  // others may measure this one, too
              std::this_thread::yield();
              return cuda::Way{w};
            }));
    });
  for (std::thread& writer : writers) writer.join();
  EXPECT_GE(arrived, kProducts);
  for (const auto& ways : taken) EXPECT_EQ(ways, taken.front());
  EXPECT_EQ(lines(), kProducts);
}

TEST_F(TunedProducts, AFileOfAnotherGpuOrLibraryIsNotUsed) {
  const Values first = products({.times = 1});
  (void)take_counts();
  std::string said;
  const Values other = products({.times = 2, .name = "Another GPU"}, said);
  EXPECT_NE(other, first);
  EXPECT_EQ(take_counts(), (Counts{0, kShapes}));
  EXPECT_EQ(said, "lockstep: " + file() +
                      ": entries that are not used: 12 of another GPU or library than Another GPU, fake products 1 "
                      "(LOCKSTEP_TUNE)\n");
  (void)products({.times = 2, .library = 2}, said);
  EXPECT_EQ(take_counts(), (Counts{0, kShapes}));
  EXPECT_NE(said.find("24 of another GPU or library than Fake GPU, fake products 2"), std::string::npos) << said;
  EXPECT_EQ(products({.times = 3}, said), first) << "the first GPU's are still there";
  EXPECT_EQ(take_counts(), (Counts{kShapes, 0}));
  EXPECT_EQ(products({.times = 3, .name = "Another GPU"}, said), other);
  EXPECT_EQ(take_counts(), (Counts{kShapes, 0}));
}

TEST_F(TunedProducts, WhatCannotBeReadIsSaidOnceAndNotUsed) {
  const Values first = products({.times = 1});
  std::string all = text();
  std::string said;
  append("nonsense\n" + all.substr(0, all.find('\n') - 3));  // torn, for example by a process that died
  EXPECT_EQ(products({.times = 2}, said), first);
  EXPECT_EQ(said, "lockstep: " + file() + ": entries that are not used: 2 that cannot be read (LOCKSTEP_TUNE)\n");

  // A torn line is last; lines added after it can be read.
  const std::size_t end = all.find('\n');
  std::filesystem::remove(file());
  append(all.substr(0, end - 3));
  (void)take_counts();
  const Values again = products({.times = 4}, said);
  EXPECT_EQ(take_counts(), (Counts{0, kShapes}));
  EXPECT_EQ(products({.times = 5}, said), again);
  EXPECT_EQ(take_counts(), (Counts{kShapes, 0}));
}

TEST_F(TunedProducts, AWayThatTheLibraryDoesNotHaveIsMeasuredAgain) {
  const Values first = products({.times = 1});
  std::string all = text();
  const std::size_t way = all.find('\n') - (8 * 17 - 1);
  all[way] = 'f';
  std::filesystem::remove(file());
  append(all);
  (void)take_counts();
  std::string said;
  EXPECT_EQ(products({.times = 1}, said), first);
  EXPECT_EQ(take_counts(), (Counts{kShapes - 1, 1}));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_NE(said.find("rejects its algorithm: m=96 n=96 k=96"), std::string::npos) << said;
  EXPECT_EQ(products({.times = 2}, said), first);
  EXPECT_EQ(said, "") << "the new line takes precedence";
}

TEST_F(TunedProducts, AFileThatCannotBeWrittenIsSaid) {
  setenv("LOCKSTEP_TUNE", "/dev/null/products.txt", 1);
  std::string said;
  EXPECT_EQ(products({.times = 1}, said).size(), kShapes);
  EXPECT_NE(said.find("is not kept, and other ranks may choose otherwise"), std::string::npos) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST_F(TunedProducts, ProductsThatDifferInAnythingHaveWaysOfTheirOwn) {
  cuda::Tuning tuning(file(), "GPU", "library");
  std::vector<cuda::ProductKey> keys(16, {.m = 100, .n = 101, .k = 102, .a_alignment = 16, .b_alignment = 16});
  keys[1].m = keys[2].n = keys[3].k = 99;
  keys[4].dtype = keys[5].c_dtype = DType::bf16;
  keys[6].a_transposed = keys[7].b_transposed = keys[8].accumulate = keys[9].bias = keys[10].tf32 = true;
  keys[11].epilogue = cuda::Epilogue::gelu;
  keys[12].a_alignment = keys[13].b_alignment = keys[14].c_alignment = keys[15].result_alignment = 2;
  const auto usable = [](const cuda::Way&) { return true; };
  for (std::uint64_t time = 0; time < 2; ++time)
    for (std::uint64_t i = 0; i < keys.size(); ++i)
      EXPECT_EQ(tuning.choose(keys[i], usable, [&] { return cuda::Way{i, time}; }), (cuda::Way{i, 0})) << i;
}

TEST_F(TunedProducts, SmallOnesTakeTheLibrarysFirstWay) {
  cuda::ProductKey key{.m = 64, .n = 64, .k = 64};
  EXPECT_FALSE(cuda::Tuning::matters(key));
  key.k = 65;
  EXPECT_TRUE(cuda::Tuning::matters(key));
}

}  // namespace
}  // namespace lockstep
