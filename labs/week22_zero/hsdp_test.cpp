// Tests of exercise 22.8, part a: hybrid sharding on every shape of nodes. Parts b and c are in hsdp_cost_test.cpp.
#include "labs/week22_zero/hsdp_testing.hpp"

namespace lockstep::week22::hsdp_testing {
namespace {

constexpr int kPasses = 3;

/// After each of two windows, of one and of three passes: this rank's shares of the gradients.
Values scripted_shares(Rank me, const Case& c, int g, FsdpOptions options, Across when) {
  options.adamw.weight_decay = 0;
  ScriptedHsdp model(me, c.size, options, g);
  Values seen;
  for (int window = 0; window < 2; ++window) {
    model.window(window, 1 + 2 * window, when);
    for (float value : joined(me, model.hsdp().gradient_shares())) seen.push_back(value);
    model.hsdp().step(0);
  }
  return seen;
}

/// The average of one element over the ranks [first, first + count), added up over the passes.
double average_among(int first, int count, int window, int passes, std::size_t element) {
  double sum = 0;
  for (int pass = 0; pass < passes; ++pass)
    for (int r = first; r < first + count; ++r)
      sum += static_cast<double>(testing::scripted_gradient(r, window, pass, element)) / count;
  return sum;
}

std::string wrong_element(double seen, int rank, int ranks, int g, int window, std::size_t element) {
  const int passes = 1 + 2 * window;
  const double expected = average_among(0, ranks, window, passes, element);
  const auto near = [&](double value) { return std::abs(seen - value) <= 1e-5 * std::abs(value); };
  if (near(expected)) return "";
  const double node = average_among(rank / g * g, g, window, passes, element);
  return fmt::format(
      "rank {}, window {}: element {} of its gradients is {:.8g}, expected {:.8g}, the average over {} ranks, of {} "
      "pass{}{}",
      rank, window, element, seen, expected, ranks, passes, passes == 1 ? "" : "es",
      near(node)                   ? "; that is the average over its node"
      : near(expected * ranks)     ? "; that is the sum over all ranks"
      : near(expected * ranks / g) ? "; that is the sum over the nodes of their averages"
      : near(expected * g)         ? "; that is the average over the nodes of their sums"
      : near(node * g / ranks)     ? "; that has been divided by the nodes, and not summed over them"
                                   : "");
}

void shares_are_averages_over_all(const FsdpOptions& options, Across when) {
  run_shapes([&](Rank me, const Case& c, int g) { return scripted_shares(me, c, g, options, when); },
             [&](const Case& c, const Outcome& outcome, int g) -> std::string {
               const std::vector<Unit> units = scripted_units(scripted_table(c.size));
               for (int rank = 0; rank < c.ranks; ++rank) {
                 const Values& seen = outcome.values[rank];
                 const std::vector<std::size_t> elements = elements_of_shares(units, rank % g, g);
                 if (seen.size() != 2 * elements.size())
                   return fmt::format("rank {} keeps {}, expected {}: its chunk of each unit, of {}", rank,
                                      counted(seen.size() / 2, "element"), elements.size(), g);
                 for (std::size_t i = 0; i < seen.size(); ++i) {
                   const int window = i < elements.size() ? 0 : 1;
                   const std::string wrong =
                       wrong_element(seen[i], rank, c.ranks, g, window, elements[i % elements.size()]);
                   if (!wrong.empty()) return fmt::format("across in {}: {}", name_of(when), wrong);
                   if (seen[i] != outcome.values[rank % g][i])
                     return fmt::format(
                         "element {} is {:.9g} on rank {} and {:.9g} on rank {}, which has the same "
                         "shard: replicas diverge",
                         elements[i % elements.size()], seen[i], rank, outcome.values[rank % g][i], rank % g);
                 }
               }
               return "";
             },
             options);
}

TEST(Lab22_8a, SharesAreAveragesOverAllRanks) {
  for (const Across when : kAll) shares_are_averages_over_all(kOnMain, when);
}
TEST(Lab22_8a, SharesAreAveragesWithPrefetchToo) {
  for (const Across when : kAll) shares_are_averages_over_all(kPrefetch, when);
}

TEST(Lab22_8a, GathersStayInsideTheNodeAndSharesCross) {
  for (const Across when : {Across::last_pass, Across::every_pass})
    run_shapes([&](Rank me, const Case& c, int g) { return window_bytes(me, c, g, kPasses, when); },
               [&](const Case& c, const Outcome& outcome, int g) -> std::string {
                 const double bytes = 4.0 * static_cast<double>(all_elements(scripted_units(scripted_table(c.size))));
                 const int k = c.ranks / g, crossings = when == Across::last_pass ? 1 : kPasses;
                 const double inside = k * 3 * kPasses * (g - 1) * bytes, across = 2 * crossings * (k - 1) * bytes;
                 if (total(outcome, 1) != across)
                   return fmt::format(
                       "all ranks together sent {} bytes to other nodes in {} passes, expected {}: across "
                       "in {}, a ring all-reduce of each share among {} nodes, and no parameters",
                       total(outcome, 1), kPasses, across, name_of(when), k);
                 if (total(outcome, 0) != inside)
                   return fmt::format(
                       "all ranks together sent {} bytes inside their nodes in {} passes, expected {}: "
                       "every unit is gathered twice per pass and reduced once",
                       total(outcome, 0), kPasses, inside);
                 if (total(outcome, 2) != 0)
                   return fmt::format("the step sent {} bytes, expected none", total(outcome, 2));
                 return "";
               },
               kOnMain);
}

TEST(Lab22_8a, EveryRankSendsItsOwnShareAcross) {
  run_shapes([&](Rank me, const Case& c, int g) { return window_bytes(me, c, g, 1, Across::every_pass); },
             [&](const Case& c, const Outcome& outcome, int g) -> std::string {
               const std::vector<Unit> units = scripted_units(scripted_table(c.size));
               const int k = c.ranks / g;
               for (int rank = 0; rank < c.ranks; ++rank) {
                 double most = 0;  // the longest chunk of each share, 2(k − 1) times
                 for (const Unit& unit : units)
                   most += 8.0 * (k - 1) * static_cast<double>(chunk_range(unit.shard(rank % g, g).size, 0, k).size);
                 if (outcome.values[rank][1] > most)
                   return fmt::format(
                       "rank {} sent {} bytes to other nodes, expected at most {}: of its own share, on "
                       "its own rail",
                       rank, outcome.values[rank][1], most);
               }
               return "";
             },
             kOnMain);
}

/// At rest, and at most in a forward and a backward pass: values, gradients, optimizer state.
Values memory_of_passes(Rank me, const Case& c, int g) {
  ScriptedHsdp model(me, c.size, kOnMain, g);
  Values seen;
  for (int pass = 0; pass < 2; ++pass) {
    const Memory memory = ledger_of(me).memory;
    for (const Category of : {Category::parameter, Category::gradient, Category::optimizer})
      seen.push_back(static_cast<double>(memory.live_of(of)));
    model.window(0, 1, Across::every_pass);
  }
  const Memory memory = ledger_of(me).memory;
  seen.push_back(static_cast<double>(memory.peak_of(Category::parameter)));
  seen.push_back(static_cast<double>(memory.peak_of(Category::gradient)));
  return seen;
}

TEST(Lab22_8a, ANodeHoldsTheStateOnce) {
  run_shapes(
      memory_of_passes,
      [](const Case& c, const Outcome& outcome, int g) -> std::string {
        const std::vector<Unit> units = scripted_units(scripted_table(c.size));
        const UsageOrder order = scripted_usage_order(c.size);
        const auto most = [&](Pass pass) {
          return 4 * static_cast<double>(most_elements(units, order, pass, 0, false));
        };
        const char* kinds[] = {"values", "gradients", "optimizer state"};
        for (int rank = 0; rank < c.ranks; ++rank) {
          const Values& seen = outcome.values[rank];
          const double share = 4 * static_cast<double>(share_elements(units, rank % g, g));
          for (std::size_t i = 0; i < 6; ++i)
            if (const double expected = i % 3 == 2 ? 2 * share : share; seen[i] != expected)
              return fmt::format("rank {} holds {} bytes of {} {}, expected {}: its chunk of a node's", rank, seen[i],
                                 kinds[i % 3], i < 3 ? "before the first pass" : "after a pass", expected);
          const double values = share + std::max(most(Pass::forward), most(Pass::backward));
          if (seen[6] != values)
            return fmt::format(
                "rank {} held up to {} bytes of values, expected {}: its share, and the units that a piece "
                "uses",
                rank, seen[6], values);
          if (seen[7] != share + most(Pass::backward))
            return fmt::format(
                "rank {} held up to {} bytes of gradients, expected {}: its share, and the units that a "
                "piece uses",
                rank, seen[7], share + most(Pass::backward));
        }
        return "";
      },
      kOnMain);
}

TEST(Lab22_8a, WithPrefetchMainSendsNothing) {
  const auto program = [](Rank me, const Case& c, int g) {
    ScriptedHsdp model(me, c.size, kPrefetch, g);
    const auto of_main = [&] { return ledger_of(me).queues.at(0).transferring; };
    const double before = of_main();
    model.window(0, 2, Across::every_pass);
    return Values{of_main() - before};
  };
  run_shapes(
      program,
      [](const Case& c, const Outcome& outcome, int) -> std::string {
        for (int rank = 0; rank < c.ranks; ++rank)
          if (outcome.values[rank][0] > 0)
            return fmt::format(
                "rank {}: main had transfers under way: with prefetch, rail and node communicate "
                "on the queue \"comm\"",
                rank);
        return "";
      },
      kPrefetch);
}

// A GPT
// ----------------------------------------------------------------------------------------------------------------

/// Against plain DDP in fp32.
void weights_are_those_of_ddp(const FsdpOptions& options, double tolerance) {
  run_shapes(
      [&](Rank me, const Case& c, int g) {
        return train_fsdp(me, c.size, /*passes=*/2, gpt_units(), options,
                          [&](ShardedModel model, FsdpOptions with, BindTensor bind) {
                            return make_hsdp(week21::split_by_node(me, g), std::move(model), with, std::move(bind));
                          });
      },
      [&](const Case& c, const Outcome& outcome, int g) -> std::string {
        const Values& ddp = trained(train_unit_ddp, c.ranks, c.size, /*passes=*/2, DType::f32);
        for (int rank = g; rank < c.ranks; ++rank)
          if (outcome.values[rank] != outcome.values[rank % g])
            return fmt::format("ranks {} and {} have the same share, and different bits after training", rank % g,
                               rank);
        Outcome node = outcome;
        node.values.resize(static_cast<std::size_t>(g));
        const std::string wrong =
            week21::wrong_parameters(whole_values(node, gpt_units()), ddp, tolerance, "plain DDP");
        return wrong.empty() ? "" : wrong + ".";
      },
      options, {8});
}

TEST(Lab22_8, AGptGetsTheWeightsOfDdp) {
  weights_are_those_of_ddp(kOnMain, 2e-5);
  weights_are_those_of_ddp(kPrefetch, 2e-5);
}

TEST(Lab22_8, SumsIn16BitsReachSharesIn32) {
  FsdpOptions options = kPrefetch;
  options.precision = {.keep = DType::f32, .compute = DType::bf16, .reduce = DType::bf16};
  weights_are_those_of_ddp(options, 0.02);
}

}  // namespace
}  // namespace lockstep::week22::hsdp_testing
