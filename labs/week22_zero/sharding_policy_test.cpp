// Tests of exercise 22.9: which tensors make a unit, and how far ahead one is gathered. Part c, types, is in
// sharding_policy_types_test.cpp.
#include "labs/week22_zero/sharding_policy.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/testing/answered.hpp"
#include "common/testing/verdict.hpp"
#include "labs/week22_zero/fsdp_testing.hpp"
#include "labs/week22_zero/zero_timing_testing.hpp"

namespace lockstep::week22::sharding_policy_test {
namespace {

// Declared in the header; in a grade, results come from the process that ran the answer (common/testing/answered.hpp).
constexpr auto wrap = testing::answer<week22::wrap>;

// Part a -------------------------------------------------------------------------------------------------------------

/// The names of each unit's first tensor and its number of tensors, "blocks.0.norm1.weight 12".
std::vector<std::string> described(const std::vector<Unit>& units) {
  std::vector<std::string> names;
  for (const Unit& unit : units) names.push_back(fmt::format("{} {}", unit.name, unit.count));
  return names;
}

void expect_units(const std::vector<Unit>& units, const std::vector<std::string>& expected, const char* why) {
  if (const std::vector<std::string> found = described(units); found != expected)
    ADD_FAILURE() << fmt::format(
        "the units, each by its first tensor and its number of tensors, are [{}], expected [{}]: {}",
        fmt::join(found, ", "), fmt::join(expected, ", "), why);
}

TEST(Lab22_9a, UnitsFollowThePolicy) {
  const GptConfig config{.layers = 2, .heads = 2, .d_model = 8, .vocabulary = 13, .context = 4, .tied_head = false};
  const std::vector<Parameter> table = gpt_parameter_table(config);
  expect_units(wrap(table, {Wrapping::Kind::whole_model}), {"token_embedding 29"}, "the whole model is one unit");
  expect_units(wrap(table, {Wrapping::Kind::each_block}),
               {"token_embedding 2", "blocks.0.norm1.weight 12", "blocks.1.norm1.weight 12", "norm.weight 3"},
               "a unit for each block, one before the first and one after the last");
  const auto layers = described(wrap(table, {Wrapping::Kind::each_layer}));
  ASSERT_EQ(layers.size(), 2u + 2 * 6 + 2) << "each layer is a unit, weight and bias together";
  EXPECT_EQ(layers.at(2), "blocks.0.norm1.weight 2") << "each layer is a unit, weight and bias together";
  EXPECT_EQ(layers.back(), "head 1") << "each layer is a unit";
}

TEST(Lab22_9a, AUnitIsClosedOnceItHoldsEnough) {
  for (std::size_t tensors : {1, 2, 5, 12, 40})
    for (std::size_t least : {0, 1, 7, 20, 100000}) {
      const std::vector<Parameter> table = scripted_table(tensors);
      const std::vector<Unit> units = wrap(table, {Wrapping::Kind::at_least, least});
      std::size_t next = 0;
      for (const Unit& unit : units) {
        ASSERT_TRUE(unit.count > 0 && unit.count <= tensors - next)
            << "a unit of " << unit.count << (unit.count == 1 ? " tensor" : " tensors") << " where " << tensors - next
            << (tensors - next == 1 ? " is" : " are")
            << " left: every tensor belongs to one unit, and each unit has at least one";
        ASSERT_EQ(unit.first, next) << "units follow one another without gaps, and hold every tensor once";
        ASSERT_EQ(unit.offset, table.at(next).offset)
            << "a unit begins where its first tensor does, " << table[next].name << ", at least " << least
            << " elements a unit";
        next += unit.count;
        const std::size_t before_last = unit.size - table.at(next - 1).size;
        if (next < tensors) {
          ASSERT_GE(unit.size, least) << "a unit of " << unit.size << " elements is not enough";
        }
        if (unit.count > 1 && before_last >= least)
          FAIL() << "a unit that had enough took another tensor: it held " << before_last
                 << " elements, and is closed once it has " << least;
      }
      ASSERT_EQ(next, tensors) << "every tensor belongs to a unit, the last ones too";
    }
}

TEST(Lab22_9a, EveryPolicyTrainsTheSame) {
  const std::vector<Parameter> table = gpt_parameter_table(week21::small_gpt());
  using Kind = Wrapping::Kind;
  for (Wrapping wrapping : {Wrapping{Kind::whole_model}, Wrapping{Kind::each_block}, Wrapping{Kind::each_layer},
                            Wrapping{Kind::at_least, 300}}) {
    const auto program = [&](Rank dp, const Case& c) {
      return train_fsdp(dp, c.size, 1, wrap(table, wrapping), kOnMain);
    };
    const auto judge = [&](const Case& c, const Outcome& outcome) -> std::string {
      const Values& ddp = trained(train_unit_ddp, c.ranks, c.size, 1, DType::f32);
      // Two ranks can add in one order only.
      return week21::wrong_parameters(whole_values(outcome, wrap(table, wrapping)), ddp, c.ranks > 2 ? 1e-5 : 0,
                                      "plain DDP");
    };
    run_cases(program, judge, {.ranks = {1, 2, 3}, .sizes = sizes_of({8}), .unit = "sequence"});
    if (HasFailure()) return;
  }
}

// Part b -------------------------------------------------------------------------------------------------------------

/// Without a wrapper: the gathered units, their order, and the number that is returned.
TEST(Lab22_9b, UnitsFollowTheOrderOfUse) {
  const std::vector<std::size_t> order = {4, 0, 3, 1, 2, 5};
  for (std::size_t used = 0; used <= order.size(); ++used)
    for (std::size_t gathered = used; gathered <= order.size(); ++gathered)
      for (int prefetch : {1, 2, 3, 100}) {
        std::vector<std::size_t> expected;
        for (std::size_t i = gathered; i < order.size() && i < used + static_cast<std::size_t>(prefetch); ++i)
          expected.push_back(order[i]);
        const std::string where = fmt::format(
            "the order is [{}], {} used, {} gathered, {} ahead: ", fmt::join(order, ", "), used, gathered, prefetch);
        std::vector<std::size_t> seen;
        const auto call = [&] {
          return gather_ahead(order, used, gathered, prefetch, [&](std::size_t unit) { seen.push_back(unit); });
        };
        const std::size_t count = testing::answered("gather_ahead, where " + where, call, seen);
        if (seen != expected)
          FAIL() << where
                 << fmt::format("gathers [{}], expected [{}]", fmt::join(seen, ", "), fmt::join(expected, ", "));
        if (count != gathered + expected.size())
          FAIL() << where
                 << fmt::format("returns {}, expected {}: all that are gathered now, not only the new ones", count,
                                gathered + expected.size());
      }
}

TEST(Lab22_9b, TheSameWithPrefetch) {
  for (int prefetch : {1, 2}) {
    FsdpOptions options = with_policies(kPrefetch);
    options.prefetch = prefetch;
    shares_are_averages(options);
    if (HasFailure()) return;
  }
}

TEST(Lab22_9b, NoMoreUnitsAheadThanAskedFor) {
  for (int prefetch : {1, 2, 100}) {
    FsdpOptions options = with_policies(kPrefetch);
    options.prefetch = prefetch;
    memory_is_bounded(options);
    if (HasFailure()) return;
  }
}

TEST(Lab22_9b, GatheringHidesBehindTheModel) {
  double exposed[] = {0, 0, 0};  // main's waiting, in collectives, by units ahead
  for (int prefetch : {0, 1, 2}) {
    const auto program = [=](Rank dp, const Case&) {
      TimedModel model(dp);
      FsdpOptions options = with_policies(kPrefetch);
      options.prefetch = prefetch;
      const auto fsdp = make_fsdp(
          dp, {model.table(), model.units(), model.usage_order(), [](Rank, std::size_t, std::size_t, Slice) {}},
          options, [](std::size_t, Slice, Slice) {});
      return model.measure([&] {
        for (std::size_t v = 0; v < kTimedLayers; ++v) {
          fsdp->before(Pass::forward, v);
          model.work(1);
        }
        fsdp->end(Pass::forward);
        for (std::size_t v = kTimedLayers; v-- > 0;) {
          fsdp->before(Pass::backward, v);
          model.work(2);
        }
        fsdp->end(Pass::backward);
      });
    };
    // The first gathering of each pass and the last reduction; without prefetch all are on main, and only counted.
    run_timed(program, [&](const Case&, const Timed& t) -> std::string {
      const double one = t.communication / static_cast<double>(3 * kTimedLayers);
      exposed[prefetch] = std::max(exposed[prefetch], t.waiting / one);
      return prefetch == 0 ? "" : too_much_shows(t, 3, 3 * kTimedLayers, 0.95);
    });
    if (HasFailure()) return;
  }
  if (exposed[0] > 0)
    testing::note(
        fmt::format("main waits as long as {:.1f} of {} collectives take without prefetch, {:.1f} with one unit ahead, "
                    "{:.1f} with two",
                    exposed[0], 3 * kTimedLayers, exposed[1], exposed[2]));
}

TEST(Lab22_9b, TheWeightsAreThoseOfDdpBitForBit) { equals_ddp(with_policies(kPrefetch), 2); }

}  // namespace
}  // namespace lockstep::week22::sharding_policy_test
