// Tests of exercise 23.6: partial results merged, both passes round the ring against attention on one rank, messages,
// memory, overlap, and the cut that gives every rank the same work.
#include "labs/week23_tensor_parallel/ring_attention.hpp"

#include <gtest/gtest.h>

#include "common/support/text/counted.hpp"
#include "common/testing/answered.hpp"
#include "common/testing/expect_near.hpp"
#include "labs/week23_tensor_parallel/ring_attention_testing.hpp"

namespace lockstep::week23::ring_attention_test {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto merge = testing::answer<week23::merge>;
constexpr auto zigzag_chunks = testing::answer<week23::zigzag_chunks>;
constexpr auto visible_pairs = testing::answer<week23::visible_pairs>;

constexpr SequenceCut kContiguous = SequenceCut::contiguous, kZigzag = SequenceCut::zigzag;
constexpr double kNoKeys = -std::numeric_limits<double>::infinity();

// Part a --------------------------------------------------------------------------------------------------------------

/// A row over keys with these scores, whose values are the numbers `first`, first + 1, … and their halves.
PartialRow row_of(const Values& scores, double first, double lift = 0) {
  PartialRow row{{0, 0}, kNoKeys};
  double sum = 0;
  for (const double score : scores) sum += std::exp(score);
  if (scores.empty()) return row;
  row.log_sum = lift + std::log(sum);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const double value = first + static_cast<double>(i);
    row.y[0] += std::exp(scores[i]) / sum * value;
    row.y[1] += std::exp(scores[i]) / sum * value / 2;
  }
  return row;
}

/// "" where `is`, of a and b, is `exact`; else the mistake, and its cause where that can be told.
std::string wrong_merge(const PartialRow& is, const PartialRow& a, const PartialRow& b, const PartialRow& exact) {
  const auto near = [](double x, double y) { return x == y || std::abs(x - y) <= 1e-9 * (1 + std::abs(y)); };
  if (is.y.size() != 2) return fmt::format("y has {}, expected 2, as both have", counted(is.y.size(), "element"));
  if (!near(is.log_sum, exact.log_sum))
    return fmt::format("the log-sum-exp is {:.6g}, expected {:.6g}{}", is.log_sum, exact.log_sum,
                       near(is.log_sum, a.log_sum + b.log_sum) ? ": yours is ℓ_A + ℓ_B, not ln(e^ℓ_A + e^ℓ_B)" : "");
  const auto weights = [&](double of_a, double of_b) {
    return near(is.y[0], of_a * a.y[0] + of_b * b.y[0]) && near(is.y[1], of_a * a.y[1] + of_b * b.y[1]);
  };
  const double most = std::max(a.log_sum, b.log_sum);
  for (std::size_t i = 0; i < 2; ++i)
    if (!near(is.y[i], exact.y[i]))
      return fmt::format(
          "element {} of y is {:.6g}, expected {:.6g}{}", i, is.y[i], exact.y[i],
          weights(1, 1) ? ": yours is y_A + y_B, where the weights e^(ℓ_A − ℓ) and e^(ℓ_B − ℓ) are missing"
          : weights(0.5, 0.5) ? ": yours is the mean of y_A and y_B, whose weights are e^(ℓ_A − ℓ) and e^(ℓ_B − ℓ)"
          : weights(std::exp(a.log_sum - most), std::exp(b.log_sum - most))
              ? ": your weights are e^(ℓ_A − max) and e^(ℓ_B − max), more than 1 together: ℓ, the new log-sum-exp, "
                "makes them 1"
              : "");
  return "";
}
void expect_merged(const PartialRow& a, const PartialRow& b, const PartialRow& exact, const std::string& what,
                   const std::string& if_infinite = "") {
  const PartialRow is = merge(a, b);
  const bool finite = std::isfinite(is.log_sum + std::accumulate(is.y.begin(), is.y.end(), 0.0));
  if (const std::string wrong = wrong_merge(is, a, b, exact); !wrong.empty())
    ADD_FAILURE() << what << ": " << wrong << (finite ? "" : if_infinite);
}

/// The scores of `count` keys, from −4 to 4.
Values scores_of(std::uint64_t kind, std::size_t count) {
  Values scores;
  for (std::size_t i = 0; i < count; ++i)
    scores.push_back(numbers(static_cast<int>(70 + kind), 1, count).values[i] * 4.0 / 3);
  return scores;
}

TEST(Lab23_6a, TwoRowsAreOneOverTheKeysOfBoth) {
  for (std::size_t a = 1; a <= 4; ++a)
    for (std::size_t b = 1; b <= 4; ++b) {
      Values all = scores_of(a, a);
      Values more = scores_of(b + 10, b);
      more[0] += 0.75;  // no sums are equal, where two wrong answers would be one
      const PartialRow of_a = row_of(all, 1), of_b = row_of(more, 1 + static_cast<double>(a));
      all.insert(all.end(), more.begin(), more.end());
      expect_merged(of_a, of_b, row_of(all, 1),
                    fmt::format("{} and {} key{}, whose log-sum-exps are ℓ_A and ℓ_B", a, b, b == 1 ? "" : "s"));
      if (HasFailure()) return;
    }
}

/// Before the rows of no keys: without the larger one, it is this that goes wrong first in a model.
TEST(Lab23_6a, ScoresOfThousandsDoNotOverflow) {
  const char* if_infinite =
      ". e^800 is infinite in double, and e^−800 is 0: take the larger ℓ out of both exponents first";
  const PartialRow both = row_of({1, -2, 3, 0}, 5);
  for (const double lift : {-5000.0, 800.0, 5000.0}) {
    PartialRow exact = both;
    exact.log_sum += lift;
    expect_merged(row_of({1, -2}, 5, lift), row_of({3, 0}, 7, lift), exact, fmt::format("scores around {:g}", lift),
                  if_infinite);
  }
  const PartialRow low = row_of({0}, 3, -4000), high = row_of({0}, 9, 4000);
  expect_merged(low, high, high, "scores of −4000 merged with scores of 4000", if_infinite);
  expect_merged(high, low, high, "scores of 4000 merged with scores of −4000", if_infinite);
}

TEST(Lab23_6a, OneSideWithoutKeysChangesNothing) {
  const PartialRow some = row_of({1, -2, 3}, 5), none = row_of({}, 0);
  const char* if_infinite = ". Of no keys ℓ is −∞, and y zeros; −∞ − (−∞) is not a number";
  expect_merged(some, none, some, "nothing merged into three keys", if_infinite);
  expect_merged(none, some, some, "three keys merged into nothing", if_infinite);
  expect_merged(none, none, none, "nothing merged into nothing", if_infinite);
}

// Parts b and c -------------------------------------------------------------------------------------------------------

CasePlan plan() {
  CasePlan plan;
  plan.sizes = drawn_sizes({1, 3}, 4);
  plan.unit = "position of a chunk";
  return plan;
}

void expect_serial(SequenceCut cut, Passes passes) {
  run_cases(
      ring_run(cut, passes),
      [=](const Case& c, const Outcome& outcome) { return wrong_attention(c, outcome, cut, passes); }, plan());
}

TEST(Lab23_6b, IsTheSerialAttention) { expect_serial(kContiguous, Passes::forward); }
TEST(Lab23_6c, IsTheSerialGradient) { expect_serial(kContiguous, Passes::backward); }

TEST(Lab23_6b, EveryBlockPassesEveryRankOnce) {
  const auto judge = [](const Case& c, const Outcome& outcome) {
    const auto hops = static_cast<std::uint64_t>(c.ranks - 1);
    return wrong_messages(c, outcome, hops, hops, "p − 1 times kv, since every rank but its owner needs a block once");
  };
  run_cases(ring_run(kContiguous, Passes::forward), judge, plan());
}

TEST(Lab23_6c, TheGradientComesHome) {
  const auto judge = [](const Case& c, const Outcome& outcome) {
    const auto hops = static_cast<std::uint64_t>(c.ranks - 1);
    return wrong_messages(c, outcome, 2 * hops, hops == 0 ? 0 : 2 * hops + 1,
                          "p − 1 times kv, and its gradient as often or once more");
  };
  run_cases(ring_run(kContiguous, Passes::backward), judge, plan());
}

void expect_little_memory(Passes passes, int blocks, const std::string& allowed) {
  const auto judge = [=](const Case& c, const Outcome& outcome) {
    if (c.ranks == 1) return std::string();  // where nothing arrives, a block more is a matter of taste
    const auto frugal = [&](Rank me) { return ring_run(kContiguous, passes, blocks)(me, c); };
    return more_memory_than(outcome, Program(frugal), allowed);
  };
  run_cases(ring_run(kContiguous, passes), judge, plan());
}
TEST(Lab23_6b, HoldsTwoBlocksMore) {
  expect_little_memory(Passes::forward, 2, "one block is computed with while another arrives, and none is kept");
}
TEST(Lab23_6c, HoldsFourBlocksMore) {
  expect_little_memory(Passes::backward, 4, "two blocks and their two gradients: one held, one arriving");
}

TEST(Lab23_6b, PositionsThatDoNotDivideAreRefused) {
  const auto program = [](Rank me) {
    Slice none = me.allocate(0, DType::f32, Category::buffer);
    ring_attention_forward({me, {1, 7, 1, 1}, kContiguous}, none, none, none, none);
    return Values{};
  };
  const Outcome outcome = testing::run_answered({.ranks = 1}, program);
  if (outcome.verdict != Verdict::usage) outcome.check();
  EXPECT_EQ(outcome.verdict, Verdict::usage) << "7 positions on one rank were accepted";
  EXPECT_NE(outcome.message.find("7 positions do not divide into 2 chunks"), std::string::npos) << outcome.message;
}

/// Virtual time where a whole block of queries against one of keys takes twice as long as to send it.
struct Timed {
  static constexpr std::size_t kPositions = 64, kHead = 16;  // of a chunk; one head, one sequence
  static RingAttention ring(Rank me, SequenceCut cut) {
    return {me, {1, 2 * kPositions * static_cast<std::size_t>(me.size()), 1, kHead}, cut};
  }
  static CasePlan plan() {
    CasePlan timed = timed_plan(1, 1);
    timed.adjust = [adjust = timed.adjust](const Case& c, RunOptions& options) {
      adjust(c, options);
      const double pairs = 4.0 * kPositions * kPositions, sending = 4.0 * 2 * kPositions * 2 * kHead * 1e-9;
      options.machine.peak_flop_per_second.fill(4 * pairs * kHead / (2 * sending));
    };
    return timed;
  }
};

struct TimedArrays {
  Slice narrow[5], wide[2], statistics;
  explicit TimedArrays(Rank me) {
    const std::size_t rows = 2 * Timed::kPositions;
    for (Slice& slice : narrow) slice = unwritten(me, rows * Timed::kHead);
    for (Slice& slice : wide) slice = unwritten(me, rows * 2 * Timed::kHead);
    statistics = unwritten(me, rows);
  }
  void forward(const RingAttention& ring) const {
    ring_attention_forward(ring, narrow[0], statistics, narrow[1], wide[0]);
  }
  void backward(const RingAttention& ring) const {
    ring_attention_backward(ring, narrow[2], wide[1], narrow[3], narrow[0], statistics, narrow[1], wide[0]);
  }
};

/// The last rank sees everything, so it computes at each step: how much of the messages' time it waits.
std::string last_rank_waits(const Outcome& outcome, double share, const std::string& hidden) {
  Outcome last;
  last.values.assign(2, outcome.values.back());
  return too_exposed(last, share, "That is the last rank's; " + hidden);
}

TEST(Lab23_6b, BlocksTravelWhileOthersAreComputedWith) {
  const auto program = [](Rank me, const Case&) {
    const TimedArrays arrays(me);
    return exposed_by(me, [&] { arrays.forward(Timed::ring(me, kContiguous)); });
  };
  const auto judge = [](const Case&, const Outcome& outcome) {
    return last_rank_waits(outcome, 0.25, "is a block in transit while the one before it is computed with?");
  };
  run_cases(program, judge, Timed::plan());
}

TEST(Lab23_6c, BlocksTravelWhileOthersAreComputedWith) {
  const auto program = [](Rank me, const Case&) {
    const TimedArrays arrays(me);
    return exposed_by(me, [&] { arrays.backward(Timed::ring(me, kContiguous)); });
  };
  const auto judge = [](const Case& c, const Outcome& outcome) {
    // p gradients of 2p − 1 messages may be waited for, and a quarter of the rest.
    const double p = c.ranks;
    return last_rank_waits(outcome, (p + 0.25 * (p - 1)) / (2 * p - 1),
                           "is a block in transit while the one before it is computed with?");
  };
  run_cases(program, judge, Timed::plan());
}

// Part d --------------------------------------------------------------------------------------------------------------

TEST(Lab23_6d, EveryChunkIsSomebodysAndTheEarlierComesFirst) {
  for (int ranks = 1; ranks <= 9; ++ranks)
    for (int rank = 0; rank < ranks; ++rank) {
      const auto right = right_chunks(static_cast<std::size_t>(rank), ranks, kZigzag);
      const auto is = zigzag_chunks(rank, ranks);
      ASSERT_TRUE(is[0] == static_cast<int>(right[0]) && is[1] == static_cast<int>(right[1]))
          << "rank " << rank << " of " << ranks << " has chunks " << is[0] << " and " << is[1] << ", expected "
          << right[0] << " and " << right[1];
    }
}

double counted_pairs(int rank, int ranks, std::size_t positions, SequenceCut cut) {
  const std::size_t size = positions / 2 / static_cast<std::size_t>(ranks);
  double pairs = 0;
  for (const std::size_t number : right_chunks(static_cast<std::size_t>(rank), ranks, cut))
    for (std::size_t t = number * size; t < (number + 1) * size; ++t) pairs += static_cast<double>(t + 1);
  return pairs;
}

TEST(Lab23_6d, PairsAreCounted) {
  const std::size_t more = 1 + testing::drawn({23, 6}, 50);
  for (const SequenceCut cut : {kContiguous, kZigzag})
    for (int ranks = 1; ranks <= 8; ++ranks)
      for (const std::size_t size : {std::size_t{1}, std::size_t{2}, 4 + more})
        for (int rank = 0; rank < ranks; ++rank) {
          const std::size_t positions = 2 * static_cast<std::size_t>(ranks) * size;
          testing::ExpectNear(visible_pairs(rank, ranks, positions, cut), counted_pairs(rank, ranks, positions, cut))
              << "visible pairs of rank " << rank << " of " << ranks << ", " << positions << " positions, "
              << (cut == kZigzag ? "zig-zag" : "contiguous");
        }
  testing::ExpectNear(visible_pairs(0, 1, std::size_t{1} << 20, kContiguous), 0x1p39 + 0x1p19)
      << "visible pairs of 2^20 positions: more than an int can count";
}

// All of it -----------------------------------------------------------------------------------------------------------

TEST(Lab23_6, BothCutsAreTheSerialAttention) {
  expect_serial(kContiguous, Passes::both);
  expect_serial(kZigzag, Passes::both);
}

/// Each rank's arithmetic is that of the pairs that its queries see: 4·d FLOP each, and 10·d backward. Blocks may be
/// added as often as they are passed on.
TEST(Lab23_6, EachRankComputesThePairsThatItSees) {
  for (const SequenceCut cut : {kContiguous, kZigzag}) {
    const auto program = [=](Rank me, const Case&) {
      const TimedArrays arrays(me);
      const double before = ledger_of(me).flop;
      arrays.forward(Timed::ring(me, cut));
      const double between = ledger_of(me).flop;
      arrays.backward(Timed::ring(me, cut));
      return Values{between - before, ledger_of(me).flop - between};
    };
    const auto judge = [=](const Case& c, const Outcome& outcome) -> std::string {
      for (int rank = 0; rank < c.ranks; ++rank) {
        const std::size_t positions = 2 * Timed::kPositions * static_cast<std::size_t>(c.ranks);
        const double pair = counted_pairs(rank, c.ranks, positions, cut) * Timed::kHead;
        const Values& flop = outcome.values[static_cast<std::size_t>(rank)];
        const double blocks = c.ranks * 4.0 * Timed::kPositions * Timed::kHead;
        if (flop[0] != 4 * pair || flop[1] < 10 * pair || flop[1] > 10 * pair + blocks)
          return fmt::format("rank {} computed {:g} FLOP forward and {:g} backward, expected {:g} and {:g}", rank,
                             flop[0], flop[1], 4 * pair, 10 * pair);
      }
      return "";
    };
    run_cases(program, judge, Timed::plan());
  }
}

/// The slowest rank has (2p − 1)/p of the mean where the cut is contiguous, so that is what zig-zag saves of the time.
TEST(Lab23_6, ZigzagIsAsFastAsTheMean) {
  const auto program = [](Rank me, const Case&) {
    const TimedArrays arrays(me);
    Values ends = {me.now()};
    for (const SequenceCut cut : {kZigzag, kContiguous}) {  // the one that ranks end together first
      arrays.forward(Timed::ring(me, cut));
      ends.push_back(me.now());
    }
    return ends;
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    Values ends(3);
    for (const Values& of_rank : outcome.values)
      for (std::size_t i = 0; i < 3; ++i) ends[i] = std::max(ends[i], of_rank[i]);
    const double zigzag = ends[1] - ends[0], contiguous = ends[2] - ends[1];
    const double gain = contiguous / zigzag, most = (2.0 * c.ranks - 1) / c.ranks;
    if (gain > 0.9 * most && gain < 1.1 * most) return "";
    return fmt::format("zig-zag is {:.2f} times as fast as contiguous, expected about (2p − 1)/p = {:.2f}", gain, most);
  };
  run_cases(program, judge, Timed::plan());
}

}  // namespace
}  // namespace lockstep::week23::ring_attention_test
