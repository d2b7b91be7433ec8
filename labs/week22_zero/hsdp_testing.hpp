// Shared by the tests of 22.8: every way to divide the ranks into nodes, and the scripted model and a GPT on them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "labs/week22_zero/fsdp_testing.hpp"
#include "labs/week22_zero/hsdp.hpp"

namespace lockstep::week22::hsdp_testing {

/// The passes of a window that sum across nodes.
enum class Across { every_pass, last_pass, first_and_last };
inline constexpr Across kAll[] = {Across::every_pass, Across::last_pass, Across::first_and_last};

inline bool crosses(Across when, int pass, int passes) {
  return when == Across::every_pass || pass == passes - 1 || (when == Across::first_and_last && pass == 0);
}
inline const char* name_of(Across when) {
  constexpr const char* kNames[] = {"every pass", "the last pass alone", "the first and the last pass"};
  return kNames[static_cast<int>(when)];
}

/// Ranks of whole nodes of g.
inline std::vector<int> ranks_of(int g) {
  return g == 1 ? std::vector<int>{1, 2, 4} : g == 2 ? std::vector<int>{2, 4, 8} : std::vector<int>{g, 2 * g};
}

inline std::string shape_of(const Case& c, int g) {
  return fmt::format("{} node{} of {}", c.ranks / g, c.ranks == g ? "" : "s", g);
}

/// Runs `program` with every number of ranks a node, as long as it passes.
inline void run_shapes(const std::function<Values(Rank, const Case&, int g)>& program,
                       const std::function<std::string(const Case&, const Outcome&, int g)>& judge,
                       const FsdpOptions& options, std::vector<std::size_t> sizes = scripted_sizes(),
                       Location where = Location::current()) {
  for (const int g : {2, 1, 3, 4}) {
    CasePlan plan = scripted_plan(options);
    plan.ranks = ranks_of(g);
    plan.sizes = sizes_of(sizes);
    run_cases([&](Rank me, const Case& c) { return program(me, c, g); },
              [&](const Case& c, const Outcome& outcome) {
                const std::string wrong = judge(c, outcome, g);
                return wrong.empty() ? wrong : shape_of(c, g) + ": " + wrong;
              },
              plan, where);
    if (::testing::Test::HasFailure()) return;
  }
}

/// The scripted model under hybrid sharding.
class ScriptedHsdp {
 public:
  ScriptedHsdp(Rank dp, std::size_t tensors, const FsdpOptions& options, int g)
      : model_(dp, tensors, options, [&](ShardedModel model, FsdpOptions with, BindTensor bind) {
          auto made = make_hsdp(week21::split_by_node(dp, g), std::move(model), with, std::move(bind));
          hsdp_ = made.get();
          return made;
        }) {}

  /// A forward and a backward pass for each microbatch.
  void window(int number, int passes, Across when) {
    for (int pass = 0; pass < passes; ++pass) {
      hsdp_->reduce_across(crosses(when, pass, passes));
      model_.forward();
      model_.backward(number, pass);
    }
  }
  Hsdp& hsdp() { return *hsdp_; }

 private:
  Hsdp* hsdp_ = nullptr;  // model_'s; set while that is made
  ScriptedFsdp model_;
};

/// Bytes that a rank has sent inside its node, and to others.
inline LevelBytes sent_by_level(Rank me, int g) {
  const RankLedger ledger = ledger_of(me);
  LevelBytes sent;
  for (int peer = 0; peer < me.size(); ++peer)
    (peer / g == me.rank() / g ? sent.inside : sent.across) += static_cast<double>(ledger.sent_to(peer));
  return sent;
}

/// Inside and across, of a window of `passes`; then both of the step after it.
inline Values window_bytes(Rank me, const Case& c, int g, int passes, Across when) {
  ScriptedHsdp model(me, c.size, kOnMain, g);
  const LevelBytes before = sent_by_level(me, g);
  model.window(0, passes, when);
  const LevelBytes between = sent_by_level(me, g);
  model.hsdp().step(kRate);
  const LevelBytes after = sent_by_level(me, g);
  return {between.inside - before.inside, between.across - before.across,
          after.inside + after.across - between.inside - between.across};
}

/// The sum over all ranks.
inline double total(const Outcome& outcome, std::size_t field) {
  double sum = 0;
  for (const Values& seen : outcome.values) sum += seen[field];
  return sum;
}

}  // namespace lockstep::week22::hsdp_testing
