// Tests of exercise 25.8, part c and all parts together: contents of snapshots and of new shards, messages, and a GPT
// whose losses do not show that a rank died and another one joined.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>

#include "common/arithmetic.hpp"
#include "common/runtime/ledger/ledger.hpp"
#include "common/support/text/counted.hpp"
#include "common/testing/cases.hpp"
#include "common/testing/values.hpp"
#include "labs/week21_data_parallel/described_cases_testing.hpp"
#include "labs/week25_3d/survivors_testing.hpp"
#include "labs/week25_3d/survivors_training_testing.hpp"

namespace lockstep::week25::survivors_test {
namespace {

using testing::Case;
using testing::CasePlan;
using testing::run_cases;
using testing::sizes_of;

// Part c --------------------------------------------------------------------------------------------------------------

constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f32};
constexpr std::size_t kArrays = std::size(kTypes);
constexpr std::size_t kBytes = 4 + 2 + 4;  // of an element, in all arrays

/// Value that training writes into the shards after a snapshot.
constexpr int kTrained = -1;

/// A whole number that bf16 has: no two arrays have the same, and neighbours differ.
double value_of(std::size_t array, std::size_t element) {
  return static_cast<double>(array * 80 + (element * 7 + testing::drawn({25, 8, element}, 11)) % 80);
}

/// A slice for each array, with the elements of `range`.
std::vector<Slice> slices_of(Rank me, ChunkRange range, bool filled) {
  std::vector<Slice> slices;
  for (std::size_t a = 0; a < kArrays; ++a) {
    slices.push_back(me.allocate(range.size, kTypes[a], Category::optimizer));
    std::vector<float> values;
    for (std::size_t e = 0; e < range.size && filled; ++e)
      values.push_back(static_cast<float>(value_of(a, range.offset + e)));
    if (filled) upload(me, slices.back(), values);
  }
  return slices;
}

void append(Rank me, const std::vector<Slice>& slices, Values& seen) {
  for (const Slice& slice : slices) testing::append(me, slice, seen);
}

/// Elements of `range` in all arrays, as append() has them from `at` on; "" or the first that is another.
std::string wrong_elements(const Values& seen, std::size_t at, ChunkRange range, const std::string& what) {
  for (std::size_t a = 0; a < kArrays; ++a)
    for (std::size_t e = range.offset; e < range.offset + range.size; ++e, ++at) {
      if (seen.at(at) == value_of(a, e)) continue;
      return fmt::format("{}: array {}, element {} (of the whole array) is {}, expected {}{}", what, a, e, seen[at],
                         value_of(a, e), seen[at] == kTrained ? ": training wrote that into the shard, later" : "");
    }
  return "";
}

/// Counts what the ranks have sent and started since.
struct Sent {
  explicit Sent(Rank me) : me(me), before(ledger_of(me)) {}
  void append(Values& seen) const {
    const RankLedger now = ledger_of(me);
    seen.push_back(static_cast<double>(now.traffic.bytes_sent - before.traffic.bytes_sent));
    seen.push_back(static_cast<double>(now.batches - before.batches));
  }
  Rank me;
  RankLedger before;
};
/// The last two values of `seen`, against the elements of each array that the rank sends.
std::string wrong_traffic(const Values& seen, std::size_t elements) {
  const double bytes = seen.at(seen.size() - 2), batches = seen.back();
  const auto right = static_cast<double>(elements * kBytes);
  if (bytes != right)
    return fmt::format("it sent {} bytes, expected {}: {} of {} bytes", bytes, right, counted(elements, "element"),
                       kBytes);
  return batches <= 1 ? "" : fmt::format("it started {} batches, expected one", batches);
}

Values snapshots(Rank me, const Case& c) {
  const ChunkRange range = chunk_range(c.size, me.rank(), c.ranks);
  const std::vector<Slice> shard = slices_of(me, range, true);
  const Sent sent(me);
  const Snapshot snapshot = snapshot_of(me, c.size, shard);
  Values after;
  sent.append(after);
  for (const Slice& array : shard) fill(me, array, kTrained);  // training continues
  Values seen{static_cast<double>(snapshot.own.size()), static_cast<double>(snapshot.previous.size())};
  for (const std::vector<Slice>* part : {&snapshot.own, &snapshot.previous}) {
    std::size_t bytes = 0;
    for (const Slice& slice : *part) bytes += slice.bytes();
    seen.push_back(static_cast<double>(bytes));
  }
  for (const std::vector<Slice>* part : {&snapshot.own, &snapshot.previous}) {
    Category category = Category::buffer;
    for (const Slice& slice : *part)
      if (slice.category() != Category::buffer) category = slice.category();
    seen.push_back(static_cast<double>(category));
  }
  append(me, snapshot.own, seen);
  append(me, snapshot.previous, seen);
  seen.insert(seen.end(), after.begin(), after.end());
  return seen;
}

std::string wrong_snapshot(const Values& seen, std::size_t n, int rank, int ranks) {
  const ChunkRange own = chunk_range(n, rank, ranks), previous = chunk_range(n, rank - 1, ranks);
  for (std::size_t i : {0, 1})
    if (seen.at(i) != kArrays)
      return fmt::format("{} has {} slices, expected {}", i == 0 ? "own" : "previous", seen[i], kArrays);
  for (std::size_t i : {0, 1})
    if (const std::size_t size = i == 0 ? own.size : previous.size;
        seen.at(2 + i) != static_cast<double>(size * kBytes))
      return fmt::format("{} has {} bytes, expected {}: {} of each array", i == 0 ? "own" : "previous", seen[2 + i],
                         size * kBytes, counted(size, "element"));
  std::string wrong = wrong_elements(seen, 6, own, "own");
  if (wrong.empty()) wrong = wrong_elements(seen, 6 + kArrays * own.size, previous, "previous");
  for (std::size_t i : {0, 1})
    if (const auto category = static_cast<Category>(seen.at(4 + i));
        wrong.empty() && category != Category::buffer && (i == 0 ? own.size : previous.size) > 0)
      wrong = fmt::format(
          "{} is counted as {}, expected as buffers: a copy is no part of the state that is trained, so allocate it in "
          "Category::buffer",
          i == 0 ? "own" : "previous", to_string(category));
  return wrong.empty() ? wrong_traffic(seen, own.size) : wrong;
}

TEST(Lab25_8c, ASnapshotHoldsTwoShards) {
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    for (int rank = 0; rank < c.ranks; ++rank) {
      const Values& seen = outcome.values[static_cast<std::size_t>(rank)];
      const std::string wrong = wrong_snapshot(seen, c.size, rank, c.ranks);
      if (!wrong.empty()) return fmt::format("rank {}: {}", rank, wrong);
    }
    return "";
  };
  const CasePlan plan{.ranks = {2, 3, 4, 7}};
  run_cases(snapshots, judge, plan);
  if (!HasFailure()) run_cases(testing::in_reverse_order(snapshots), testing::in_reverse_order(judge), plan);
}

/// The member that a rank is after the change, −1: none. Those that join are the ranks that were in no group yet.
int member_of(const Change& change, int rank) {
  int joined = change.ranks - 1;
  for (int m = 0; m < static_cast<int>(change.was.size()); ++m) {
    const int was = change.was[static_cast<std::size_t>(m)];
    if (was < 0) ++joined;
    if (rank == (was < 0 ? joined : was)) return m;
  }
  return -1;
}

constexpr std::size_t kElements[] = {3, 23, 60};

/// The new shards of arrays of kElements, from snapshots that the test has made.
Values new_shards(Rank world, const Case& c) {
  const Change change = changes()[c.size];
  const int member = member_of(change, world.rank());
  const Rank group = world.split(member < 0 ? -1 : 0, member);
  if (member < 0) return {};
  const int before = change.was[static_cast<std::size_t>(member)];
  Values seen;
  for (const std::size_t n : kElements) {
    Snapshot held;
    if (before >= 0) {
      held.own = slices_of(group, chunk_range(n, before, change.ranks), true);
      held.previous = slices_of(group, chunk_range(n, before - 1, change.ranks), true);
    }
    const std::vector<Slice> shard = slices_of(group, chunk_range(n, member, group.size()), false);
    const Sent sent(group);
    reshard(group, n, change.ranks, change.was, held, shard);
    Values after;
    sent.append(after);
    append(group, shard, seen);
    seen.insert(seen.end(), after.begin(), after.end());
  }
  return seen;
}

TEST(Lab25_8c, NewShardsFromSnapshots) {
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const Change change = changes()[c.size];
    const int members = static_cast<int>(change.was.size());
    for (int rank = 0; rank < c.ranks; ++rank) {
      const int member = member_of(change, rank);
      std::size_t at = 0;
      for (const std::size_t n :
           member < 0 ? std::vector<std::size_t>{} : std::vector(std::begin(kElements), std::end(kElements))) {
        const ChunkRange chunk = chunk_range(n, member, members);
        const std::size_t end = at + kArrays * chunk.size + 2;
        const Values& all = outcome.values[static_cast<std::size_t>(rank)];
        const Values seen(all.begin() + static_cast<std::ptrdiff_t>(at),
                          all.begin() + static_cast<std::ptrdiff_t>(end));
        std::string wrong = wrong_elements(seen, 0, chunk, "its new shard");
        if (wrong.empty()) wrong = wrong_traffic(seen, sent_by(change, n, member));
        if (!wrong.empty())
          return fmt::format("{} elements, member {} (it was rank {}): {}", n, member,
                             change.was[static_cast<std::size_t>(member)], wrong);
        at = end;
      }
    }
    return "";
  };
  std::vector<std::size_t> which(changes().size());
  for (std::size_t i = 0; i < which.size(); ++i) which[i] = i;
  testing::run_described(new_shards, judge,
                         {.ranks = {6}, .sizes = sizes_of(which), .unit = "", .which = "change", .cause = wrong_part_b},
                         [](const Case& c) { return "The change is " + words(changes()[c.size]) + "."; });
}

// All parts together --------------------------------------------------------------------------------------------------

constexpr int kSteps = 9, kEvery = 2, kDies = 5, kJoins = 7;  // steps: snapshots after 2, 4, …; during 5; after 7

/// One rank, without failures.
Values without_failures(Rank me) {
  Training training(me);
  Values losses;
  for (int step = 1; step <= kSteps; ++step) losses.push_back(training.step(me, step));
  return losses;
}

/// Rank c.size dies in step kDies. The others continue, until another one joins in its place.
Values with_a_death(Rank all, const Case& c) {
  const int dead = static_cast<int>(c.size), p = all.size();
  const bool dies = all.rank() == dead;
  const Rank living = all.split(dies ? -1 : 0, all.rank());
  Training training(all);
  const std::size_t n = training.count();
  std::map<int, Snapshot> snapshots;
  Values losses;
  for (int step = 1; step < kDies; ++step) {
    losses.push_back(training.step(all, step));
    if (step % kEvery == 0) snapshots[step] = snapshot_of(all, n, training.shard);
  }
  if (dies) {
    for (const Slice& slice : {training.gpt.parameters().values, training.shard[1], training.shard[2]})
      fill(all, slice, NAN);
    snapshots.clear();
    losses.clear();
  } else {
    std::vector<Remembered> ranks(static_cast<std::size_t>(p));
    for (Remembered& rank : ranks)
      for (const auto& [step, snapshot] : snapshots) rank.own.push_back(step), rank.previous.push_back(step);
    const int from = newest_whole(ranks, {dead});
    losses.resize(static_cast<std::size_t>(std::max(from, 0)));
    training.begin(living);
    reshard(living, n, p, without(p, {dead}), snapshots.at(from), training.shard);
    training.gather(living);
    for (int step = from + 1; step <= kJoins; ++step) losses.push_back(training.step(living, step));
  }
  std::vector<int> was;
  for (int r = 0; r < p; ++r) was.push_back(r == dead ? -1 : r - (r > dead));
  const Snapshot last = dies ? Snapshot{} : snapshot_of(living, n, training.shard);
  training.begin(all);
  reshard(all, n, p - 1, was, last, training.shard);
  training.gather(all);
  for (int step = kJoins + 1; step <= kSteps; ++step) losses.push_back(training.step(all, step));
  return losses;
}

TEST(Lab25_8, TheLossDoesNotShowIt) {
  const Values serial = run({.ranks = 1}, Program(without_failures)).check().values[0];
  const auto judge = [&](const Case& c, const Outcome& outcome) -> std::string {
    for (int rank = 0; rank < c.ranks; ++rank) {
      const Values& losses = outcome.values[static_cast<std::size_t>(rank)];
      const std::size_t first = serial.size() - losses.size();  // one that joins has seen the last steps only
      for (std::size_t i = 0; i < losses.size(); ++i)
        if (!(std::abs(losses[i] - serial[first + i]) <= 1e-5))
          return fmt::format(
              "rank {}, step {}: the loss is {:.7f}, and without failures {:.7f}. Rank {} dies in step {}, and "
              "another one joins after step {}",
              rank, first + i + 1, losses[i], serial[first + i], c.size, kDies, kJoins);
    }
    return "";
  };
  const CasePlan plan{.ranks = {3, 4, 6},
                      .sizes =
                          [](int ranks) {
                            return std::vector<std::size_t>{0, 1, static_cast<std::size_t>(ranks) - 1};
                          },
                      .unit = "",
                      .which = "dead rank",
                      .cause = wrong_part_b};
  run_cases(with_a_death, judge, plan);
}

}  // namespace
}  // namespace lockstep::week25::survivors_test
