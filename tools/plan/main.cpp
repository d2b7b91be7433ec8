// ./lab plan: how to train a model on a cluster. All ways to divide the work are predicted, none is run.
//
//   ./lab plan --model gpt3-175b --cluster dgx-a100x128 --global-batch 1536
//   ./lab plan --model gpt3-175b --cluster dgx-a100x128 --global-batch 1536 --explain dp=8,tp=8,pp=16
//   ./lab plan --model gpt3-13b --cluster dgx-h100x8 --global-batch 512 --score mine.json
//   ./lab validate                               all published measurements beside the predictions (plan --validate)
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "common/error.hpp"
#include "common/support/json/results.hpp"
#include "common/support/text/command_line.hpp"
#include "common/support/text/files.hpp"
#include "common/support/text/nearest.hpp"
#include "common/support/text/run_program.hpp"
#include "common/support/text/units.hpp"
#include "labs/trainer/plan/simulate.hpp"
#include "tools/plan/card.hpp"
#include "tools/plan/flops.hpp"
#include "tools/plan/operations.hpp"
#include "tools/plan/refine.hpp"
#include "tools/plan/report.hpp"
#include "tools/plan/software.hpp"
#include "tools/plan/strategy_file.hpp"
#include "tools/plan/validate_report.hpp"
#include "tools/train/phantom_step.hpp"

namespace lockstep::plan {
namespace {

using week25::Rated;
using week25::Strategy;

struct PlanOptions {
  std::string model = "gpt3-175b", cluster = "dgx-a100x128", memory, prices = "lab", units = "block",
              attention = "flash", offload = "none", precision = "bf16";
  int global_batch = 0, sequence = 0, top = 10, simulate = 0;
  double imbalance = 1, load_rate = 0;
  std::string cp = "1";
  int shard_group = 0;
  std::string explain, score, json, csv, table, price, without;
  std::string card, answer;
  bool validate = false, fast = false, overlap_scatter = false, overlap_gather = false, fp32_gradients = false;
};

constexpr int kLongest = 1 << 24;  // tokens of a sequence whose positions are rotary

const std::string kMachines = LOCKSTEP_SOURCE_DIR "/bench/machines";

[[noreturn]] void refuse(const std::string& sentence) { throw Error(Verdict::usage, sentence); }

/// "1,2,4": how many ranks may share each sequence.
std::vector<int> sharers_of(const std::string& text, int gpus) {
  std::vector<int> all;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    int count = 0;
    const auto [read, error] = std::from_chars(text.data() + at, text.data() + end, count);
    if (error != std::errc() || read != text.data() + end || count < 1 || count > gpus)
      refuse(fmt::format("--cp {}: how many of {} GPUs share each sequence; several with commas: 1,2,4,8", text, gpus));
    if (std::find(all.begin(), all.end(), count) == all.end()) all.push_back(count);
    at = end + 1;
  }
  return all;
}

const std::vector<std::string> kOffloads{"none", "optimizer", "parameters"};
const std::string& word_of(Offload offload) { return kOffloads[static_cast<std::size_t>(offload)]; }

/// --offload: what is on the host, which the machine must describe, and the simulator does not have.
Offload offload_of(const PlanOptions& o, const Machine& machine) {
  const auto known = std::find(kOffloads.begin(), kOffloads.end(), o.offload);
  if (known == kOffloads.end()) refuse(unknown_name("--offload", o.offload, kOffloads));
  if (o.offload != "none" && !machine.host)
    refuse(
        fmt::format("--offload {}: the machine file of {} has no host, whose memory and bandwidths it needs "
                    "(docs/use/machines.md)",
                    o.offload, o.cluster));
  if (o.offload != "none" && o.simulate > 0)
    refuse(fmt::format("--simulate {}: the simulator has no host to offload to; --offload {} is by formula alone",
                       o.simulate, o.offload));
  if (o.offload != "none" && o.fp32_gradients)
    refuse("--fp32-gradients is for ZeRO-0 and 1, which --offload leaves on the GPUs: leave one of them out");
  return static_cast<Offload>(known - kOffloads.begin());
}

/// A mixture of experts is planned by formula alone.
void check_mixture(const PlanOptions& o, const Task& task) {
  const auto experts = static_cast<double>(task.model.architecture.experts);
  if (o.imbalance < 1 || o.imbalance > std::max(1.0, experts))
    refuse(
        fmt::format("--imbalance {:g}: the rows of the busiest rank, in multiples of the average, are from 1 to the "
                    "number of experts, and {} has {:g}",
                    o.imbalance, o.model, experts));
  const std::pair<bool, const char*> unsupported[] = {{o.simulate > 0, "--simulate"},
                                                      {o.offload != "none", "--offload"},
                                                      {o.shard_group > 0, "--shard-group"},
                                                      {o.units != "block", "--units layer"}};
  for (const auto& [asked, option] : unsupported)
    if (experts > 0 && asked)
      refuse(fmt::format("{} with --model {}: a mixture of experts is planned by formula, and without it; leave it out",
                         option, o.model));
}

Task task_of(const PlanOptions& o) {
  Task task = preset_task(o.model, o.cluster, o.global_batch, kMachines);
  if (o.global_batch < 1 || o.global_batch > 1 << 20)
    refuse("--global-batch: sequences per step, from 1 to 1048576, such as 1536");
  const auto context = static_cast<int>(task.model.context);
  const bool any_length = task.model.architecture.positions == PositionKind::rotary;
  if (o.sequence < 0 || o.sequence > (any_length ? kLongest : context))
    refuse(fmt::format("--sequence {}: {} has positions for 1 to {} tokens", o.sequence, o.model,
                       any_length ? kLongest : context));
  if (o.sequence > 0) task.length = static_cast<std::size_t>(o.sequence);
  task.model.context = std::max(task.model.context, task.length);
  task.cps = sharers_of(o.cp, task.cluster.gpus);
  if (o.shard_group < 0 || o.shard_group > task.cluster.gpus)
    refuse(fmt::format("--shard-group {}: how many of {} GPUs hold the state of ZeRO-3 once; 0: all", o.shard_group,
                       task.cluster.gpus));
  task.shard_group = o.shard_group;
  if (o.units != "block" && o.units != "layer")
    refuse(fmt::format("--units {}: must be block or layer, the unit that ZeRO-2 and 3 reduce and gather", o.units));
  task.units = o.units;
  task.overlap_scatter = o.overlap_scatter;
  task.overlap_gather = o.overlap_gather;
  task.model.fp32_gradients = o.fp32_gradients;
  if (o.prices != "lab" && o.prices != "library")
    refuse(fmt::format(
        "--prices {}: must be lab (the course's own collectives) or library (NCCL, cuBLAS, FlashAttention)", o.prices));
  if (o.attention != "flash" && o.attention != "materialised")
    refuse(unknown_name("--attention", o.attention, std::vector<std::string>{"flash", "materialised"}));
  if (o.attention == "materialised") {
    if (o.prices == "library") refuse("--attention materialised needs the lab's own operations: --prices lab");
    task.model.attention = AttentionKind::materialised;
  }
  if (o.prices == "library") task.cluster.machine = task.cluster.machine.as_library();
  if (o.precision != "bf16" && o.precision != "fp8")
    refuse(unknown_name("--precision", o.precision, std::vector<std::string>{"bf16", "fp8"}));
  if (o.precision == "fp8") {
    if (o.simulate > 0)
      refuse("--simulate: the simulator has no products of 8 bits; --precision fp8 is by formula alone");
    use_fp8(task, "tensorwise", /*gathered=*/true);
  }
  task.offload = offload_of(o, task.cluster.machine);
  task.load_rate = o.load_rate;
  if (o.load_rate > 0 && o.simulate > 0)
    refuse(fmt::format("--simulate {}: the simulated step loads nothing; --load-rate is by formula alone", o.simulate));
  check_mixture(o, task);
  task.imbalance = o.imbalance;
  if (!o.memory.empty()) task.memory_bytes = static_cast<double>(parse_bytes(o.memory));
  return task;
}

/// Nothing can be done: one sentence that says what would be needed.
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
  // Which replicas could there be, whatever the batch?
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

Row row_of(const Task& task, const Rated& rated, const char* kind, int place) {
  const Figures f = figures(task, rated);
  const Strategy& s = rated.strategy;
  Row row;
  row.set("kind", kind).set("place", place).set("model", task.model_name).set("cluster", task.cluster.name);
  row.set("gpus", task.cluster.gpus).set("global_batch", task.global_batch).set("sequence_tokens", task.length);
  row.set("shard_group", holders(task, s) < s.dp ? task.shard_group : 0);
  row.set("dp", replicas(s)).set("cp", s.cp).set("tp", s.tp).set("pp", s.pp).set("microbatch", s.microbatch);
  if (task.model.architecture.experts > 0) row.set("ep", s.ep).set("imbalance", task.imbalance);
  row.set("microbatches", microbatches(task, s))
      .set("schedule", s.schedule)
      .set("chunks", s.chunks)
      .set("zero", s.zero);
  row.set("recompute", recompute_word(s)).set("sequence_parallel", s.sequence_parallel);
  row.set("overlap_gather", task.overlap_gather).set("overlap_scatter", task.overlap_scatter);
  row.set("fp32_gradients", task.model.fp32_gradients);
  if (task.offload != Offload::none) {
    const HostCost host = Predictor(task).on_host(s);
    row.set("offload", word_of(task.offload)).set("host_seconds", rated.time.host);
    row.set("host_bytes", host.bytes).set("host_moved_bytes", host.moved);
  }
  if (task.load_rate > 0) row.set("load_rate", task.load_rate).set("input_seconds", rated.time.input);
  row.set("step_seconds", rated.time.total()).set("mfu", f.mfu).set("days", f.days);
  row.set("compute_seconds", rated.time.compute).set("recompute_seconds", rated.time.recomputed);
  row.set("tensor_seconds", rated.time.tensor).set("bubble_seconds", rated.time.bubble);
  row.set("hop_seconds", rated.time.hops).set("data_seconds", rated.time.data).set("update_seconds", rated.time.update);
  row.set("memory_bytes", rated.memory.total_bytes()).set("parameter_bytes", rated.memory.state.parameter_bytes);
  row.set("gradient_bytes", rated.memory.state.gradient_bytes);
  row.set("optimizer_bytes", rated.memory.state.optimizer_bytes);
  row.set("activation_bytes", rated.memory.activation_bytes);
  row.set("limited_by", week25::limit(rated.time).name);
  row.set("largest_overhead", week25::largest_overhead(rated.time).name);
  return row;
}

/// Of the whole training, at so many seconds per step.
double gpu_hours(const Task& task, const Rated& rated, double seconds) {
  return 24 * figures(task, rated).days * seconds / rated.time.total() * task.cluster.gpus;
}

void write_rows(const PlanOptions& o, const Context& context, const std::vector<Row>& rows) {
  if (!o.json.empty()) write_results(o.json, context, rows);
  if (!o.csv.empty()) write_csv(o.csv, rows);
}

/// `simulated`: of the first plans; `explained`: --explain's, if one fits.
void write(const PlanOptions& o, const Task& task, const Search& found,
           const std::vector<std::optional<week25::PhantomStep>>& simulated, const std::optional<Refined>& explained,
           double price) {
  if (o.json.empty() && o.csv.empty()) return;
  std::vector<Row> rows;
  for (const Rated& rated : found.best) rows.push_back(row_of(task, rated, "plan", static_cast<int>(rows.size()) + 1));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool played = i < simulated.size() && simulated[i];
    const double hours = gpu_hours(task, found.best[i], played ? simulated[i]->seconds : found.best[i].time.total());
    rows[i].set("gpu_hours", hours).set("cost", price > 0 ? hours * price : NAN);
  }
  for (std::size_t i = 0; i < simulated.size(); ++i)
    if (simulated[i])
      rows[i].set("simulated_seconds", simulated[i]->seconds).set("simulated_memory_bytes", simulated[i]->peak_bytes());
  if (explained) rows.push_back(row_of(task, explained->rated, "explained", 1));
  if (explained && explained->played) rows.back().set("simulated_seconds", explained->played->seconds);
  std::vector<OperationTotal> operations;
  if (task.model.architecture.experts == 0) operations = operations_of_microbatch(task, found.best.front().strategy);
  for (const OperationTotal& total : operations) {
    Row row;
    row.set("kind", "operation").set("operation", total.name).set("calls", total.calls).set("seconds", total.seconds);
    rows.push_back(row.set("flop", total.flop).set("moved_bytes", total.bytes));
  }
  for (const auto& [reason, refused] : found.refused) {
    Row row;
    row.set("kind", "refused").set("reason", reason).set("count", refused.count);
    rows.push_back(row.set("example", refused.example).set("sentence", refused.sentence));
  }
  Context context = Context::here();
  context.more.set("command", "plan")
      .set("prices", o.prices)
      .set("precision", o.precision)
      .set("price_per_gpu_hour", price > 0 ? price : NAN)
      .set("peak_flop_per_second",
           task.cluster.machine.peak_flop_per_second[static_cast<std::size_t>(task.model.storage)])
      .set("memory_bytes_per_second", task.cluster.machine.memory_bytes_per_second)
      .set("candidates", found.candidates)
      .set("candidates_per_second", static_cast<double>(found.candidates) / found.seconds);
  write_rows(o, context, rows);
}

/// The simulator's seconds beside the formulas', which say where they go: the two differ by a few per cent, on slow
/// shared links by more.
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

/// --score: a written strategy beside the best one.
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

/// --offload: what it gives and costs, beside the same strategy without it and the best one without it.
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

/// --card: what it asks; with --explain what a strategy takes; or with an answer what is right of that.
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
  if (o.validate) return validate_all(LOCKSTEP_SOURCE_DIR, o.table, o.without, o.json, o.csv);
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
  write(o, task, found, simulated, explained, price);
}

/// What --validate and --card exclude.
const std::vector<std::string> kOfATask{
    "--model",           "--cluster",        "--global-batch", "--sequence",  "--memory",      "--top",
    "--explain",         "--score",          "--simulate",     "--fast",      "--prices",      "--attention",
    "--overlap-scatter", "--overlap-gather", "--cp",           "--imbalance", "--shard-group", "--fp32-gradients",
    "--offload",         "--precision",      "--load-rate"};

}  // namespace
}  // namespace lockstep::plan

int main(int argc, char** argv) {
  using namespace lockstep;
  if (argc > 1 && std::string_view(argv[1]) == "--flops")
    return run_program("lab flops: ", [&] { return plan::flops_program(argc - 1, argv + 1); });
  plan::PlanOptions o;
  CommandLine line("./lab plan", "The best ways to train a model on a cluster, predicted; nothing is run.");
  line.add("--model", o.model, "gpt3-175b, llama3-405b, mixtral-8x7b, …, or a config.json");
  line.add("--cluster", o.cluster, "NAMExN: N nodes of a machine file");
  line.add("--global-batch", o.global_batch, "sequences of a step, over all replicas");
  line.add("--sequence", o.sequence, "tokens of each; 0: the model's context");
  line.add("--cp", o.cp, "ranks that share each sequence (ring attention), the numbers to consider: 1,2,4,8");
  line.add("--imbalance", o.imbalance,
           "of a mixture of experts: rows of the busiest rank's experts, in multiples of the average; every ep is "
           "considered, and no token dropped");
  line.add("--shard-group", o.shard_group,
           "ZeRO-3 (hybrid sharding): number of neighbouring ranks that hold one copy of the state, such as a node's; "
           "0: all");
  line.add("--memory", o.memory, "of a GPU, such as 80GB; by default the machine file's");
  line.add("--prices", o.prices,
           "costs of the course's own operations (lab), or what NCCL, cuBLAS and FlashAttention reach (library)");
  line.add("--attention", o.attention, "flash, or materialised: all probabilities kept, or recomputed (selective)");
  line.add("--units", o.units, "what ZeRO-2 and 3 reduce and gather at once: block, or layer, which needs less memory");
  line.add("--overlap-scatter", o.overlap_scatter, "as in ./lab train, for all plans with sequence parallelism");
  line.add("--overlap-gather", o.overlap_gather, "as in ./lab train, for all plans with ZeRO-1 or 2");
  line.add("--fp32-gradients", o.fp32_gradients,
           "gradients are held and summed in fp32, as by Megatron-LM in bf16; of ZeRO-0 and 1");
  line.add("--precision", o.precision, "of a block's products: bf16, or fp8 with torchao's casts and library prices");
  line.add("--offload", o.offload,
           "what is in the host's memory: none, optimizer (ZeRO-Offload: gradients and optimizer of ZeRO-2 and 3, with "
           "Adam on the host), or parameters (ZeRO-Infinity: those of ZeRO-3, too); by formula alone");
  line.add("--load-rate", o.load_rate,
           "tokens per second that each rank's data loader delivers, ahead of use; 0: as many as a step needs",
           Real{0, 1e15});
  line.add("--top", o.top, "how many plans to list");
  line.add("--explain", o.explain, "the best strategy with these fields, or why not: dp=8,tp=8,pp=16");
  line.add("--score", o.score, "compare a strategy of your own, a JSON file, with the best");
  line.add("--simulate", o.simulate, "simulate this many of the listed plans too, to check the predictions");
  line.add("--fast", o.fast, "formulas only; otherwise the best plans are simulated, and ranked by the result");
  line.add("--validate", o.validate, "only compare predictions with published runs, curves and bubbles");
  line.add("--table", o.table, "with --validate: only this file's rows, in the format of bench/published/predict");
  line.add("--without", o.without, "with --validate: predict without a term, or several with commas; list: names them");
  line.add("--card", o.card, "a design card of week 25; without --answer or --explain: print its task (./lab card)");
  line.add("--answer", o.answer, "with --card: a file with an answer to check");
  line.add("--price", o.price, "of one GPU for an hour, in any currency (2.50): what the training costs");
  line.add("--json", o.json, "also into this file");
  line.add("--csv", o.csv, "also into this file");
  line.exclude("--validate", plan::kOfATask);
  std::vector<std::string> not_of_a_card = plan::kOfATask;
  std::erase(not_of_a_card, "--explain");
  line.exclude("--card", not_of_a_card);
  return run_program("", [&] {
    if (!line.parse(argc, argv)) {
      fmt::print("{}", line.help());
      return 0;
    }
    if (!o.card.empty()) return plan::play_card(o);
    plan::run(o);
    return 0;
  });
}
