// Tensor parallelism: the collectives in a forward and backward pass, counted by the ledger; their cost; and the effect
// of overlap and sequence parallelism.
//
//   ./lab bench tp                           12 layers, d_model 512, 8 × 512 tokens, bf16, two ranks of every machine
//   ./lab bench tp --machine pcie-box --ranks 2,4 --d-model 512,1024,2048
//   ./lab bench tp --machine dgx-a100-hdr --ranks 8,16 --heads 32 --d-model 4096   inside a node, and across two
//   ./lab bench tp --machine dgx-a100 --ranks 4 --ring-attention 8192,32768   one layer's, over ranks (23.6)
//   ./lab bench tp --machine dgx-a100 --ranks 8 --d-model 4096 --overlapped-linear 8,128,2048   an MLP's (23.9)
//   ./lab bench tp --machine dgx-a100 --ranks 8 --d-model 4096 --dropout 0.1   of one block (23.8)
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "bench/programs/axis_dropout.hpp"
#include "bench/programs/overlapped_linear.hpp"
#include "bench/programs/ring_attention.hpp"
#include "bench/programs/tp_step.hpp"
#include "bench/support/bench.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/numbers.hpp"
#include "common/support/text/storage.hpp"
#include "common/support/text/units.hpp"
#include "labs/week21_data_parallel/cost_model.hpp"
#include "labs/week23_tensor_parallel/overlapped_linear.hpp"

namespace lockstep::bench {
namespace {

struct TpProgramOptions {
  int layers = 12;
  int heads = 8;
  std::vector<std::string> d_model{"512"};
  int vocabulary = 50257;
  int batch = 8;
  int sequence = 512;
  std::string dtype = "bf16";
  std::vector<std::string> ring_attention;     // lengths of sequences
  std::vector<std::string> overlapped_linear;  // rows per rank
  double dropout = 0;                          // probability
};

/// Collectives of one place, on the rank that spent most time in them.
struct Place {
  std::string name;
  std::uint64_t collectives = 0, bytes = 0;
  double seconds = 0;
  std::size_t first = 0;  // order of first appearance
};

std::vector<Place> places_of(const Outcome& outcome) {
  std::vector<Place> places;
  for (const RankLedger& ledger : outcome.ledgers)
    for (const RegionTotal& region : ledger.regions) {
      if (region.phase || region.visits == 0 || region.name.starts_with("ring_")) continue;
      auto known = std::find_if(places.begin(), places.end(), [&](const Place& p) { return p.name == region.name; });
      if (known == places.end()) known = places.insert(known, {region.name, region.visits, region.bytes, 0});
      known->seconds = std::max(known->seconds, region.seconds);
    }
  return places;
}

/// Predicted seconds of one collective: a ring all-reduce; for a gather or a scatter half of one, and the copy of this
/// rank's rows (two thirds of the three accesses of γ).
double formula(const std::string& place, const LinkPrices& prices, int ranks, double bytes) {
  week21::CostModel cost{prices.alpha, prices.beta, prices.gamma, prices.launch};
  const double half = (ranks - 1) * (cost.alpha + bytes / ranks * cost.beta);
  const double own_rows = cost.launch + bytes / ranks * cost.gamma * 2 / 3;
  if (place == "loss") return half;
  if (place.ends_with("gather")) return half + own_rows;
  const double whole = week21::ring_all_reduce_seconds(cost, ranks, bytes);
  return place.ends_with("scatter") ? whole - half + own_rows : whole;
}

/// Time saved by overlapping a collective with other work: the smaller of that work and of the collective's time on the
/// links. Its additions need the same engine as the work.
double saved_beside(double collective, const LinkPrices& prices, int ranks, double bytes, double beside) {
  const double additions = (ranks - 1) * (prices.launch + bytes / ranks * prices.gamma);
  return std::min(beside, collective - additions);
}

/// Totals over places, each of which gets a row: seconds predicted, seconds in the ledger, and seconds that overlap
/// saves.
struct Account {
  double predicted = 0, measured = 0, saved = 0;
  double parameter_bytes = 0;
};

Account report_account(Bench& bench, const RunOptions& options, const StepShape& shape, Variant variant) {
  const int ranks = options.ranks;
  const LinkPrices prices = bench.prices(options);
  const Outcome outcome = run_pass(options, shape, variant);
  Account account;
  for (const RankLedger& ledger : outcome.ledgers)
    account.parameter_bytes =
        std::max(account.parameter_bytes, static_cast<double>(ledger.memory.peak_of(Category::parameter)));
  std::uint64_t all_bytes = 0, all = 0;
  for (const Place& place : places_of(outcome)) {
    const double each = static_cast<double>(place.bytes) / static_cast<double>(place.collectives);
    const double one = formula(place.name, prices, ranks, each), count = static_cast<double>(place.collectives);
    const bool forward = place.name.find("forward") != place.name.npos || place.name == "loss";
    account.predicted += count * one;
    account.measured += place.seconds;
    if (bench.has_machine())
      account.saved +=
          count * saved_beside(one, prices, ranks, each, priced_beside(options.machine, shape, ranks, place.name));
    all += place.collectives;
    all_bytes += place.bytes;
    Row row;
    row.set("pass", forward ? "forward" : "backward").set("place", place.name);
    row.set("collectives", place.collectives).set("bytes_each", each).set("total_bytes", place.bytes);
    row.set("predicted_seconds", count * one).set("seconds", place.seconds);
    row.set("machine", bench.has_machine() ? options.machine.name : "host").set("ranks", ranks);
    row.set("backend", backend_name()).set("emulated", options.emulate);
    row.set("d_model", shape.model.d_model).set("algorithm", name_of(variant));
    bench.report(row);
    say("  {:<28} {:>3} × {:>9} = {:>9}  predicted {:>9}  measured {:>9}\n", place.name, place.collectives,
        format_bytes(each), format_bytes(static_cast<double>(place.bytes)), format_seconds(count * one),
        format_seconds(place.seconds));
  }
  say("  {:<28} {:>3}   {:>9}   {:>9}  predicted {:>9}  measured {:>9}\n", "together", all, "",
      format_bytes(static_cast<double>(all_bytes)), format_seconds(account.predicted),
      format_seconds(account.measured));
  return account;
}

StepShape shape_of(const TpProgramOptions& o, std::size_t d_model, int ranks) {
  StepShape shape{.sequences = static_cast<std::size_t>(o.batch), .length = static_cast<std::size_t>(o.sequence)};
  shape.model = {.layers = static_cast<std::size_t>(o.layers),
                 .heads = static_cast<std::size_t>(o.heads),
                 .d_model = d_model,
                 .vocabulary = static_cast<std::size_t>(o.vocabulary),
                 .context = shape.length};
  shape.model.storage = parse_storage(o.dtype);
  shape.model.tensor.ranks = ranks;
  shape.model.check();
  if (shape.tokens() % static_cast<std::size_t>(ranks) != 0)
    throw Error(Verdict::usage,
                fmt::format("{} × {} tokens do not divide over {} ranks, which sequence parallelism requires",
                            shape.sequences, shape.length, ranks));
  shape.model.tensor = {};
  return shape;
}

/// Bytes of this model's replicated tensors.
double replicated_bytes(const GptConfig& serial, int ranks) {
  GptConfig own = serial;
  own.tensor = {0, ranks};
  const std::vector<Parameter> whole = gpt_parameter_table(serial), part = gpt_parameter_table(own);
  std::size_t elements = 0;
  for (std::size_t i = 0; i < whole.size(); ++i)
    if (part[i].size == whole[i].size) elements += whole[i].size;
  return static_cast<double>(elements * bytes_of(serial.storage));
}

void add_steps(Bench& bench, RunOptions options, const StepShape& shape) {
  const int ranks = options.ranks;
  options.phantom = time_is_virtual();  // nothing is compared, so no values are needed
  say("{}, d_model {}, {} × {} tokens on {}{}: all-reduces of one step\n", counted(shape.model.layers, "layer"),
      shape.model.d_model, shape.sequences, shape.length, counted(ranks, "rank"),
      bench.has_machine() ? " of " + options.machine.name : "");
  const Account sums = report_account(bench, options, shape, Variant::sequential);
  say("the same with sequence parallelism: all-gathers and reduce-scatters of one step\n");
  const Account cut = report_account(bench, options, shape, Variant::sequence);
  const bool priced = bench.has_machine(), cores = has_cores(options);
  const bool steady = options.emulate || time_is_virtual();  // one pass is as good as many
  const double none = std::nan("");
  const double compute =
      priced ? priced_compute(options.machine, shape, ranks) : pass_seconds(run_pass(options, shape, Variant::compute));
  const double summed = compute + sums.predicted;
  const std::array<double, 4> predicted = {priced ? compute : none, summed, priced ? summed - sums.saved : none, none};
  std::vector<Contender> contenders;
  for (std::size_t v = 0; v < predicted.size(); ++v)
    contenders.push_back(tp_contender(shape, static_cast<Variant>(v), predicted[v]));
  const double replicated = replicated_bytes(shape.model, ranks);
  const std::string place = bench.has_machine() ? "/" + options.machine.name : "";
  bench.add(fmt::format("d_model {}/{} ranks{}", shape.model.d_model, ranks, place), options, contenders,
            [=](const std::vector<Measurement>& group, std::size_t i, Row& row) {
              const double alone = group[0].seconds.value, all = group[i].seconds.value, exposed = all - alone;
              const auto variant = static_cast<Variant>(i);
              const double communication = variant == Variant::compute    ? 0
                                           : variant == Variant::sequence ? steady ? cut.measured : none
                                                                          : group[1].seconds.value - alone;
              row.set("pass", "step").set("place", "everything").set("d_model", shape.model.d_model);
              row.set("compute_seconds", alone).set("communication_seconds", communication);
              row.set("exposed_seconds", exposed).set("hidden_fraction", 1 - exposed / communication);
              row.set("communication_share", cores ? exposed / all : none);
              row.set("predicted_communication_share", (predicted[i] - compute) / predicted[i]);
              row.set("fits_cores", cores);
              row.set("parameter_bytes", sums.parameter_bytes).set("replicated_bytes", replicated);
            });
}

RingAttentionOptions ring_options(const TpProgramOptions& o) {
  const auto heads = static_cast<std::size_t>(o.heads);
  const int d_model = counts_in("--d-model", o.d_model, 1 << 20)[0];
  if (o.d_model.size() > 1 || static_cast<std::size_t>(d_model) % heads != 0)
    throw Error(Verdict::usage, "--ring-attention needs a single --d-model, which --heads divides");
  return {.positions = counts_in("--ring-attention", o.ring_attention, 1 << 30),
          .heads = heads,
          .head_size = static_cast<std::size_t>(d_model) / heads,
          .dtype = parse_storage(o.dtype)};
}

std::size_t single_d_model(const TpProgramOptions& o, const char* instead) {
  if (o.d_model.size() > 1) throw Error(Verdict::usage, fmt::format("{} needs a single --d-model", instead));
  return static_cast<std::size_t>(counts_in("--d-model", o.d_model, 1 << 20)[0]);
}

OverlappedLinearOptions linear_options(const TpProgramOptions& o) {
  return {.rows = counts_in("--overlapped-linear", o.overlapped_linear, static_cast<int>(week23::kMostRows)),
          .d_model = single_d_model(o, "--overlapped-linear")};
}

AxisDropoutOptions dropout_options(const TpProgramOptions& o) {
  return {.p = static_cast<float>(o.dropout),
          .d_model = single_d_model(o, "--dropout"),
          .sequences = static_cast<std::size_t>(o.batch),
          .positions = static_cast<std::size_t>(o.sequence),
          .dtype = parse_storage(o.dtype)};
}

void measure_tp(Bench& bench, const TpProgramOptions& o) {
  const char* const instead = !o.ring_attention.empty()      ? "--ring-attention"
                              : !o.overlapped_linear.empty() ? "--overlapped-linear"
                              : o.dropout > 0                ? "--dropout"
                                                             : nullptr;
  if (instead && !time_is_virtual())
    throw Error(Verdict::usage, fmt::format("{} measures virtual time: leave out --backend", instead));
  std::vector<RunOptions> runs = bench.every_machine(2);
  if (runs.empty())
    for (int ranks : bench.ranks()) runs.push_back(bench.run_options(ranks));
  for (const RunOptions& options : runs)
    if (!o.ring_attention.empty())
      report_ring_attention(bench, options, ring_options(o));
    else if (!o.overlapped_linear.empty())
      report_overlapped_linear(bench, options, linear_options(o));
    else if (o.dropout > 0)
      report_axis_dropout(bench, options, dropout_options(o));
    else
      for (int d_model : counts_in("--d-model", o.d_model, 1 << 20))
        add_steps(bench, options, shape_of(o, static_cast<std::size_t>(d_model), options.ranks));
  bench.run();
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep;
  bench::TpProgramOptions o;
  auto declare = [&](CommandLine& line) {
    line.add("--layers", o.layers, "of the model", Whole{1});
    line.add("--heads", o.heads, "of the model; the ranks divide them", Whole{1});
    line.add("--d-model", o.d_model, "channels; separate several with commas");
    line.add("--vocabulary", o.vocabulary, "tokens in the vocabulary; padded if the ranks do not divide it",
             Whole{1, 1 << 24});
    line.add("--batch", o.batch, "sequences, the same on all ranks", kSequences);
    line.add("--sequence", o.sequence, "tokens per sequence", Whole{1, 1 << 24});
    line.add("--dtype", o.dtype, "fp32, bf16 or fp16");
    line.add(
        "--ring-attention", o.ring_attention,
        "instead: attention over sequences of this many tokens, split over the ranks; separate several with commas");
    line.add(
        "--overlapped-linear", o.overlapped_linear,
        "instead: an MLP's layers over this many rows per rank, multiplied after they are gathered (23.5) or while "
        "they are (23.9); separate several with commas");
    line.exclude("--ring-attention", {"--layers", "--vocabulary", "--batch", "--sequence"});
    line.exclude("--overlapped-linear", {"--layers", "--heads", "--vocabulary", "--batch", "--sequence", "--dtype"});
    line.add("--dropout", o.dropout,
             "instead: an MLP block with two dropouts of this probability, drawn by axis (23.8): what they add, and "
             "whether every layout drops what one rank does",
             Real{1e-6, 0.999});
    line.exclude("--dropout", {"--layers", "--heads", "--vocabulary", "--ring-attention", "--overlapped-linear"});
    line.exclude("--overlapped-linear", {"--ring-attention"});
  };
  return bench::bench_main("tp", "Tensor parallelism: its collectives, from the ledger, and a step's time.", argc, argv,
                           declare, [&](bench::Bench& bench) { bench::measure_tp(bench, o); });
}
