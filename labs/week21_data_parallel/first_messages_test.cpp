// Tests of exercise 21.0: the values that arrive, how often, and who waits for whom.
#include "labs/week21_data_parallel/first_messages.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "common/arithmetic.hpp"
#include "common/support/text/counted.hpp"
#include "common/testing/cases.hpp"
#include "common/testing/inputs.hpp"

namespace lockstep::week21::first_messages_test {
namespace {

using namespace lockstep::testing;

Slice array_of(Rank me, std::size_t size) { return me.allocate(size, DType::f32, Category::buffer); }

Slice uploaded(Rank me, const std::vector<float>& values) {
  Slice slice = array_of(me, values.size());
  upload(me, slice, values);
  return slice;
}

void append(Values& seen, Rank me, const Slice& slice) {
  const std::vector<float> values = to_host(me, slice);
  seen.insert(seen.end(), values.begin(), values.end());
}

// 21.0a ---------------------------------------------------------------------------------------------------------------

/// Each rank says hello twice: first with its input, then with the negative of it.
Values two_hellos(Rank me, const Case& c) {
  std::vector<float> first = inputs_of(me.rank(), c.size, c.ranks), second = first;
  for (float& value : second) value = -value;
  Slice one = uploaded(me, first), two = uploaded(me, second);
  Slice heard_first = array_of(me, c.size), heard_second = array_of(me, c.size);
  ring_of_hellos(me, one, heard_first);
  ring_of_hellos(me, two, heard_second);
  Values seen;
  append(seen, me, heard_first);
  append(seen, me, heard_second);
  append(seen, me, one);
  return seen;
}

const CasePlan kInReverse{.ranks = {2, 4}, .sizes = sizes_of({7})};

/// The rank whose hello `value` is, if it is one.
std::string sender_of(double value, std::size_t element, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    if (value == input_of(rank, element, ranks)) return fmt::format("rank {}'s first hello", rank);
    if (value == -input_of(rank, element, ranks)) return fmt::format("rank {}'s second hello", rank);
  }
  return value != value ? "uninitialised memory" : "no rank's hello";
}

TEST(Lab21_0a, EveryRankHearsThePreviousOneInOrder) {
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    for (int rank = 0; rank < c.ranks; ++rank) {
      const int previous = (rank + c.ranks - 1) % c.ranks;
      const Values& seen = outcome.values[rank];
      for (std::size_t i = 0; i < c.size; ++i) {
        const double expected = input_of(previous, i, c.ranks);
        if (seen[i] != expected)
          return fmt::format("rank {} must hear rank {}'s first hello, but `theirs` holds {}", rank, previous,
                             sender_of(seen[i], i, c.ranks));
        if (seen[c.size + i] != -expected)
          return fmt::format("after the second call rank {} must hold rank {}'s second hello, but holds {}", rank,
                             previous, sender_of(seen[c.size + i], i, c.ranks));
        if (seen[2 * c.size + i] != input_of(rank, i, c.ranks))
          return fmt::format("rank {}'s own slice `mine` was changed", rank);
      }
    }
    return "";
  };
  run_cases(two_hellos, judge);
  if (!HasFailure()) run_cases(in_reverse_order(two_hellos), in_reverse_order(judge), kInReverse);
}

TEST(Lab21_0a, OneMessageEach) {
  run_cases(two_hellos, [](const Case& c, const Outcome& outcome) -> std::string {
    const std::uint64_t expected = c.ranks == 1 ? 0 : 2;
    for (int rank = 0; rank < c.ranks; ++rank)
      if (outcome.ledgers[rank].traffic.messages_sent != expected)
        return fmt::format("rank {} sent {} in two calls, expected {}", rank,
                           counted(outcome.ledgers[rank].traffic.messages_sent, "message"), expected);
    return "";
  });
}

// 21.0b ---------------------------------------------------------------------------------------------------------------

/// One broadcast from each rank in turn.
Values broadcast_from_each(Rank me, const Case& c) {
  Values seen;
  for (int root = 0; root < c.ranks; ++root) {
    Slice data = uploaded(me, inputs_of(me.rank(), c.size, c.ranks));
    broadcast(me, data, root);
    append(seen, me, data);
  }
  return seen;
}

TEST(Lab21_0b, EveryRankHasWhatTheRootHad) {
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    for (int root = 0; root < c.ranks; ++root)
      for (int rank = 0; rank < c.ranks; ++rank)
        for (std::size_t i = 0; i < c.size; ++i) {
          const double seen = outcome.values[rank][root * c.size + i];
          if (seen == input_of(root, i, c.ranks)) continue;
          return fmt::format("broadcast from root {}: rank {} holds {}", root, rank,
                             explain_sum(seen, i, c.size, rank, c.ranks, Made::by_copying));
        }
    return "";
  };
  run_cases(broadcast_from_each, judge);
  if (!HasFailure()) run_cases(in_reverse_order(broadcast_from_each), in_reverse_order(judge), kInReverse);
}

TEST(Lab21_0b, EveryOtherRankReceivesOnce) {
  run_cases(broadcast_from_each, [](const Case& c, const Outcome& outcome) -> std::string {
    const std::uint64_t bytes = (c.ranks - 1) * c.size * sizeof(float);  // over all roots but itself
    for (int rank = 0; rank < c.ranks; ++rank) {
      const Traffic& traffic = outcome.ledgers[rank].traffic;
      if (traffic.bytes_received != bytes)
        return fmt::format(
            "in {} broadcasts, one from each root, rank {} received {} bytes, expected {}: the array once "
            "from each other root and nothing as the root",
            c.ranks, rank, traffic.bytes_received, bytes);
    }
    return "";
  });
}

// 21.0c ---------------------------------------------------------------------------------------------------------------

/// For each rank in turn: that rank comes late. Returns when it entered and left each barrier.
Values come_late_in_turn(Rank me, const Case& c) {
  Slice work = array_of(me, 1 << 16);
  Values seen;
  for (int late = 0; late < c.ranks; ++late) {
    if (me.rank() == late)
      for (int i = 0; i < 10; ++i) fill(me, work, 1);  // much longer than a barrier of 8 ranks
    seen.push_back(me.now());
    barrier(me);
    seen.push_back(me.now());
  }
  return seen;
}

TEST(Lab21_0c, EveryRankComesBack) {
  run_cases(come_late_in_turn, [](const Case&, const Outcome&) { return ""; }, {.sizes = sizes_of({0}), .unit = ""});
}

TEST(Lab21_0c, NobodyLeavesBeforeTheLastHasEntered) {
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    for (int late = 0; late < c.ranks; ++late) {
      const double entered = outcome.values[late][2 * late];
      for (int rank = 0; rank < c.ranks; ++rank) {
        const double left = outcome.values[rank][2 * late + 1];
        if (left < entered)
          return fmt::format(
              "rank {} left the barrier at {:.2f} µs, before rank {} entered it at {:.2f} µs: it has not heard from "
              "it, neither directly nor through others",
              rank, left * 1e6, late, entered * 1e6);
      }
    }
    return "";
  };
  // With a buffer, sends do not wait: a rank has heard of those alone whose news has come to it.
  for (const std::uint64_t buffer : {0, 8192}) {
    run_cases(come_late_in_turn, judge,
              {.sizes = sizes_of({0}),
               .simulator_only = "clocks of different processes are not compared",
               .unit = "",
               .adjust = [buffer](const Case&, RunOptions& options) { options.machine.eager_bytes = buffer; }});
    if (HasFailure()) return;
  }
}

// 21.0d ---------------------------------------------------------------------------------------------------------------

constexpr std::size_t kSmall = 1, kLarge = 4096;  // elements: 4 bytes fit a buffer of 8 KiB, 16 KiB do not

using Swap = void (*)(Rank, Slice, Slice);

Outcome run_swap(Swap swap, std::size_t size) {
  RunOptions options;  // of a machine that buffers messages up to 8 KiB, as MPI libraries do
  options.ranks = 2;
  options.threads = 1;
  options.machine.eager_bytes = 8192;
  return run(options, [=](Rank me) { swap(me, array_of(me, size), array_of(me, size)); });
}

/// Does the reader still need the explanation? Not after the fix; and where the file does not compile, its lines would
/// be another file's.
bool is_to_be_explained() {
  const Outcome fixed = run_swap(swap_with_partner, kLarge);
  return !fixed.passed() && fixed.verdict != Verdict::does_not_compile;
}

TEST(Lab21_0d, TheWrongSwapIsExplained) {
  if (std::string_view(backend_name()) != "sim")
    GTEST_SKIP() << "the simulator buffers 8 KiB; each MPI library has a limit of its own";
  const Outcome small = run_swap(swap_that_deadlocks, kSmall);
  EXPECT_TRUE(small.passed()) << "a message of 4 bytes fits the buffer, so the deadlock does not show: "
                              << small.message;
  const Outcome large = run_swap(swap_that_deadlocks, kLarge);
  if (large.verdict != Verdict::deadlock)
    FAIL() << "swap_that_deadlocks ended with " << to_string(large.verdict) << " for " << kLarge
           << " elements, expected DEADLOCK: it is given, do not change it";
  if (large.message.find("swap_that_deadlocks") == std::string::npos)
    FAIL() << "the DEADLOCK must be in the lines of swap_that_deadlocks, but it is a different one:  " << large.message;
  if (is_judge() && is_to_be_explained())
    fmt::print(
        "swap_that_deadlocks works with {} element: the message fits a buffer. With {} elements the simulator "
        "says:\n\n{}\n\n",
        kSmall, kLarge, large.message);
}

Values swap_once(Rank me, const Case& c) {
  Slice mine = uploaded(me, inputs_of(me.rank(), c.size, c.ranks)), theirs = array_of(me, c.size);
  swap_with_partner(me, mine, theirs);
  Values seen;
  append(seen, me, theirs);
  return seen;
}

TEST(Lab21_0d, PartnersSwapAtAnySize) {
  const auto judge = [](const Case& c, const Outcome& outcome) {
    return first_difference(outcome, c.size,
                            {[&c](int rank, std::size_t i) {
                               const int partner = (rank ^ 1) < c.ranks ? rank ^ 1 : rank;
                               return input_of(partner, i, c.ranks);
                             },
                             {},
                             Made::by_copying});
  };
  run_cases(swap_once, judge, {.sizes = sizes_of({0, 1, 7, kLarge})});
}

}  // namespace
}  // namespace lockstep::week21::first_messages_test
