// Tests of exercise 22.3: ZeRO stage 2.
#include "labs/week22_zero/zero2.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "common/support/text/counted.hpp"
#include "common/testing/values.hpp"
#include "labs/week22_zero/zero_gpt_testing.hpp"
#include "labs/week22_zero/zero_script_testing.hpp"
#include "labs/week22_zero/zero_steps_testing.hpp"
#include "labs/week22_zero/zero_timing_testing.hpp"

namespace lockstep::week22 {
namespace {

using testing::CaseJudge;
using testing::CasePlan;
using testing::CaseProgram;
using testing::in_reverse_order;
using testing::run_cases;
using testing::sizes_of;

constexpr int kBackwards = 3;

/// The scripted model under ZeRO-2: c.size tensors.
class ScriptedZero2 {
 public:
  ScriptedZero2(Rank dp, std::size_t tensors, bool overlap)
      : dp_(dp), table_(scripted_table(tensors)), usage_order_(scripted_usage_order(tensors)), bound_(tensors) {
    const Parameters parameters = scripted_values(dp, table_);
    values_ = parameters.values;
    zero_ = make_zero2(dp, parameters, scripted_units(table_), usage_order_, {.overlap = overlap, .adamw = kAdamW},
                       [this](std::size_t i, Slice gradient) { bound_.gradients[i] = std::move(gradient); });
  }

  void backward(int window, int pass) {
    for (std::size_t v = usage_order_.size(); v-- > 0;) {
      zero_->before_backward(v);
      check_bound(v);
      add_scripted_piece(dp_, table_, usage_order_, v, bound_, window, pass);
    }
    zero_->end_backward();
  }

  Zero2& zero() { return *zero_; }
  const Slice& values() const { return values_; }
  const Bound& bound() const { return bound_; }

 private:
  void check_bound(std::size_t piece) const {
    for (std::size_t i : usage_order_[piece])
      if (bound_.gradients[i].size() != table_[i].size)
        throw Error(Verdict::fail,
                    fmt::format("piece {} uses {}, of {}, but was bound to {} for its gradient", piece, table_[i].name,
                                counted(table_[i].size, "element"), bound_.gradients[i].size()));
  }

  Rank dp_;
  std::vector<Parameter> table_;
  UsageOrder usage_order_;
  Bound bound_;
  Slice values_;
  std::unique_ptr<Zero2> zero_;
};

void append(Rank me, const std::vector<Slice>& shares, Values& seen) {
  for (const Slice& share : shares) testing::append(me, share, seen);
}

/// Shares after each window of so many passes; a step ends all but the last window.
Values zero2_shares_of(Rank dp, const Case& c, bool overlap, const std::vector<int>& windows) {
  ScriptedZero2 model(dp, c.size, overlap);
  Values seen;
  for (std::size_t window = 0; window < windows.size(); ++window) {
    if (window > 0) model.zero().step(kRate);
    for (int pass = 0; pass < windows[window]; ++pass) model.backward(static_cast<int>(window), pass);
    append(dp, model.zero().gradient_shares(), seen);
  }
  return seen;
}

std::string wrong_zero2_windows(const Case& c, const Outcome& outcome, const std::vector<int>& windows) {
  const std::vector<Unit> units = scripted_units(scripted_table(c.size));
  for (int rank = 0; rank < c.ranks; ++rank) {
    std::size_t at = 0;
    for (std::size_t window = 0; window < windows.size(); ++window) {
      const std::string wrong = wrong_shares(units, outcome.values[rank], at, rank, c.ranks, static_cast<int>(window),
                                             windows[window], window > 0 ? windows[window - 1] : 0);
      if (!wrong.empty()) return wrong;
    }
  }
  return "";
}

/// For tests of parts b and c: the mistake in a window on main, part a; "" if its shares are averages.
std::string wrong_zero2_a() {
  const Case c{2, 5};
  if (!testing::has_ranks(c.ranks)) return "";
  const Outcome outcome =
      run({.ranks = c.ranks}, Program([&](Rank dp) { return zero2_shares_of(dp, c, /*overlap=*/false, {2}); }));
  const std::string wrong = outcome.passed() ? wrong_zero2_windows(c, outcome, {2}) : outcome.message;
  return wrong.empty() ? "" : "22.3a first: with 2 ranks, 5 tensors and no overlap, " + wrong;
}

CasePlan scripted_plan(bool overlap) {
  CasePlan plan{.sizes = sizes_of(scripted_sizes()), .queues = overlap, .unit = "tensor"};
  if (overlap) plan.cause = wrong_zero2_a;
  return plan;
}

/// Also in a group that has the ranks in another order than the world.
void shares_are_averages(bool overlap, const std::vector<int>& windows, Location where = Location::current()) {
  const CaseProgram program = [=](Rank dp, const Case& c) { return zero2_shares_of(dp, c, overlap, windows); };
  const CaseJudge judge = [=](const Case& c, const Outcome& outcome) {
    return wrong_zero2_windows(c, outcome, windows);
  };
  CasePlan plan = scripted_plan(overlap);
  run_cases(program, judge, plan, where);
  plan.ranks = {3}, plan.sizes = sizes_of({5});
  if (!::testing::Test::HasFailure()) run_cases(in_reverse_order(program), in_reverse_order(judge), plan, where);
}

/// Live and peak bytes of gradients over two passes, exactly.
void memory_is_bounded(bool overlap, Location where = Location::current()) {
  const auto program = [=](Rank dp, const Case& c) {
    ScriptedZero2 model(dp, c.size, overlap);
    const auto before = ledger_of(dp).memory.live_of(Category::gradient);
    for (int pass = 0; pass < 2; ++pass) model.backward(0, pass);
    const Memory memory = ledger_of(dp).memory;
    return Values{static_cast<double>(before), static_cast<double>(memory.live_of(Category::gradient)),
                  static_cast<double>(memory.peak_of(Category::gradient))};
  };
  const auto judge = [=](const Case& c, const Outcome& outcome) -> std::string {
    const std::vector<Unit> units = scripted_units(scripted_table(c.size));
    const auto most_whole = [&](bool in_flight) {
      return 4 * static_cast<double>(most_elements(units, scripted_usage_order(c.size), Pass::backward, 0, in_flight));
    };
    const double all = 4.0 * static_cast<double>(all_elements(units));
    for (int rank = 0; rank < c.ranks; ++rank) {
      const auto resident = 4 * static_cast<double>(share_elements(units, rank, c.ranks));
      const Values& seen = outcome.values[rank];
      if (seen[0] != resident || seen[1] != resident)
        return fmt::format(
            "rank {} holds {} bytes of gradients before a window and {} after its passes, expected {}: "
            "its share, all of them being {}",
            rank, seen[0], seen[1], resident, all);
      if (seen[2] < resident + most_whole(false) || seen[2] > resident + most_whole(overlap))
        return fmt::format(
            "rank {} held up to {} bytes of gradients, expected {}: its share ({}) and the units that a piece uses{}",
            rank, seen[2], resident + most_whole(overlap), resident, overlap ? ", and one that is being reduced" : "");
    }
    return "";
  };
  run_cases(program, judge, scripted_plan(overlap), where);
}

// Part a -------------------------------------------------------------------------------------------------------------

TEST(Lab22_3a, SharesAreAverages) { shares_are_averages(false, {1}); }

TEST(Lab22_3a, EveryPassAddsToTheShares) { shares_are_averages(false, {3}); }

TEST(Lab22_3a, GradientsLiveWhileTheyAreWritten) { memory_is_bounded(false); }

TEST(Lab22_3a, WhatIsBoundIsUnbound) {
  const auto program = [](Rank dp, const Case& c) {
    ScriptedZero2 model(dp, c.size, false);
    model.backward(0, 0);
    Values seen;
    for (const Slice& gradient : model.bound().gradients) seen.push_back(static_cast<double>(gradient.size()));
    return seen;
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    for (int rank = 0; rank < c.ranks; ++rank)
      for (std::size_t i = 0; i < c.size; ++i)
        if (outcome.values[rank][i] != 0)
          return fmt::format("rank {}: after the backward pass the model still holds the gradient of tensor {}", rank,
                             i);
    return "";
  };
  run_cases(program, judge, {.ranks = {1, 2, 3}, .sizes = sizes_of({5}), .unit = "tensor"});
}

TEST(Lab22_3a, SendsOneReduceScatterAPass) {
  const auto program = [](Rank dp, const Case& c) {
    ScriptedZero2 model(dp, c.size, false);
    const std::uint64_t before = ledger_of(dp).traffic.bytes_sent;
    for (int pass = 0; pass < kBackwards; ++pass) model.backward(0, pass);
    return Values{static_cast<double>(ledger_of(dp).traffic.bytes_sent - before)};
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const std::vector<Unit> units = scripted_units(scripted_table(c.size));
    for (int rank = 0; rank < c.ranks; ++rank)
      if (const auto each = 4 * static_cast<double>(others_elements(units, rank, c.ranks));
          outcome.values[rank][0] != kBackwards * each)
        return fmt::format("rank {} sent {} bytes in {} passes, expected {}: a reduce-scatter in each", rank,
                           outcome.values[rank][0], kBackwards, kBackwards * each);
    return "";
  };
  run_cases(program, judge, {.sizes = sizes_of({1, 5, 12}), .unit = "tensor"});
}

TEST(Lab22_3a, AveragesItsOwnChunkAlone) {
  averages_its_own_chunk_alone([](Rank dp) {
    TimedModel model(dp);
    const auto zero = make_zero2(dp, model.parameters(), model.units(), model.usage_order(), {.overlap = false},
                                 [](std::size_t, Slice) {});
    model.measure([&] {
      for (std::size_t v = kTimedLayers; v-- > 0;) zero->before_backward(v);
      zero->end_backward();
    });
  });
}

// Part b -------------------------------------------------------------------------------------------------------------

TEST(Lab22_3b, TheSameOnTheSecondQueue) { shares_are_averages(true, {3}); }

TEST(Lab22_3b, OneUnitIsInFlight) { memory_is_bounded(true); }

TEST(Lab22_3b, ReductionsHideBehindTheBackward) {
  const auto program = [](Rank dp, const Case&) {
    TimedModel model(dp);
    std::vector<Slice> gradients(kTimedLayers);
    const auto zero = make_zero2(dp, model.parameters(), model.units(), model.usage_order(), {.overlap = true},
                                 [&](std::size_t i, Slice gradient) { gradients[i] = std::move(gradient); });
    return model.measure([&] {
      for (std::size_t v = kTimedLayers; v-- > 0;) {
        zero->before_backward(v);
        model.work(2);
      }
      zero->end_backward();
    });
  };
  run_timed(program, [](const Case&, const Timed& t) { return too_much_shows(t, 1, kTimedLayers); });
}

// Part c -------------------------------------------------------------------------------------------------------------

TEST(Lab22_3c, AStepEndsTheWindow) { shares_are_averages(true, {1, 3, 2}); }

TEST(Lab22_3c, AStepSendsOneAllGather) {
  const auto program = [](Rank dp, const Case& c) {
    ScriptedZero2 model(dp, c.size, true);
    model.backward(0, 0);
    const Traffic before = ledger_of(dp).traffic;
    model.zero().step(kRate);
    const Traffic after = ledger_of(dp).traffic;
    return Values{static_cast<double>(after.bytes_received - before.bytes_received),
                  static_cast<double>(after.bytes_sent - before.bytes_sent)};
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    const std::vector<Unit> units = scripted_units(scripted_table(c.size));
    for (int rank = 0; rank < c.ranks; ++rank) {
      const Values& seen = outcome.values[rank];
      const auto each = 4 * static_cast<double>(others_elements(units, rank, c.ranks));
      const auto most = 4 * static_cast<double>(most_handed_on(units, c.ranks));
      if (seen[0] != each)
        return fmt::format("rank {} received {} bytes in the step, expected {}: one all-gather of the values", rank,
                           seen[0], each);
      if (seen[1] > most)
        return fmt::format(
            "rank {} sent {} bytes in the step, more than p − 1 chunks ({}): all ranks send equally much", rank,
            seen[1], most);
    }
    return "";
  };
  run_cases(program, judge, {.sizes = sizes_of({1, 5, 12}), .unit = "tensor", .cause = wrong_zero2_a});
}

TEST(Lab22_3c, EveryStepObeysItsArguments) {
  const auto program = [](Rank dp, const Case& c) {
    ScriptedZero2 model(dp, c.size, true);
    return take_steps(
        dp, model.zero().gradient_shares(),
        first_of_shares(scripted_units(scripted_table(c.size)), dp.rank(), dp.size()),
        [&](const Slice& factor, const Slice& skip, const Slice& skipped) {
          model.zero().step(kRate, factor, skip, skipped);
        },
        [&] { return to_host(dp, model.values()); });
  };
  const auto judge = [](const Case& c, const Outcome& outcome) -> std::string {
    for (int rank = 0; rank < c.ranks; ++rank) {
      const std::string wrong =
          wrong_steps(outcome.values[rank], rank, c.size, all_elements(scripted_units(scripted_table(c.size))),
                      [](std::size_t i) { return i; });
      if (!wrong.empty()) return wrong;
    }
    return "";
  };
  run_cases(program, judge, {.ranks = {1, 2, 3, 4}, .sizes = sizes_of({5}), .unit = "tensor", .cause = wrong_zero2_a});
}

Values train_zero2(Rank dp, std::size_t sequences, int passes, DType storage, bool overlap) {
  GptConfig config = week21::small_gpt();
  config.storage = storage;
  Gpt gpt(dp, config, static_cast<std::uint64_t>(dp.rank()), Owns::values);
  const auto zero =
      make_zero2(dp, gpt.parameters(), gpt_units(), gpt_usage_order(config), {.overlap = overlap, .adamw = kAdamW},
                 [&](std::size_t i, Slice gradient) { gpt.bind(i, gpt.parameters().value(i), std::move(gradient)); });
  StepHooks engine;
  engine.before_backward = [&](std::size_t piece) { zero->before_backward(piece); };
  engine.end_backward = [&] { zero->end_backward(); };
  engine.step = [&] { zero->step(kRate); };
  return train_engine(dp, gpt, sequences, passes, engine, [&] { return to_host(dp, gpt.parameters().values); });
}

TEST(Lab22_3c, TheWeightsAreThoseOfDdpBitForBit) {
  struct Way {
    int passes;
    DType storage;
    bool overlap;
  };
  for (const Way& way : {Way{1, DType::f32, false}, Way{1, DType::bf16, true}, Way{2, DType::f32, true}}) {
    const auto program = [&](Rank dp, const Case& c) {
      return train_zero2(dp, c.size, way.passes, way.storage, way.overlap);
    };
    const auto judge = [&](const Case& c, const Outcome& outcome) -> std::string {
      const Values& ddp = trained(train_unit_ddp, c.ranks, c.size, way.passes, way.storage);
      return differs_from(outcome, ddp, 0, "plain DDP", kEveryBit);
    };
    run_cases(program, judge,
              {.ranks = {1, 2, 3, 4, 8},
               .sizes = sizes_of({3, 8}),
               .queues = way.overlap,
               .unit = "sequence",
               .cause = wrong_zero2_a});
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace lockstep::week22
