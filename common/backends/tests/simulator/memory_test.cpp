// Memory per rank and per message of the simulator: bytes and allocations, counted here, and pages.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <new>
#include <thread>

#include "common/backends/tests/simulator/algorithms.hpp"
#include "common/backends/tests/simulator/times.hpp"
#include "common/runtime/fibers/arena.hpp"

namespace {

std::atomic<std::size_t> live_bytes{0}, peak_bytes{0}, allocations{0};

void* counted(void* memory) {
  if (!memory) throw std::bad_alloc();
  ++allocations;
  const std::size_t live = live_bytes += malloc_usable_size(memory);
  if (live > peak_bytes) peak_bytes = live;
  return memory;
}

void give_back(void* memory) {
  if (memory) live_bytes -= malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t bytes) { return counted(std::malloc(bytes)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  const auto a = static_cast<std::size_t>(alignment);
  return counted(std::aligned_alloc(a, (bytes + a - 1) / a * a));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {  // of std::stable_sort; a sanitizer has its own
  try {
    return counted(std::malloc(bytes));
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t) noexcept { give_back(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { give_back(memory); }

namespace lockstep {
namespace {

using namespace simulator_tests;

RunOptions unchecked(int ranks) {
  RunOptions options = on(ranks);
  options.check_races = false;  // its histories grow with every check
  return options;
}

/// Peak of the heap, for the run and its result.
double heap_bytes_per_rank(int ranks, const std::function<void(Rank, Slice)>& algorithm) {
  const std::size_t before = live_bytes;
  peak_bytes = before;
  EXPECT_GT(seconds(unchecked(ranks), 1 << 14, algorithm), 0);
  return static_cast<double>(peak_bytes - before) / ranks;
}

/// In step d, each rank sends to the rank d further on.
void pairwise_all_to_all(Rank me, const Slice& x) {
  const int p = me.size(), r = me.rank();
  for (int d = 1; d < p; ++d) me.exchange({send((r + d) % p, part(x, p, 0)), receive((r + p - d) % p, part(x, p, 1))});
}

/// True if fibers are threads, whose stacks the system allocates.
bool fibers_are_threads() {
  bool threads = false;
  const auto scheduler = std::this_thread::get_id();
  run(on(1), [&](Rank) { threads = std::this_thread::get_id() != scheduler; }).check();
  return threads;
}

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

TEST(Memory, ARankTakesTheSameOfTheHeapHoweverManyThereAre) {
  for (int p : {64, 256, 1024}) {
    if (p < 1000) {  // larger runs take too long
      EXPECT_LT(heap_bytes_per_rank(p, ring), 4096) << p;
    }
    EXPECT_LT(heap_bytes_per_rank(p, naive), 4096) << p;
    EXPECT_LT(heap_bytes_per_rank(p, recursive_doubling), 4096) << p;
  }
}

TEST(Memory, APeerTakesALine) {
  const double few = heap_bytes_per_rank(100, pairwise_all_to_all),
               many = heap_bytes_per_rank(500, pairwise_all_to_all);
  EXPECT_LT((many - few) / 400, 72);
}

TEST(Memory, MessagesAllocateNothing) {
  const int p = 64, turns = 200;
  std::size_t after_first = 0, after_all = 0;
  const Outcome outcome = run(unchecked(p), [&](Rank me) {
    const Slice x = me.allocate(1 << 14, DType::f32, Category::gradient);
    for (int turn = 0; turn < turns; ++turn) {
      all_gather_ring(me, x);
      for (int distance = 1; distance < p; distance *= 2)
        me.exchange({send(me.rank() ^ distance, x), receive(me.rank() ^ distance, x)});
      if (me.rank() == 0) (turn < 20 ? after_first : after_all) = allocations;
    }
  });
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  const std::uint64_t messages = outcome.messages * (turns - 20) / turns;
  EXPECT_LT(after_all - after_first, messages / 1000);
}

/// Pieces of all sizes and alignments, and one larger than any block.
void use_arena(Arena& arena) {
  struct Piece {
    unsigned char* begin;
    std::size_t bytes;
    unsigned char mark;
  };
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < 4000; ++i) {
    const std::size_t bytes = i == 2000 ? std::size_t{3} << 20 : 1 + i * 7 % 600, alignment = std::size_t{1} << i % 7;
    auto* const begin = static_cast<unsigned char*>(arena.allocate(bytes, alignment));
    ASSERT_EQ(reinterpret_cast<std::uintptr_t>(begin) % alignment, 0u) << i;
    pieces.push_back({begin, bytes, static_cast<unsigned char>(i % 251)});
    std::fill_n(begin, bytes, pieces.back().mark);
  }
  for (const Piece& piece : pieces)
    ASSERT_TRUE(std::all_of(piece.begin, piece.begin + piece.bytes, [&](unsigned char c) { return c == piece.mark; }));
}

TEST(Memory, AnArenasPiecesAreAlignedAndApart) {
  for (const std::size_t expected : {std::size_t{1} << 10, std::size_t{64} << 20}) {
    const std::size_t before = live_bytes;
    {
      Arena arena(expected);
      use_arena(arena);
    }
    EXPECT_EQ(live_bytes, before) << expected;
  }
}

TEST(Memory, AnArenaTakesLittleMoreThanItsPieces) {
  const std::size_t before = live_bytes;
  Arena arena(0);
  std::size_t used = 0;
  for (; used < 1'000'000; used += 320) {
    ASSERT_NE(arena.allocate(320, 64), nullptr);
    ASSERT_LT(live_bytes - before, used * 9 / 8 + 16'384) << used;
  }
}

TEST(Memory, WhatAnArenaMadeIsDestroyed) {
  const auto held = std::make_shared<int>(1);
  Arena arena(0);
  auto made = arena.make<std::shared_ptr<int>>(held);
  EXPECT_EQ(held.use_count(), 2);
  made.reset();
  EXPECT_EQ(held.use_count(), 1);
}

TEST(Memory, ARankTakesFewPages) {
  if (fibers_are_threads()) GTEST_SKIP() << "the stacks are the system's";
  const int p = 1024;
  const std::size_t before = resident_bytes();
  std::size_t at_end = 0;
  const Outcome outcome = run(unchecked(p), [&](Rank me) {
    recursive_doubling(me, me.allocate(1 << 14, DType::f32, Category::gradient));
    if (me.rank() == 0) at_end = resident_bytes();  // the others have begun, and no stack has been freed
  });
  ASSERT_TRUE(outcome.passed()) << outcome.message;
  const double grown = (static_cast<double>(at_end) - static_cast<double>(before)) / p;
  EXPECT_LT(grown, 12288);  // heap, and at most two pages of stack
  EXPECT_GE(grown, 4096);   // otherwise a stack was left by an earlier test, and nothing was measured
}

TEST(Memory, AStackHasItsBytesAndThenAGuard) {
  if (fibers_are_threads()) GTEST_SKIP() << "the stacks are the system's";
  const auto use = [](std::size_t bytes) {
    RunOptions options = unchecked(3);
    options.stack_bytes = 64 * 1024;
    const Outcome outcome = run(options, [bytes](Rank me) {
      auto* const below = static_cast<volatile char*>(__builtin_frame_address(0)) - bytes;
      if (me.rank() == 1) *below = 1;
    });
    std::exit(outcome.passed() ? 0 : 1);
  };
  EXPECT_EXIT(use(std::size_t{60} * 1024), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(use(std::size_t{68} * 1024), testing::KilledBySignal(SIGSEGV), "");
}

}  // namespace
}  // namespace lockstep
