// Strong and weak scaling of the data-parallel step, and the laws behind it. T(1) is the serial step: one rank, no DDP.
//
//   ./lab bench scaling --machine pcie-box-10gbe --ranks 1,2,4,8 --model gpt2-124m --phantom
//   ./lab bench scaling --backend mpi --ranks 1,2
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/programs/ddp_step.hpp"
#include "bench/support/bench.hpp"
#include "common/support/host/host.hpp"
#include "common/support/text/numbers.hpp"
#include "common/support/text/units.hpp"
#include "labs/week21_data_parallel/cost_model.hpp"
#include "labs/week21_data_parallel/scaling_laws.hpp"
#include "tools/scale/law.hpp"

namespace lockstep::bench {
namespace {

/// Measurements so far, by kind of scaling.
struct Curve {
  double serial_seconds = std::nan("");
  std::vector<week21::Measurement> points;  // for p ≥ 2 ranks with a core each: T(p) / the T(1) measured with it
};

/// --batch is the sequences of all ranks (strong), or per rank (weak).
DdpShape shape_of(const ModelOptions& o, bool strong, int ranks) {
  StepShape shape = o.shape();
  if (!strong) shape.sequences *= static_cast<std::size_t>(ranks);
  return ddp_shape(shape);
}

void describe(Row& row, const Curve& curve, bool strong, int ranks, double seconds, bool cores) {
  const double none = std::nan("");
  const double speedup = cores ? week21::speedup(curve.serial_seconds, seconds) * (strong ? 1 : ranks) : none;
  row.set("serial_seconds", curve.serial_seconds).set("speedup", speedup);
  row.set("efficiency", !cores   ? none
                        : strong ? week21::efficiency(curve.serial_seconds, seconds, ranks)
                                 : week21::weak_efficiency(curve.serial_seconds, seconds));
  row.set("karp_flatt", cores && strong && ranks > 1 ? week21::karp_flatt(speedup, ranks) : none);
  row.set("fits_cores", cores);
}

/// Measures T(1) in turns with T(p): rank 0 alone takes the serial step while the others wait, so that anything that
/// slows down this computer affects both.
Contender serial_contender(const DdpShape& shape, const SerialStep& serial) {
  auto prepare = [shape](Rank me, Purpose purpose) -> Prepared {
    const Rank alone = me.split(me.rank() == 0 ? 0 : -1, 0);
    if (me.rank() != 0) return {.act = [] {}, .right = {}};
    return prepare_step(alone, shape, Variant::compute, purpose);
  };
  return {.name = "serial", .prepare = prepare, .predicted_seconds = serial.seconds};
}

void add_point(Bench& bench, const ModelOptions& o, bool strong, int ranks, std::shared_ptr<Curve> curve) {
  const DdpShape shape = shape_of(o, strong, ranks);
  const RunOptions options = bench.run_options(ranks);
  const LinkPrices prices = bench.prices(ranks);
  const SerialStep serial = profile_serial_step(options, shape, ranks);
  const Variant variant = ranks == 1 ? Variant::compute : Variant::overlapped;
  const std::size_t parameters = shape.model.parameters(), bytes = parameters * bytes_of(shape.model.storage);
  const std::string label = fmt::format("{}/{} ranks", strong ? "strong" : "weak", ranks);
  std::vector<Contender> contenders = step_contenders({variant}, shape, serial, prices, options);
  const bool real_time = !time_is_virtual();
  if (real_time && ranks > 1) {
    const DdpShape one = shape_of(o, strong, 1);
    contenders.push_back(serial_contender(one, profile_serial_step(options, one, 1)));
  }
  bench.add(label, options, contenders, [=](const std::vector<Measurement>& group, std::size_t i, Row& row) {
    const double seconds = group[i].seconds.value;
    const bool is_serial = ranks == 1 || group[i].contender == "serial";
    if (is_serial)
      curve->serial_seconds = seconds;
    else if (group.size() > 1)
      curve->serial_seconds = group[1].seconds.value;
    const bool cores = has_cores(options);
    if (cores && !is_serial) curve->points.push_back({ranks, seconds / curve->serial_seconds});
    const auto bandwidth = week21::bandwidth(ranks, static_cast<double>(bytes), seconds);
    row.set("scaling", strong ? "strong" : "weak");
    row.set("model", o.model).set("parameters", parameters).set("bytes", bytes);
    row.set("tokens_per_rank", static_cast<double>(shape.tokens()) / (is_serial && strong ? 1 : ranks));
    if (is_serial) row.set("ranks", 1);
    describe(row, *curve, strong, is_serial ? 1 : ranks, seconds, cores);
    row.set("algbw_gb_per_s", bandwidth.algorithm / 1e9).set("busbw_gb_per_s", bandwidth.bus / 1e9);
  });
}

/// Reports the law of one curve, in the context and on the terminal; if it does not fit, the reason.
void fit(Bench& bench, const std::string& law, const Curve& curve, bool weak) {
  const scaling::LawFit fit = scaling::fit_law(weak, 1, curve.points);
  say("{}\n", fit.sentence);
  if (!std::isfinite(fit.fraction.value)) {
    bench.about().set(law + "_note", fit.sentence);
    return;
  }
  bench.about().set(law + "_serial_fraction", fit.fraction.value);
  bench.about().set(law + "_serial_fraction_low", fit.fraction.low);
  bench.about().set(law + "_serial_fraction_high", fit.fraction.high);
  if (!weak) bench.about().set(law + "_parallel_fraction", 1 - fit.fraction.value);
}

void measure_scaling(Bench& bench, const ModelOptions& o) {
  std::vector<int> ranks = bench.ranks();
  ranks.push_back(1);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  if (o.sequence < 0 || o.batch < ranks.back())
    throw Error(Verdict::usage,
                fmt::format("--batch {}: needs at least one sequence for each of {} ranks", o.batch, ranks.back()));
  auto strong = std::make_shared<Curve>(), weak = std::make_shared<Curve>();
  for (int p : ranks) add_point(bench, o, true, p, strong);
  for (int p : ranks) add_point(bench, o, false, p, weak);
  bench.run([&](const std::vector<Row>&) {
    fit(bench, "amdahl", *strong, false);
    fit(bench, "gustafson", *weak, true);
  });
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep;
  bench::ModelOptions o{.batch = 16};
  auto declare = [&](CommandLine& line) {
    o.declare(line, "sequences: in total for strong scaling, per rank for weak scaling");
  };
  return bench::bench_main("scaling", "Strong and weak scaling of the data-parallel step.", argc, argv, declare,
                           [&](bench::Bench& bench) { bench::measure_scaling(bench, o); });
}
