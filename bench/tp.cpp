// Tensor parallelism: which collectives a forward and backward pass has, counted by the ledger and not on paper; what
// they cost; and what overlap and sequence parallelism change.
//
//   ./lab bench tp --machine dgx-a100 --ranks 2 --phantom                        12 layers, d_model 512, 8 × 512
//   tokens, bf16
//   ./lab bench tp --machine pcie-box --ranks 2,4 --d-model 512,1024,2048 --phantom
//   ./lab bench tp --machine dgx-a100-hdr --ranks 8,16 --d-model 4096 --phantom   inside a node, and across two
//   ./lab bench tp --machine dgx-a100 --ranks 1,2,4,8 --published --phantom       against Megatron's iteration times
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <set>

#include "bench/support/bench.hpp"
#include "common/model/serial.hpp"
#include "common/text/units.hpp"
#include "labs/week21_data_parallel/cost_model.hpp"
#include "labs/week23_tensor_parallel/sequence_parallel.hpp"
#include "labs/week23_tensor_parallel/tensor_block.hpp"

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
  bool published = false;
};

struct StepShape {
  GptConfig model;
  std::size_t sequences = 0, length = 0;
};

/// What is timed, on the same layers: no communication (each rank alone with its part), sums on main, sums beside the
/// weights' gradients, rows cut as well.
enum class Variant { compute, sequential, overlapped, sequence };
constexpr std::array<const char*, 4> kVariantNames = {"compute", "no_overlap", "overlap", "sequence_parallel"};

/// Everything one rank needs for a forward and backward pass.
class Pass {
 public:
  Pass(Rank me, StepShape shape, Variant variant) : me_(me), gpt_(me, config_of(me, shape.model, variant), /*seed=*/1) {
    const bool alone = variant == Variant::compute, overlap = variant != Variant::sequential && !alone;
    const week23::TensorParallel tp = week23::make_tensor_parallel(alone ? me.split(me.rank(), 0) : me, overlap);
    const std::size_t vocabulary = alone ? gpt_.config().own_vocabulary() : shape.model.vocabulary;
    gpt_.use(variant == Variant::sequence ? week23::make_sequence_layers(tp, vocabulary)
                                          : week23::make_tensor_layers(tp, vocabulary));
    saved_ = gpt_.allocate_activations(me, shape.sequences, shape.length);
    loss_ = me.allocate(1, DType::f32, Category::buffer);
    fill(me, loss_, 0);
    const std::size_t rows = shape.sequences * shape.length;
    std::vector<std::int32_t> tokens;
    for (std::size_t n = 0; n < rows; ++n) tokens.push_back(static_cast<std::int32_t>((3 * n) % vocabulary));
    batch_ = {me.allocate(rows, DType::i32, Category::buffer), me.allocate(rows, DType::i32, Category::buffer),
              shape.sequences, shape.length};
    upload(me, batch_.tokens, tokens);
    upload(me, batch_.targets, tokens);
    if (variant == Variant::sequence) finish_ = [this, tp] { week23::sum_norm_gradients(tp, gpt_); };
  }

  void act() {
    const float factor = 1 / static_cast<float>(batch_.rows());
    accumulate_gradients(me_, gpt_, std::span(&batch_, 1), saved_, loss_, factor);
    if (finish_) finish_();
  }

 private:
  static GptConfig config_of(Rank me, GptConfig config, Variant variant) {
    config.tensor = {me.rank(), me.size(), variant == Variant::sequence};
    return config;
  }

  Rank me_;
  Gpt gpt_;
  Activations saved_;
  Batch batch_;
  Slice loss_;
  std::function<void()> finish_;
};

Contender contender(const StepShape& shape, Variant variant, double predicted) {
  return {.name = kVariantNames[static_cast<std::size_t>(variant)],
          .prepare =
              [=](Rank me, Purpose) {
                auto pass = std::make_shared<Pass>(me, shape, variant);
                return Prepared{.act = [pass] { pass->act(); }, .right = {}};
              },
          .predicted_seconds = predicted};
}

/// Collectives of one place, of the rank that spent most time in them.
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

Outcome run_once(const RunOptions& options, const StepShape& shape, Variant variant) {
  Outcome outcome = run(options, [&](Rank me) -> Values {
    Pass pass(me, shape, variant);
    const double begin = me.now();
    pass.act();
    return {me.now() - begin};
  });
  outcome.check();
  return outcome;
}

/// Of the pass alone, on the slowest rank.
double step_seconds(const Outcome& outcome) {
  double seconds = 0;
  for (const Values& values : outcome.values) seconds = std::max(seconds, values[0]);
  return seconds;
}

/// Seconds of one collective by formula: a ring all-reduce, or half of one, and the copy of own rows (two thirds of the
/// three accesses of γ), for a gather or a scatter.
double formula(const std::string& place, const LinkPrices& prices, int ranks, double bytes) {
  week21::CostModel cost{prices.alpha, prices.beta, prices.gamma, prices.launch};
  const double half = (ranks - 1) * (cost.alpha + bytes / ranks * cost.beta);
  const double own_rows = cost.launch + bytes / ranks * cost.gamma * 2 / 3;
  if (place == "loss") return half;
  if (place.ends_with("gather")) return half + own_rows;
  const double whole = week21::ring_all_reduce_seconds(cost, ranks, bytes);
  return place.ends_with("scatter") ? whole - half + own_rows : whole;
}

/// A row for each place, and their sum by pass. Returns the seconds predicted and measured of all.
struct Account {
  double predicted = 0, measured = 0;
};
Account report_account(Bench& bench, const StepShape& shape, int ranks, Variant variant, bool print) {
  const RunOptions options = bench.run_options(ranks);
  const LinkPrices prices = bench.prices(ranks);
  Account account;
  std::uint64_t all_bytes = 0, all = 0;
  for (const Place& place : places_of(run_once(options, shape, variant))) {
    const double each = static_cast<double>(place.bytes) / static_cast<double>(place.collectives);
    const double predicted = static_cast<double>(place.collectives) * formula(place.name, prices, ranks, each);
    const bool forward = place.name.find("forward") != place.name.npos || place.name == "loss";
    account.predicted += predicted;
    account.measured += place.seconds;
    all += place.collectives;
    all_bytes += place.bytes;
    if (!print) continue;
    Row row;
    row.set("pass", forward ? "forward" : "backward").set("place", place.name);
    row.set("collectives", place.collectives).set("bytes_each", each).set("total_bytes", place.bytes);
    row.set("predicted_seconds", predicted).set("seconds", place.seconds);
    row.set("machine", bench.has_machine() ? options.machine.name : "host").set("ranks", ranks);
    row.set("backend", backend_name()).set("d_model", shape.model.d_model);
    row.set("algorithm", kVariantNames[static_cast<std::size_t>(variant)]);
    bench.report(row);
    if (is_judge())
      fmt::print("  {:<28} {:>3} × {:>9} = {:>9}  predicted {:>9}  measured {:>9}\n", place.name, place.collectives,
                 format_bytes(each), format_bytes(static_cast<double>(place.bytes)), format_seconds(predicted),
                 format_seconds(place.seconds));
  }
  if (print && is_judge())
    fmt::print("  {:<28} {:>3}   {:>9}   {:>9}  predicted {:>9}  measured {:>9}\n", "together", all, "",
               format_bytes(static_cast<double>(all_bytes)), format_seconds(account.predicted),
               format_seconds(account.measured));
  return account;
}

void check_sizes(const TpProgramOptions& o) {
  for (int value : {o.layers, o.heads, o.vocabulary, o.batch, o.sequence})
    if (value < 1)
      throw Error(Verdict::usage, "--layers, --heads, --vocabulary, --batch and --sequence count at least 1");
}

std::size_t whole_number(const std::string& text, const std::string& option) {
  const bool digits = !text.empty() && text.size() < 9 && text.find_first_not_of("0123456789") == std::string::npos;
  if (!digits || std::stoul(text) == 0)
    throw Error(Verdict::usage, fmt::format("{} {}: whole numbers of at least 1", option, text));
  return std::stoul(text);
}

StepShape shape_of(const TpProgramOptions& o, std::size_t d_model, int ranks) {
  StepShape shape{.sequences = static_cast<std::size_t>(o.batch), .length = static_cast<std::size_t>(o.sequence)};
  shape.model = {.layers = static_cast<std::size_t>(o.layers),
                 .heads = static_cast<std::size_t>(o.heads),
                 .d_model = d_model,
                 .vocabulary = static_cast<std::size_t>(o.vocabulary),
                 .context = shape.length};
  if (o.dtype != "fp32" && o.dtype != "bf16" && o.dtype != "fp16")
    throw Error(Verdict::usage, fmt::format("--dtype {}: fp32, bf16 or fp16", o.dtype));
  shape.model.storage = o.dtype == "fp32" ? DType::f32 : o.dtype == "bf16" ? DType::bf16 : DType::f16;
  shape.model.tensor.ranks = ranks;
  shape.model.check();
  if (shape.sequences * shape.length % static_cast<std::size_t>(ranks) != 0)
    throw Error(Verdict::usage, fmt::format("{} × {} tokens do not divide over {} ranks, as sequence parallelism wants",
                                            shape.sequences, shape.length, ranks));
  shape.model.tensor = {};
  return shape;
}

void add_steps(Bench& bench, const StepShape& shape, int ranks) {
  if (is_judge())
    fmt::print("{} layers, d_model {}, {} × {} tokens on {} ranks: all-reduces of one step\n", shape.model.layers,
               shape.model.d_model, shape.sequences, shape.length, ranks);
  const Account account = report_account(bench, shape, ranks, Variant::sequential, true);
  report_account(bench, shape, ranks, Variant::sequence, true);
  const double compute = step_seconds(run_once(bench.run_options(ranks), shape, Variant::compute));
  const std::array<double, 4> predicted = {std::nan(""), compute + account.predicted, std::nan(""), std::nan("")};
  std::vector<Contender> contenders;
  for (std::size_t v = 0; v < predicted.size(); ++v)
    contenders.push_back(contender(shape, static_cast<Variant>(v), predicted[v]));
  bench.add(fmt::format("d_model {}/{} ranks", shape.model.d_model, ranks), bench.run_options(ranks), contenders,
            [=](const std::vector<Measurement>& group, std::size_t i, Row& row) {
              const double alone = group[0].seconds.value, all = group[i].seconds.value;
              row.set("pass", "step").set("place", "everything").set("d_model", shape.model.d_model);
              row.set("compute_seconds", alone).set("exposed_seconds", all - alone);
              row.set("communication_share", i == 0 ? 0.0 : (all - alone) / all);
            });
}

/// Megatron-LM's iteration times on A100 (weak scaling, batch 16): 1, 2, 4 and 8 GPUs.
struct Published {
  int gpus;
  GptConfig model;
  double seconds;
};

void compare_with_published(Bench& bench) {
  const auto model = [](std::size_t layers, std::size_t heads, std::size_t d_model) {
    return GptConfig{.layers = layers,
                     .heads = heads,
                     .d_model = d_model,
                     .vocabulary = 51200,
                     .context = 1024,
                     .storage = DType::f16};
  };
  const std::array<Published, 4> all = {{{1, model(24, 15, 1920), 1.076},
                                         {2, model(30, 18, 2304), 1.026},
                                         {4, model(36, 24, 3072), 1.162},
                                         {8, model(42, 32, 4096), 1.343}}};
  double slower = 1;  // than the machine file says arithmetic is: fitted on one GPU, where nothing communicates
  for (const Published& published : all) {
    RunOptions options = bench.run_options(published.gpus);
    options.phantom = true;
    for (double& peak : options.machine.peak_flop_per_second) peak /= slower;
    options.machine.memory_bytes_per_second /= slower;
    StepShape shape{published.model, 16, 1024};
    const double seconds = step_seconds(run_once(options, shape, Variant::sequential));
    if (published.gpus == 1) slower = published.seconds / seconds;
    const double predicted = published.gpus == 1 ? published.seconds : seconds;
    Row row;
    row.set("pass", "published").set("place", "iteration").set("ranks", published.gpus);
    row.set("machine", options.machine.name).set("d_model", published.model.d_model);
    row.set("published_seconds", published.seconds).set("predicted_seconds", predicted);
    row.set("relative_error", predicted / published.seconds - 1).set("fitted", published.gpus == 1);
    bench.report(row);
    if (is_judge())
      fmt::print("  {} GPU{}  d_model {:>4}  published {:>7}  predicted {:>7}  {}\n", published.gpus,
                 published.gpus == 1 ? " " : "s", published.model.d_model, format_seconds(published.seconds),
                 format_seconds(predicted),
                 published.gpus == 1 ? fmt::format("fitted: arithmetic takes {:.2f} × the machine file's time", slower)
                                     : fmt::format("{:+.1f} %", 100 * (predicted / published.seconds - 1)));
  }
}

void measure_tp(Bench& bench, const TpProgramOptions& o) {
  check_sizes(o);
  if (o.published) {
    if (std::string_view(backend_name()) != "sim")
      throw Error(Verdict::usage, "--published compares the simulator with published times: leave out --backend");
    compare_with_published(bench);
  }
  for (int ranks : bench.ranks())
    for (const std::string& d_model : o.d_model)
      if (!o.published) add_steps(bench, shape_of(o, whole_number(d_model, "--d-model"), ranks), ranks);
  bench.run();
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep;
  bench::TpProgramOptions o;
  auto declare = [&](CommandLine& line) {
    line.add("--layers", o.layers, "of the model");
    line.add("--heads", o.heads, "of the model; the ranks divide them");
    line.add("--d-model", o.d_model, "channels; several with commas");
    line.add("--vocabulary", o.vocabulary, "tokens; padded where the ranks do not divide it");
    line.add("--batch", o.batch, "sequences, on all ranks the same");
    line.add("--sequence", o.sequence, "tokens of each");
    line.add("--dtype", o.dtype, "fp32, bf16 or fp16");
    line.add("--published", o.published, "instead: Megatron's iteration times on 1, 2, 4 and 8 A100, fitted on 1");
  };
  return bench::bench_main("tp", "Tensor parallelism: its collectives, from the ledger, and a step's time.", argc, argv,
                           declare, [&](bench::Bench& bench) { bench::measure_tp(bench, o); });
}
