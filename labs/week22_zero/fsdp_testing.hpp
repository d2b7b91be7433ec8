// Shared by the tests of 22.4, 22.8 and 22.9: a scripted model and a GPT under FSDP, and what their shares and memory
// must be.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "common/support/text/counted.hpp"
#include "common/testing/values.hpp"
#include "labs/week22_zero/fsdp.hpp"
#include "labs/week22_zero/zero_gpt_testing.hpp"
#include "labs/week22_zero/zero_script_testing.hpp"

namespace lockstep::week22 {

using testing::CasePlan;
using testing::in_reverse_order;
using testing::run_cases;
using testing::sizes_of;

inline constexpr FsdpOptions kOnMain{.prefetch = 0, .precision = {}, .adamw = kAdamW};
inline constexpr FsdpOptions kPrefetch{.prefetch = 1, .precision = {}, .adamw = kAdamW};

/// Makes the object under test, in place of make_fsdp(dp, …).
using MakeFsdp = std::function<std::unique_ptr<Fsdp>(ShardedModel model, FsdpOptions options, BindTensor bind)>;

/// The scripted model under FSDP: c.size tensors, element e begins as e + 1.
class ScriptedFsdp {
 public:
  ScriptedFsdp(Rank dp, std::size_t tensors, FsdpOptions options, const MakeFsdp& make = {})
      : dp_(dp), table_(scripted_table(tensors)), usage_order_(scripted_usage_order(tensors)), bound_(tensors) {
    const BeginPart begin = [this](Rank me, std::size_t tensor, std::size_t first, Slice part) {
      std::vector<float> values;
      for (std::size_t i = 0; i < part.size(); ++i) values.push_back(value(tensor, first + i));
      upload(me, part, values);
    };
    const ShardedModel model{table_, scripted_units(table_), usage_order_, begin};
    const BindTensor bind = [this](std::size_t i, Slice value, Slice gradient) {
      bound_.values[i] = std::move(value);
      bound_.gradients[i] = std::move(gradient);
    };
    fsdp_ = make ? make(model, options, bind) : make_fsdp(dp, model, options, bind);
  }

  /// Looks at the values of every piece; they must be those of the beginning.
  void forward() {
    for (std::size_t v = 0; v < usage_order_.size(); ++v) {
      fsdp_->before(Pass::forward, v);
      check_values("forward", v);
    }
    fsdp_->end(Pass::forward);
    check_nothing_bound("forward");
  }

  void backward(int window, int pass) {
    for (std::size_t v = usage_order_.size(); v-- > 0;) {
      fsdp_->before(Pass::backward, v);
      check_values("backward", v);
      for (std::size_t i : usage_order_[v])
        if (bound_.gradients[i].size() != table_[i].size)
          complain(fmt::format("backward piece {} uses {}, of {}, but was bound to {} for its gradient", v,
                               table_[i].name, counted(table_[i].size, "element"), bound_.gradients[i].size()));
      add_scripted_piece(dp_, table_, usage_order_, v, bound_, window, pass);
    }
    fsdp_->end(Pass::backward);
    check_nothing_bound("backward");
  }

  Fsdp& fsdp() { return *fsdp_; }

 private:
  float value(std::size_t tensor, std::size_t element) const {
    return static_cast<float>(table_[tensor].offset + element + 1);
  }
  [[noreturn]] void complain(const std::string& text) const {
    throw Error(Verdict::fail, text);  // the run says on which rank
  }

  void check_values(const char* pass, std::size_t piece) const {
    for (std::size_t i : usage_order_[piece]) {
      if (bound_.values[i].size() != table_[i].size)
        complain(fmt::format("{} piece {} uses {}, of {}, but was bound to {}", pass, piece, table_[i].name,
                             counted(table_[i].size, "element"), bound_.values[i].size()));
      const std::vector<float> seen = to_host(dp_, bound_.values[i]);
      for (std::size_t e = 0; e < seen.size(); ++e)
        if (seen[e] != value(i, e))
          complain(fmt::format("{} piece {}: {}[{}] is {}, expected {}{}", pass, piece, table_[i].name, e, seen[e],
                               value(i, e),
                               std::isnan(seen[e]) ? "; uninitialised memory: was its unit gathered?" : ""));
    }
  }
  void check_nothing_bound(const char* pass) const {
    for (std::size_t i = 0; i < table_.size(); ++i)
      if (!bound_.values[i].empty() || !bound_.gradients[i].empty())
        complain(fmt::format("after the {} pass the model still holds {}", pass, table_[i].name));
  }

  Rank dp_;
  std::vector<Parameter> table_;
  UsageOrder usage_order_;
  Bound bound_;
  std::unique_ptr<Fsdp> fsdp_;
};

/// Two windows, of one and of three passes: values are right whenever they are used, shares of gradients are averages.
/// A learning rate of 0 leaves the values as they are.
inline Values fsdp_shares_of(Rank dp, const Case& c, FsdpOptions options) {
  options.adamw.weight_decay = 0;
  ScriptedFsdp model(dp, c.size, options);
  Values seen;
  for (int window = 0; window < 2; ++window) {
    for (int pass = 0; pass < 1 + 2 * window; ++pass) {
      model.forward();
      model.backward(window, pass);
    }
    for (const Slice& share : model.fsdp().gradient_shares()) testing::append(dp, share, seen);
    model.fsdp().step(0);
  }
  return seen;
}

inline std::string wrong_fsdp_windows(const Case& c, const Outcome& outcome) {
  const std::vector<Unit> units = scripted_units(scripted_table(c.size));
  for (int rank = 0; rank < c.ranks; ++rank) {
    std::size_t at = 0;
    for (int window = 0; window < 2; ++window) {
      const std::string wrong =
          wrong_shares(units, outcome.values[rank], at, rank, c.ranks, window, 1 + 2 * window, 2 * window - 1);
      if (!wrong.empty()) return wrong;
    }
  }
  return "";
}

/// For tests of 22.4b: the mistake in a forward pass on main, part a; "" if its values are right.
inline std::string wrong_fsdp_a() {
  if (!testing::has_ranks(2)) return "";
  const Outcome outcome = run({.ranks = 2}, Program([](Rank dp) {
                                ScriptedFsdp(dp, 5, kOnMain).forward();
                                return Values{};
                              }));
  return outcome.passed() ? "" : fmt::format("22.4a first: with 2 ranks and 5 tensors, {}.", outcome.message);
}

inline CasePlan scripted_plan(const FsdpOptions& options) {
  return {.sizes = sizes_of(scripted_sizes()), .queues = options.prefetch > 0, .unit = "tensor", .cause = wrong_fsdp_a};
}

/// Also in a group that has the ranks in another order than the world.
inline void shares_are_averages(const FsdpOptions& options, Location where = Location::current()) {
  const testing::CaseProgram program = [=](Rank dp, const Case& c) { return fsdp_shares_of(dp, c, options); };
  CasePlan plan = scripted_plan(options);
  run_cases(program, wrong_fsdp_windows, plan, where);
  plan.ranks = {3}, plan.sizes = sizes_of({5});
  if (!::testing::Test::HasFailure())
    run_cases(in_reverse_order(program), in_reverse_order(testing::CaseJudge(wrong_fsdp_windows)), plan, where);
}

/// Live bytes at rest, and peaks over a forward and two backward passes, by category, exactly.
inline void memory_is_bounded(const FsdpOptions& options, Location where = Location::current()) {
  const auto program = [=](Rank dp, const Case& c) {
    ScriptedFsdp model(dp, c.size, options);
    Values seen;
    const auto look = [&](auto of) {
      const Memory memory = ledger_of(dp).memory;
      for (Category category : {Category::parameter, Category::gradient, Category::optimizer})
        seen.push_back(static_cast<double>((memory.*of)(category)));
    };
    look(&Memory::live_of);
    model.forward();
    look(&Memory::peak_of);
    for (int pass = 0; pass < 2; ++pass) model.backward(0, pass);
    look(&Memory::live_of);
    look(&Memory::peak_of);
    return seen;
  };
  const auto judge = [=](const Case& c, const Outcome& outcome) -> std::string {
    const std::vector<Unit> units = scripted_units(scripted_table(c.size));
    const UsageOrder usage_order = scripted_usage_order(c.size);
    const auto ahead = static_cast<std::size_t>(options.prefetch);
    const auto most = [&](Pass pass, std::size_t further, bool behind) {
      return 4 * static_cast<double>(most_elements(units, usage_order, pass, further, behind));
    };
    const double forward = most(Pass::forward, ahead, false);
    const double backward = std::max(forward, most(Pass::backward, ahead, false));
    const double gradients = most(Pass::backward, 0, false);
    const double in_flight = most(Pass::backward, 0, options.prefetch > 0) - gradients;  // at most
    for (int rank = 0; rank < c.ranks; ++rank) {
      const double share = 4 * static_cast<double>(share_elements(units, rank, c.ranks));
      const double expected[] = {share,           share, 2 * share,  // at rest
                                 share + forward, share, 2 * share,  // most in a forward pass
                                 share,           share, 2 * share, share + backward, share + gradients, 2 * share};
      const char* category[] = {"values", "gradients", "optimizer state"};
      const char* when[] = {"at rest", "at most, after a forward pass", "at rest, after backward passes",
                            "at most, after backward passes"};
      for (int k = 0; k < 12; ++k)
        if (const double more = outcome.values[rank][k] - expected[k]; more < 0 || more > (k == 10 ? in_flight : 0))
          return fmt::format(
              "rank {} holds {} bytes of {} {}, expected {}: its share ({}){}", rank, outcome.values[rank][k],
              category[k % 3], when[k / 3], expected[k], k % 3 == 2 ? 2 * share : share,
              expected[k] == share || k % 3 == 2 ? ""
              : k % 3 == 0 ? fmt::format(", the units that a piece uses, and {} gathered ahead", options.prefetch)
                           : ", the units that a piece uses, and with a second queue one that is being reduced");
    }
    return "";
  };
  run_cases(program, judge, scripted_plan(options), where);
}

/// Trains the GPT; the shares of all values after each step.
inline Values train_fsdp(Rank dp, std::size_t sequences, int passes, const std::vector<Unit>& units,
                         const FsdpOptions& options, const MakeFsdp& make = {}) {
  GptConfig config = week21::small_gpt();
  config.storage = options.precision.compute;
  Gpt gpt(dp, config, 0, Owns::nothing);
  const std::vector<Parameter> table = gpt.parameters().list;
  const BeginPart begin = [&](Rank me, std::size_t i, std::size_t first, Slice part) {
    initialise_part(me, config, table[i], i, first, part, /*seed=*/0);
  };
  const ShardedModel model{table, units, gpt_usage_order(config), begin};
  const BindTensor bind = [&](std::size_t i, Slice value, Slice gradient) { gpt.bind(i, value, gradient); };
  const auto fsdp = make ? make(model, options, bind) : make_fsdp(dp, model, options, bind);
  StepHooks engine;
  engine.before_forward = [&](std::size_t piece) { fsdp->before(Pass::forward, piece); };
  engine.end_forward = [&] { fsdp->end(Pass::forward); };
  engine.before_backward = [&](std::size_t piece) { fsdp->before(Pass::backward, piece); };
  engine.end_backward = [&] { fsdp->end(Pass::backward); };
  engine.step = [&] { fsdp->step(kRate); };
  return train_engine(dp, gpt, sequences, passes, engine, [&] {
    std::vector<float> values;
    for (const Slice& share : fsdp->value_shares())
      for (float value : to_host(dp, share)) values.push_back(value);
    return values;
  });
}

/// The shares of all ranks, put together: all values after each step.
inline Values whole_values(const Outcome& outcome, const std::vector<Unit>& units) {
  const int ranks = static_cast<int>(outcome.values.size());
  std::vector<std::size_t> at(outcome.values.size(), 0);
  Values whole;
  for (int step = 0; step < week21::kSteps; ++step)
    for (const Unit& unit : units)
      for (int rank = 0; rank < ranks; ++rank)
        for (std::size_t e = unit.shard(rank, ranks).size; e-- > 0; ++at[rank])
          whole.push_back(outcome.values[rank].at(at[rank]));
  return whole;
}

inline void equals_ddp(const FsdpOptions& options, int passes, Location where = Location::current()) {
  const auto program = [&](Rank dp, const Case& c) { return train_fsdp(dp, c.size, passes, gpt_units(), options); };
  const auto judge = [&](const Case& c, const Outcome& outcome) -> std::string {
    const Values& ddp = trained(train_unit_ddp, c.ranks, c.size, passes, options.precision.keep);
    const std::string wrong = week21::wrong_parameters(whole_values(outcome, gpt_units()), ddp, 0, "plain DDP");
    return wrong.empty() ? "" : fmt::format("{}{}.", wrong, kEveryBit);
  };
  run_cases(program, judge,
            {.ranks = {1, 2, 3, 4, 8},
             .sizes = sizes_of({3, 8}),
             .queues = options.prefetch > 0,
             .unit = "sequence",
             .cause = scripted_plan(options).cause},
            where);
}

}  // namespace lockstep::week22
