// Tests of exercise 22.5, parts a, b, c and e: types of updates and sums, overflows, the scale. Part d and the whole
// are in mixed_precision_steps_test.cpp.
#include "labs/week22_zero/mixed_precision.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "common/arithmetic.hpp"
#include "common/runtime/ledger/ledger.hpp"
#include "common/testing/drawn.hpp"
#include "common/testing/values.hpp"
#include "labs/week22_zero/mixed_precision_testing.hpp"

namespace lockstep::week22 {
namespace {

using testing::Case;
using testing::CasePlan;
using testing::run_cases;
using testing::sizes_of;
using week21::ring_all_reduce;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Part a --------------------------------------------------------------------------------------------------------------

// 512 updates of 2⁻¹² to weights of 1. Next to 1, bf16 moves in steps of 2⁻⁷ and fp16 of 2⁻¹⁰: each update alone rounds
// to nothing.
TEST(Lab22_5a, UpdatesTooSmallForSixteenBitsAddUp) {
  constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16};
  run_cases(
      [&](Rank me, const Case& c) {
        Slice working = me.allocate(5, kTypes[c.size], Category::parameter);
        Slice master = me.allocate(5, DType::f32, Category::optimizer),
              update = me.allocate(5, DType::f32, Category::buffer);
        fill(me, working, 1);
        fill(me, master, 1);
        fill(me, update, 0x1p-12f);
        for (int i = 0; i < 512; ++i) apply_update(me, working, master, update);
        return Values{to_host(me, working)[4], to_host(me, master)[4], to_host(me, update)[4]};
      },
      [&](const Case& c, const Outcome& outcome) -> std::string {
        const Values& seen = outcome.values[0];
        if (seen[2] != 0x1p-12) return fmt::format("the update became {}: it must not be changed", seen[2]);
        if (seen[0] == 1.125 && seen[1] == 1.125) return "";
        return fmt::format(
            "after 512 updates of 2⁻¹² to a weight of 1, {} has {} and the master {}, expected 1.125: {}",
            to_string(kTypes[c.size]), seen[0], seen[1],
            seen[1] == 1 ? "an update rounds to nothing where it is added in 16 bits; add it to the master"
                         : "the working copy is the master, rounded, after each update");
      },
      {.ranks = {1}, .sizes = sizes_of({0, 1, 2}), .which = "type"});
}

// Part b --------------------------------------------------------------------------------------------------------------

/// Rank 0 has 256 everywhere, the others 1. In bf16, 256 + 1 is 256 again.
Values reduced(Rank me, const Case& c, DType data, DType reduce) {
  Slice values = me.allocate(c.size, data, Category::gradient);
  fill(me, values, me.rank() == 0 ? 256 : 1);
  const RankLedger before = ledger_of(me);
  sum_in(me, values, reduce, ring_all_reduce);
  const RankLedger after = ledger_of(me);
  Values seen;
  testing::append(me, values, seen);
  seen.push_back(static_cast<double>(after.traffic.bytes_sent - before.traffic.bytes_sent));
  seen.push_back(static_cast<double>(after.memory.peak_of(Category::buffer)));
  return seen;
}

TEST(Lab22_5b, SumsInTheTypeOfThePolicy) {
  struct Types {
    DType data, reduce;
  };
  for (const Types& types :
       {Types{DType::bf16, DType::f32}, Types{DType::f32, DType::bf16}, Types{DType::f32, DType::f32}}) {
    if (::testing::Test::HasFailure()) return;
    run_cases([&](Rank me, const Case& c) { return reduced(me, c, types.data, types.reduce); },
              [&](const Case& c, const Outcome& outcome) -> std::string {
                const double sum = 256 + c.ranks - 1;
                // An fp32 sum is rounded once, to bf16's steps of 2: to the even one from the middle.
                const double exact = types.data == DType::f32
                                         ? sum
                                         : 4 * std::floor(sum / 4) + (sum - 4 * std::floor(sum / 4) >= 3   ? 4
                                                                      : sum - 4 * std::floor(sum / 4) >= 2 ? 2
                                                                                                           : 0);
                for (int rank = 0; rank < c.ranks; ++rank) {
                  const Values& seen = outcome.values[rank];
                  for (std::size_t i = 0; i < c.size; ++i) {
                    if (types.reduce == DType::f32 && seen[i] != exact)
                      return fmt::format(
                          "rank {}, {} gradients summed in fp32: element {} is {}, expected {}. If rounded on the way, "
                          "each 1 is lost against 256",
                          rank, to_string(types.data), i, seen[i], exact);
                    if (seen[i] != outcome.values[0][i]) return fmt::format("ranks 0 and {} hold different sums", rank);
                  }
                  if (c.size % static_cast<std::size_t>(c.ranks) != 0) continue;
                  const double bytes =
                      2.0 * (c.ranks - 1) / c.ranks * static_cast<double>(c.size * bytes_of(types.reduce));
                  if (seen[c.size] != bytes)
                    return fmt::format("rank {} sent {} bytes, expected {}: {} elements in {}", rank, seen[c.size],
                                       bytes, c.size, to_string(types.reduce));
                  if (types.data == types.reduce && seen[c.size + 1] > static_cast<double>(c.size * 4))
                    return fmt::format(
                        "rank {} used {} bytes of buffers where data and sum are both {}: none are needed but the "
                        "collective's own",
                        rank, seen[c.size + 1], to_string(types.data));
                }
                return "";
              });
  }
}

// Part c --------------------------------------------------------------------------------------------------------------

/// A mesh of dp × tp ranks, tp neighbours.
struct Mesh {
  std::vector<Rank> groups;
  Mesh(Rank me, int tp) {
    groups.push_back(me.split(me.rank() % tp, me.rank()));  // dp
    groups.push_back(me.split(me.rank() / tp, me.rank()));  // tp
  }
};

/// The place of the overflow among 40 elements.
std::size_t bad_place() { return (37 + testing::drawn({22, 8}, 40)) % 40; }

// Four steps: nobody, rank `size` alone in its second gradient, everybody, nobody again.
TEST(Lab22_5c, AnOverflowOnOneRankIsKnownOnAll) {
  for (DType dtype : {DType::f16, DType::bf16, DType::f32})
    for (float bad : {kInfinity, -kInfinity, kNan}) {
      if (::testing::Test::HasFailure()) return;
      CasePlan plan{.ranks = {1, 2, 4, 6, 8}, .which = "the first overflow on rank"};
      plan.sizes = [](int ranks) {
        std::vector<std::size_t> all;
        for (int r = 0; r < ranks; ++r) all.push_back(static_cast<std::size_t>(r));
        return all;
      };
      run_cases(
          [&](Rank me, const Case& c) {
            const Mesh mesh(me, me.size() % 2 == 0 ? 2 : 1);
            LossScaler scaler = make_loss_scaler(me);
            Slice gradient = me.allocate(3, dtype, Category::gradient),
                  other = me.allocate(40, dtype, Category::gradient);
            Values seen;
            for (int step = 0; step < 4; ++step) {
              fill(me, gradient, 1);
              fill(me, other, -2);
              if (step == 1 && static_cast<std::size_t>(me.rank()) == c.size) fill(me, other.cut(bad_place(), 1), bad);
              if (step == 2) fill(me, gradient.cut(1, 1), bad);
              find_overflow_everywhere(me, scaler, {gradient, other}, mesh.groups, ring_all_reduce);
              seen.push_back(number(me, scaler.overflow));
            }
            return seen;
          },
          [&](const Case& c, const Outcome& outcome) -> std::string {
            const char* when[] = {"nobody overflows", "rank {} alone overflows", "every rank overflows",
                                  "no rank overflows any more"};
            for (int step = 0; step < 4; ++step)
              for (int rank = 0; rank < c.ranks; ++rank) {
                const double expected = step == 1 || step == 2, seen = outcome.values[rank][step];
                if (seen == expected) continue;
                return fmt::format("{} ({} of {}): on rank {} of {} overflow is {}, expected {}{}",
                                   step == 1 ? fmt::format("rank {} alone overflows", c.size) : when[step], bad,
                                   to_string(dtype), rank, c.ranks, seen, expected,
                                   expected == 1 && seen == 0 ? ": this rank would take the step that others skip"
                                   : expected == 0            ? ": the flag must start from 0 every step"
                                                              : ": it is a flag, not a count");
              }
            return "";
          },
          plan);
    }
}

// Part e --------------------------------------------------------------------------------------------------------------

/// Steps by letter: x overflows, . does not. The interval of growth is 3.
const std::vector<std::string> kHistories = {"......",    "...x...x",     "xxx",
                                             "..x..x...", "...........x", "x.x..x...x...."};
/// With --seed one more is drawn.
std::string history(std::size_t which) {
  if (which < kHistories.size()) return kHistories[which];
  std::string steps;
  for (std::uint64_t i = 0; i < 30; ++i) steps += testing::drawn({22, 9, i}, 3) == 0 ? 'x' : '.';
  return steps;
}

TEST(Lab22_5e, TheScaleFollowsTheRule) {
  const auto program = [](Rank me, const Case& c) {
    LossScaler scaler = make_loss_scaler(me, 1024, 3);
    Values seen;
    for (char step : history(c.size)) {
      fill(me, scaler.overflow, step == 'x' ? 1 : 0);
      update_scale(me, scaler);
      for (const Slice& scalar : {scaler.scale, scaler.inverse, scaler.good_steps, scaler.skipped})
        seen.push_back(number(me, scalar));
    }
    return seen;
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    double scale = 1024, good = 0, skipped = 0;
    const std::string steps = history(c.size);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (steps[i] == 'x') {
        scale /= 2, good = 0, ++skipped;
      } else if (++good == 3) {
        scale *= 2, good = 0;
      }
      const std::string at =
          fmt::format("after \"{}\" (x overflows, growth after 3 good steps)", steps.substr(0, i + 1));
      const auto seen = [&](std::size_t which) { return outcome.values[0][4 * i + which]; };
      if (seen(0) != scale) return fmt::format("{} the scale is {}, expected {}", at, seen(0), scale);
      if (seen(1) != 1 / scale) return fmt::format("{} the inverse is {}, expected {}", at, seen(1), 1 / scale);
      if (seen(2) != good) return fmt::format("{} there are {} good steps, expected {}", at, seen(2), good);
      if (seen(3) != skipped) return fmt::format("{} {} steps were skipped, expected {}", at, seen(3), skipped);
    }
    return "";
  };
  std::vector<std::size_t> which{0, 1, 2, 3, 4, 5};
  if (testing::draws()) which.push_back(kHistories.size());
  run_cases(program, judge, {.ranks = {1}, .sizes = sizes_of(which), .which = "history"});
}

}  // namespace
}  // namespace lockstep::week22
