// ./lab plan: how to train a model on a cluster. All ways to divide the work are predicted, none is run.
//
//   ./lab plan --model gpt3-175b --cluster dgx-a100x128 --global-batch 1536
//   ./lab plan --model gpt3-175b --cluster dgx-a100x128 --global-batch 1536 --explain dp=8,tp=8,pp=16
//   ./lab plan --model gpt3-13b --cluster dgx-h100x8 --global-batch 512 --score mine.json
//   ./lab validate                               all published measurements and their predictions (plan --validate)
#include <fmt/format.h>

#include <algorithm>

#include "common/error.hpp"
#include "common/support/json/repeatable.hpp"
#include "common/support/text/command_line.hpp"
#include "common/support/text/files.hpp"
#include "common/support/text/run_program.hpp"
#include "common/support/text/units.hpp"
#include "labs/trainer/plan/simulate.hpp"
#include "tools/plan/card.hpp"
#include "tools/plan/flops.hpp"
#include "tools/plan/options.hpp"
#include "tools/plan/refine.hpp"
#include "tools/plan/report.hpp"
#include "tools/plan/rows.hpp"
#include "tools/plan/strategy_file.hpp"
#include "tools/plan/validate_report.hpp"
#include "tools/train/phantom_step.hpp"

namespace lockstep::plan {
namespace {

using week25::Rated;
using week25::Strategy;

/// Ends with one sentence that says what would be needed for any strategy to work.
[[noreturn]] void refuse_all(const Task& task, const Search& found) {
  for (const char* reason : {kHostMemory, kNotOffloaded})
    if (const auto why = found.refused.find(reason);
        why != found.refused.end() && (reason == kHostMemory || found.smallest.empty()))
      refuse(fmt::format("no strategy can offload to its host: {} ({}).", why->second.sentence, why->second.example));
  if (!found.smallest.empty()) {
    const Rated& least = found.smallest.front();
    const bool long_ones = least.memory.activation_bytes > least.memory.total_bytes() / 2 && task.cps.size() == 1;
    refuse(fmt::format(
        "nothing fits in {:.3g} GB per GPU: the least of {} strategies is {:.3g} GB ({}); use more memory, more GPUs "
        "or a smaller model{}.",
        task.memory_bytes / 1e9, found.rated, least.memory.total_bytes() / 1e9, format_strategy(least.strategy),
        long_ones ? ", or split sequences over ranks (--cp 1,2,4,8), since most of it is activations" : ""));
  }
  // Largest number of replicas that is possible, whatever the batch.
  int replicas = 0;
  Task any = task;
  for (int dp = 1; dp <= task.cluster.gpus && replicas == 0; ++dp) {
    any.global_batch = dp;
    for (int tp = 1; task.cluster.gpus % dp == 0 && tp <= task.cluster.gpus / dp; ++tp)
      if (task.cluster.gpus / dp % tp == 0 && !why_not(any, {.dp = dp, .tp = tp, .pp = task.cluster.gpus / dp / tp}))
        replicas = dp;
  }
  if (replicas > 0)
    refuse(
        fmt::format("{} heads and {} layers need at least {} replicas on {} GPUs, and {} sequences do not divide over "
                    "any possible number of replicas: try a global batch of {}.",
                    task.model.heads, task.model.layers, replicas, task.cluster.gpus, task.global_batch,
                    (task.global_batch + replicas - 1) / replicas * replicas));
  refuse(fmt::format("{} cannot be divided over {} GPUs: {} heads and {} layers allow no dp × tp × pp of that many.",
                     task.model_name, task.cluster.gpus, task.model.heads, task.model.layers));
}

/// The simulator's seconds and the formulas', which say where they go: the two differ by a few per cent, on slow shared
/// links by more.
void print_account(const Task& task, const Refined& refined) {
  print_account(task, refined.rated, refined.played ? std::optional(refined.seconds()) : std::nullopt);
}

/// --explain: all strategies with these fields.
std::vector<Strategy> strategies_with(const std::string& text, const std::vector<Strategy>& all, int gpus) {
  const auto fields = wanted_fields(text);
  std::vector<Strategy> meant;
  std::copy_if(all.begin(), all.end(), std::back_inserter(meant),
               [&](const Strategy& s) { return has_fields(s, fields); });
  if (meant.empty())
    refuse(
        fmt::format("--explain {}: none of {} strategies has these; dp × tp × pp must be {} GPUs, and the microbatch a "
                    "divisor of a replica's batch up to 64; selective recomputation is for --attention materialised",
                    text, all.size(), gpus));
  return meant;
}

/// The best of them, or why there is none; `best` is the first plan. Simulated if that is.
std::optional<Refined> explain(Predictor& predictor, const std::string& text, const std::vector<Strategy>& meant,
                               const Refined& best) {
  Search found = search(predictor, meant, 1);
  fmt::print("\n{}: {} strateg{}\n", text, meant.size(), meant.size() == 1 ? "y" : "ies");
  std::optional<Refined> here;
  if (!found.best.empty()) {
    here = Refined{found.best.front(), {}};
    if (best.played)
      if (const std::vector<Refined> ranked = rank_by_simulator(predictor.task(), found); !ranked.empty())
        here = ranked.front();
    print_account(predictor.task(), *here);
    const auto more = [](double mine, double other) { return fmt::format("{:+.1f}%", 100 * (mine / other - 1)); };
    const std::string formula = more(here->rated.time.total(), best.rated.time.total());
    if (here->played)
      fmt::print("compared with the best plan, {}; by formula, {}:\n", more(here->seconds(), best.seconds()), formula);
    else
      fmt::print("compared with the best plan, by formula, {}:\n", formula);
    print_difference(here->rated, best.rated);
  }
  if (!found.refused.empty()) print_refused(found);
  return here;
}

/// --score: a written strategy compared with the best one.
void score(Predictor& predictor, const std::string& path, const Strategy& mine, const Rated& best) {
  const Task& task = predictor.task();
  fmt::print("\n{}: {}\n", path, format_strategy(mine));
  if (const auto refusal = why_not(task, mine)) {
    fmt::print("score 0 of 100: {} ({}).\n", refusal->sentence, refusal->reason);
    return;
  }
  const Rated rated = predictor.rate(mine);
  if (const auto refusal = predictor.too_large(rated)) {
    fmt::print("score 0 of 100: it {}: {}.\n", refusal->reason, refusal->sentence);
    return;
  }
  fmt::print("score {:.0f} of 100: a step takes {}, the best one {}.\n", 100 * best.time.total() / rated.time.total(),
             format_seconds(rated.time.total()), format_seconds(best.time.total()));
  print_difference(rated, best);
}

/// --simulate: 25.2's step itself, phantom: one rank a stage, the others as its symmetric peers.
week25::PhantomStep check_in_simulator(const Task& task, const Rated& rated, int place) {
  const week25::PhantomStep step =
      week25::phantom_step(options_of(task, rated.strategy), task.cluster.machine, /*trace=*/false);
  if (place == 0)
    fmt::print("\n{:>3} {:>9} {:>9} {:>7} {:>12} {:>12} {:>7} {:>9}\n", "", "step", "simulated", "error", "memory",
               "simulated", "error", "took");
  const double seconds = rated.time.total(), bytes = rated.memory.total_bytes();
  fmt::print("{:>3} {:>9} {:>9} {:>+6.1f}% {:>9.1f} GB {:>9.1f} GB {:>+6.1f}% {:>9}\n", place + 1,
             format_seconds(seconds), format_seconds(step.seconds), 100 * (seconds / step.seconds - 1), bytes / 1e9,
             step.peak_bytes() / 1e9, 100 * (bytes / step.peak_bytes() - 1), format_seconds(step.wall_seconds));
  return step;
}

/// --offload: its benefits and costs, compared with the same strategy without it and the best one without it.
void compare_offload(Predictor& predictor, const Rated& best) {
  Task task = predictor.task();
  task.offload = Offload::none;
  Predictor plain(task);
  const Rated same = plain.rate(best.strategy);
  const Search others = search(plain, strategies(task), 1);
  print_offload(predictor.task(), best, predictor.on_host(best.strategy), same, others.best);
}

int explain_on_card(const Task& task, const std::string& fields) {
  const CardStrategy found = strategy_of(task, fields);
  if (found.best)
    print_account(task, *found.best);
  else
    fmt::print("{}\n", found.why);
  return found.best ? 0 : 1;
}

/// --card: prints its task; with --explain explains a strategy; with an answer says which of it is right.
int play_card(const PlanOptions& o) {
  const Card card = find_card(read_cards(LOCKSTEP_SOURCE_DIR "/labs/week25_3d/cards.json"), o.card);
  const Task task = task_of(card, kMachines);
  if (!o.explain.empty()) return explain_on_card(task, o.explain);
  if (o.answer.empty()) {
    fmt::print("{}", format_card(card, task));
    return 0;
  }
  const CardFinding finding = judge_card(task, parse_card_answer(read_file(o.answer), o.answer));
  fmt::print("{}", finding.words);
  if (!finding.ok) return 1;
  if (finding.best) {
    fmt::print("\nthe best known: ");
    print_account(task, *finding.best);
  }
  return 0;
}

void run(const PlanOptions& o) {
  for (const std::string& path : {o.json, o.csv})
    if (!path.empty()) check_writable(path);
  if (!o.table.empty() && !o.validate) refuse("--table is for ./lab validate");
  if (!o.without.empty() && !o.validate) refuse("--without is for ./lab validate");
  if (o.validate) return validate_all(LOCKSTEP_SOURCE_DIR, o);
  const double price = price_of(o.price);  // before anything is planned
  if (o.top < 1) refuse("--top: at least 1");
  if (o.simulate < 0 || o.simulate > o.top) refuse(fmt::format("--simulate: of the {} listed plans", o.top));
  const Task task = task_of(o);
  const std::vector<Strategy> all = strategies(task);
  std::vector<Strategy> meant;
  if (!o.explain.empty()) meant = strategies_with(o.explain, all, task.cluster.gpus);
  const Strategy mine = o.score.empty() ? Strategy{} : read_strategy(o.score);

  Predictor predictor(task);
  Search found = search(predictor, all, static_cast<std::size_t>(o.top));
  if (found.best.empty()) refuse_all(task, found);
  const Rated by_formula = found.best.front();
  const std::vector<Refined> played = o.fast || o.precision == "fp8" || task.offload != Offload::none ||
                                              task.load_rate > 0 || task.model.architecture.experts > 0
                                          ? std::vector<Refined>{}
                                          : rank_by_simulator(task, found);
  std::vector<double> seconds;
  for (const Refined& plan : played) seconds.push_back(plan.seconds());
  print_task(task);
  print_plans(task, found.best, seconds);
  fmt::print("\nthe best:\n");
  const Refined best = played.empty() ? Refined{found.best.front(), {}} : played.front();
  print_account(task, best);
  if (price > 0)
    fmt::print("the whole training: {}\n", format_cost(gpu_hours(task, best.rated, best.seconds()), price));
  if (task.offload != Offload::none) compare_offload(predictor, found.best.front());
  if (const Rated& free = found.unlimited.front(); predictor.too_large(free)) print_unlimited(free, by_formula);
  if (!o.score.empty()) score(predictor, o.score, mine, by_formula);
  std::optional<Refined> explained;
  if (!o.explain.empty())
    explained = explain(predictor, o.explain, meant, best);
  else
    print_refused(found);
  print_rate(found);
  std::vector<std::optional<week25::PhantomStep>> simulated;
  for (const Refined& plan : played) simulated.push_back(plan.played);
  for (std::size_t i = 0; i < static_cast<std::size_t>(o.simulate) && i < found.best.size(); ++i) {
    const week25::PhantomStep step = check_in_simulator(task, found.best[i], static_cast<int>(i));
    if (i == simulated.size()) simulated.emplace_back(step);
  }
  write_plans(o, task, found, simulated, explained, price);
}

}  // namespace
}  // namespace lockstep::plan

int main(int argc, char** argv) {
  using namespace lockstep;
  if (argc > 1 && std::string_view(argv[1]) == "--flops")
    return run_program("lab flops: ", [&] { return plan::flops_program(argc - 1, argv + 1); });
  plan::PlanOptions o;
  CommandLine line("./lab plan", "The best ways to train a model on a cluster, predicted; nothing is run.");
  add_options(line, o);
  return run_program("", [&] {
    if (!line.parse(argc, argv)) return 0;
    o.command_line = repeatable("./lab plan", argc, argv);
    if (!o.card.empty()) return plan::play_card(o);
    plan::run(o);
    return 0;
  });
}
