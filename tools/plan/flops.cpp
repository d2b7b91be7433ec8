#include "tools/plan/flops.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "common/error.hpp"
#include "common/gpt/data/model_file.hpp"
#include "common/runtime/machine/machine.hpp"
#include "common/support/json/repeatable.hpp"
#include "common/support/json/results.hpp"
#include "common/support/text/command_line.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/numbers.hpp"
#include "common/support/text/storage.hpp"
#include "labs/week25_3d/budget.hpp"
#include "tools/plan/report.hpp"

namespace lockstep::plan {

namespace {

using week25::Bill, week25::kTokensPerParameter, week25::Rental, week25::Training;

constexpr int kMostGpus = 1 << 17;

struct FlopsOptions {
  std::string model, params, tokens, unique, budget, machine, price, json;
  std::string dtype = "bf16";
  int sequence = 0, ranks = 0;
  double mfu = 0.4, tokens_per_second = 0, serial_fraction = 0, within = 0, spend = 0;
};

/// The subject of the question, complete.
struct Subject {
  std::string name;
  double parameters = 0;  // of a mixture of experts, those that a token meets
  double all = 0;         // 0: as many
  double tokens = 0;
  bool gpt2 = false;       // its block
  std::size_t length = 0;  // 0: sizes are not known, 6 N a token
  TokenFlop token;

  double flop_per_token() const { return length > 0 ? token.sum() : 6 * parameters; }
  double flop() const { return flop_per_token() * tokens; }
  Training training() const { return {parameters, tokens}; }
};

Subject subject_of(const FlopsOptions& o) {
  Subject s;
  const double budget = o.budget.empty() ? 0 : number_in("--budget", o.budget, 1, 1e30);
  if (!o.model.empty()) {
    const GptConfig model = find_model(o.model);
    s.name = o.model;
    s.parameters = static_cast<double>(model.active_parameters());
    s.all = static_cast<double>(model.parameters());
    s.length = o.sequence > 0 ? static_cast<std::size_t>(o.sequence) : model.context;
    s.gpt2 = model.architecture == Architecture();
    s.token = token_flop(model, s.length);
  } else if (!o.params.empty()) {
    s.name = o.params + " parameters";
    s.parameters = number_in("--params", o.params, 1, 1e18);
  } else if (budget > 0) {
    s.parameters = week25::training_for(budget, kTokensPerParameter).parameters;
    s.name = fmt::format("{:.3g} parameters, Chinchilla's optimum for {:g} FLOP", s.parameters, budget);
  } else {
    throw Error(Verdict::usage, "give --model gpt2-124m, --params 70e9, or --budget 5.76e23");
  }
  if (!o.tokens.empty())
    s.tokens = number_in("--tokens", o.tokens, 1, 1e18);
  else if (budget > 0)
    s.tokens = budget / s.flop_per_token();
  else
    s.tokens = kTokensPerParameter * s.parameters;
  return s;
}

std::string scaled(double value) {
  for (const auto& [unit, name] : {std::pair{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}})
    if (value >= unit) return fmt::format("{:.4g}{}", value / unit, name);
  return fmt::format("{:.4g}", value);
}

void print_token(const Subject& s) {
  const double sum = s.token.sum();
  fmt::print("one token of a sequence of {}, forward and backward        FLOP  share\n", s.length);
  const auto line = [&](const char* what, const char* formula, double flop) {
    fmt::print("  {:<24} {:<10} {:>22} {:>6.1f}%\n", what, formula, scaled(flop), 100 * flop / sum);
  };
  line("attention's matrices", s.gpt2 ? "24 L C²" : "", s.token.attention_matrices);
  line("MLP", s.gpt2 ? "48 L C²" : "", s.token.mlp);
  line("scores, causal", "6 L C T", s.token.scores);
  line("head", "6 V C", s.token.head);
  fmt::print("  {:<24} {:<10} {:>22}  = {:.2f} N; as PaLM counts, with the masked half too: {}\n", "together", "",
             scaled(sum), sum / s.parameters, scaled(s.token.palm()));
}

void print_run(const Subject& s, const FlopsOptions& o) {
  const double rule = kTokensPerParameter * s.parameters;
  const double best = week25::training_for(s.flop(), kTokensPerParameter).parameters;
  fmt::print("{} tokens: {:.3g} per parameter", scaled(s.tokens), s.tokens / s.parameters);
  if (o.tokens.empty() && o.budget.empty())
    fmt::print(", the rule of Chinchilla (--tokens for others)\n");
  else
    fmt::print("; by the rule of Chinchilla {}\n", scaled(rule));
  fmt::print("{:.3g} FLOP by 6 N D", training_flop(s.training()));
  if (s.length > 0) fmt::print(", {:.3g} by the table", s.flop());
  if (std::abs(best / s.parameters - 1) > 0.01)
    fmt::print("; spent best, by the same rule, on {} parameters and {} tokens", scaled(best),
               scaled(kTokensPerParameter * best));
  fmt::print("\n");
}

/// Adds what the tokens are worth where they repeat, and what half of the parameters would need for the same loss.
void set_tokens(Row& row, const Subject& s, const FlopsOptions& o) {
  double worth = s.tokens;
  if (!o.unique.empty()) {
    const double unique = number_in("--unique", o.unique, 1, 1e18);
    worth = week25::effective_tokens(s.tokens, unique);
    fmt::print("{:.3g} epochs of {} different tokens, worth {} new ones\n", s.tokens / unique, scaled(unique),
               scaled(worth));
  }
  const double loss = week25::kLossLaw.loss({s.parameters, worth});
  const Training half{s.parameters / 2, week25::tokens_for_loss(s.parameters / 2, loss)};
  const double served = std::isinf(half.tokens) ? INFINITY : pays_off_after(half, s.training());
  if (std::isinf(half.tokens))
    fmt::print("half of the parameters never have the same loss, {:.3f} by Chinchilla's law\n", loss);
  else
    fmt::print(
        "half of the parameters have the same loss, {:.3f} by Chinchilla's law, after {} new tokens and {:.3g} times "
        "the FLOP; served {} tokens, they take less in all\n",
        loss, scaled(half.tokens), training_flop(half) / training_flop(s.training()), scaled(served));
  row.set("effective_tokens", worth).set("half_tokens", half.tokens).set("half_pays_off_after", served);
}

/// FLOP a second of one GPU, by the data sheet. Throws Error(usage) where a machine's is not known: a share of it would
/// mean nothing.
double peak_of(const Machine& machine, const std::string& type) {
  const bool fp8 = type == "fp8";  // NVIDIA's data sheets give 8-bit floats and integers the same
  if (fp8 && (!machine.library || machine.library->fp8_flop_per_second == 0))
    throw Error(Verdict::usage, fmt::format("--dtype fp8: {} has no such products that we know of: choose a machine "
                                            "with H100 or H200, such as --machine dgx-h100",
                                            machine.name));
  const double peak = machine.peak(fp8 ? DType::i8 : parse_storage(type));
  if (peak >= 5e12) return peak;
  throw Error(Verdict::usage,
              fmt::format("the peak of {} is not a vendor's figure, so a share of it is not an MFU: choose a "
                          "machine with GPUs, such as --machine dgx-a100",
                          machine.name));
}

/// The fewest GPUs that are in time, and the most that can be paid.
void set_choice(Row& row, double flop, Rental rental, const FlopsOptions& o) {
  rental.nodes = kMostGpus / rental.per_node;
  const auto [fewest, most] =
      week25::choose_gpus(flop, rental, o.within > 0 ? o.within : INFINITY, o.spend > 0 ? o.spend : INFINITY);
  row.set("fewest_gpus", fewest).set("most_gpus", most);
  if (fewest == 0) fmt::print("no number of GPUs up to {}, in nodes of {}, will do\n", kMostGpus, rental.per_node);
  const auto line = [&](const char* which, int gpus) {
    const Bill each = week25::bill(flop, rental, gpus);
    fmt::print("{}: {} GPUs, {:.3g} days, {:.3g} GPU-hours{}\n", which, gpus, each.days, each.gpu_hours,
               rental.price > 0 ? fmt::format(", {:.3g}", each.cost) : "");
  };
  if (fewest > 0 && o.within > 0) line("fewest in time", fewest);
  if (fewest > 0 && o.spend > 0) line("most for the money", most);
}

void set_machine(Row& row, const Subject& s, const FlopsOptions& o) {
  const Machine machine = find_machine(o.machine, LOCKSTEP_SOURCE_DIR "/bench/machines");
  const double peak = peak_of(machine, o.dtype);
  const int ranks = o.ranks > 0 ? o.ranks : 1;
  const double all = peak * ranks;
  fmt::print("{} of {}, each {}FLOP/s at peak in {}\n", counted(ranks, "GPU"), machine.name, scaled(peak), o.dtype);
  double mfu = o.mfu;
  if (o.tokens_per_second > 0) {
    mfu = o.tokens_per_second * s.flop_per_token() / all;
    fmt::print("{} tokens/s are {:.1f}% MFU", scaled(o.tokens_per_second), 100 * mfu);
    if (s.length > 0) fmt::print(", {:.1f}% as PaLM counts", 100 * o.tokens_per_second * s.token.palm() / all);
    fmt::print("\n");
    if (mfu > 1)
      throw Error(Verdict::usage, "which is more than the hardware has: check --ranks, --dtype and --sequence");
  }
  const double price = price_of(o.price);
  const Rental rental{.peak = peak,
                      .mfu = mfu,
                      .serial_fraction = o.serial_fraction,
                      .price = price,
                      .per_node = std::max(1, machine.levels.empty() ? 1 : machine.levels.front().ranks)};
  const Bill whole = week25::bill(s.flop(), rental, ranks);
  const double reached = s.flop() / (whole.gpu_hours * 3600 * peak);
  const std::string time =
      whole.days < 1 ? fmt::format("{:.3g} hours", 24 * whole.days) : fmt::format("{:.3g} days", whole.days);
  fmt::print("{} at {:.1f}% MFU{}: {:.3g} GPU-days, {} tokens/s\n", time, 100 * reached,
             o.tokens_per_second > 0 ? "" : " (--mfu for another)", whole.gpu_hours / 24,
             scaled(s.tokens / (whole.days * 86400)));
  row.set("machine", machine.name).set("ranks", ranks).set("peak_flop_per_second", peak).set("mfu", reached);
  row.set("seconds", whole.days * 86400).set("gpu_days", whole.gpu_hours / 24);
  if (price > 0) fmt::print("{}\n", format_cost(whole.gpu_hours, price));
  row.set("cost", price > 0 ? whole.cost : NAN);
  if (o.within > 0 || o.spend > 0) set_choice(row, s.flop(), rental, o);
}

void report(const FlopsOptions& o, const std::string& command_line) {
  const Subject s = subject_of(o);
  if (!o.json.empty()) check_writable(o.json);
  const std::string mixture = s.all > s.parameters ? fmt::format(" that a token meets, of {}", scaled(s.all)) : "";
  fmt::print("{}{}\n", s.name,
             o.model.empty() ? "" : fmt::format(": N = {} parameters{}", scaled(s.parameters), mixture));
  if (s.length > 0) print_token(s);
  print_run(s, o);
  Row row;
  row.set("name", s.name).set("parameters", s.parameters).set("tokens", s.tokens).set("flop", s.flop());
  row.set("flop_by_rule", training_flop(s.training())).set("flop_per_token", s.flop_per_token());
  set_tokens(row, s, o);
  if (!o.machine.empty()) set_machine(row, s, o);
  if (o.json.empty()) return;
  Context context = Context::here();
  context.more.set("command", "flops").set("command_line", command_line);
  write_results(o.json, context, std::vector<Row>{row});
}

}  // namespace

TokenFlop token_flop(const GptConfig& model, std::size_t length) {
  const double layers = static_cast<double>(model.layers), channels = static_cast<double>(model.d_model);
  return {.attention_matrices = 6 * layers * static_cast<double>(model.qkv_width() + model.d_model) * channels,
          .mlp = 6 * layers *
                 static_cast<double>(model.block_matrices() / model.d_model - model.qkv_width() - model.d_model) *
                 channels,
          .scores = 6 * layers * channels * static_cast<double>(length),
          .head = 6 * static_cast<double>(model.vocabulary) * channels};
}

int flops_program(int argc, char** argv) {
  FlopsOptions o;
  CommandLine line("./lab flops", "Floating-point operations of a training run, and how long they take on a machine.");
  line.add("--model", o.model, "a preset or a config.json, as for ./lab train: exact FLOP, by part");
  line.add("--params", o.params, "instead: number of parameters (70e9), 6 FLOP each per token");
  line.add("--tokens", o.tokens, "tokens of the whole run (1.4e12; default: 20 per parameter, Chinchilla's rule)");
  line.add("--unique", o.unique, "of the tokens, how many differ (15e12; default: all): what repeated ones are worth");
  line.add("--budget", o.budget, "FLOP to spend (5.76e23): the tokens of --model, or the best model");
  line.add("--sequence", o.sequence, "tokens per sequence; 0: the model's context", Whole{});
  line.add("--machine", o.machine, "a name in bench/machines: days and GPU-days on it");
  line.add("--ranks", o.ranks, "number of GPUs; 0: one", Whole{});
  line.add("--dtype", o.dtype, "type of the matrix products: fp32, bf16, fp16 or fp8");
  line.add("--mfu", o.mfu, "share of the peak that the model's FLOP reach", Real{0.001, 1});
  line.add("--tokens-per-second", o.tokens_per_second,
           "instead of --mfu: measured tokens per second of all GPUs; prints the MFU", Real{0, 1e12});
  line.add("--price", o.price, "of one GPU for an hour, in any currency (2.50): what the run costs");
  line.add("--serial-fraction", o.serial_fraction, "Amdahl's: --mfu is then that of one GPU", Real{0, 1});
  line.add("--within", o.within, "days: the fewest GPUs that are in time", Real{0, 1e6});
  line.add("--spend", o.spend, "money: the most GPUs that --price leaves", Real{0, 1e15});
  line.add("--json", o.json, "the figures with their context");
  line.exclude("--model", {"--params"});
  line.exclude("--tokens", {"--budget"});
  line.exclude("--tokens-per-second", {"--mfu", "--serial-fraction", "--within", "--spend"});
  if (!line.parse(argc, argv)) return 0;
  for (const char* needs :
       {"--ranks", "--mfu", "--tokens-per-second", "--dtype", "--price", "--serial-fraction", "--within", "--spend"})
    if (o.machine.empty() && line.given(needs)) throw Error(Verdict::usage, fmt::format("{} needs --machine", needs));
  if (o.model.empty() && line.given("--sequence")) throw Error(Verdict::usage, "--sequence needs --model");
  if (o.spend > 0 && o.price.empty()) throw Error(Verdict::usage, "--spend needs --price");
  report(o, repeatable("./lab flops", argc, argv));
  return 0;
}

}  // namespace lockstep::plan
