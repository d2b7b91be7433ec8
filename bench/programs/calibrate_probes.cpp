#include "bench/programs/calibrate_probes.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <span>

#include "bench/programs/calibrate_operations.hpp"
#include "bench/support/link_acts.hpp"
#include "bench/support/measure.hpp"
#include "common/arithmetic.hpp"
#include "common/runtime/dry_run/dry_run.hpp"
#include "common/support/host/host.hpp"

namespace lockstep::bench {
namespace {

constexpr int kRepeats = 4;  // acts per sample
constexpr std::size_t kFewestPasses = 3;
constexpr double kBudgetSeconds = 25;                 // for all passes through messages, and for all through products
constexpr double kLongFlop = 1e8;                     // a longer product is a sample of its own
constexpr std::size_t kCold = std::size_t{16} << 20;  // elements; no cache holds them
constexpr std::size_t kMessages[] = {1, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576};  // elements
constexpr std::size_t kCopies[] = {64, 1024, 8192, 65536, 262144, 1048576, 4194304};
constexpr std::size_t kLargeOnGpu[] = {16777216, 67108864};  // 4 MiB take a GPU less time than a message needs to start

bool has_tables() { return on_mpi(); }  // a link is a line in the simulator, and a GPU's

/// These sizes in elements, ascending, and on a GPU larger ones.
std::vector<std::size_t> sizes_of_line(std::span<const std::size_t> small) {
  std::vector<std::size_t> sizes(small.begin(), small.end());
  if (on_gpu()) sizes.insert(sizes.end(), std::begin(kLargeOnGpu), std::end(kLargeOnGpu));
  return sizes;
}

std::vector<Reading> of_sizes(const std::vector<std::size_t>& elements) {
  std::vector<Reading> readings;
  for (const std::size_t n : elements) readings.push_back({.bytes = 4.0 * static_cast<double>(n)});
  return readings;
}

Values time_product(Rank me, const Tokens& tokens, const Reading& shape) {
  const Slice a = filled(me, shape.m * shape.k, shape.dtype), b = filled(me, shape.k * shape.n, shape.dtype),
              c = filled(me, shape.m * shape.n, shape.dtype);
  const auto act = [&] {
    matmul(me, matrix(c, shape.m, shape.n), matrix(a, shape.m, shape.k), matrix(b, shape.k, shape.n));
  };
  return timed_samples(me, tokens, act, shape.flop() < kLongFlop ? kRepeats : 1);
}

/// Times all points of a kind in turn, on all ranks at once.
class Pass {
 public:
  explicit Pass(Rank me) : me_(me), acts_(me, has_tables() ? kCold : sizes_of_line(kCopies).back()) {}

  Values links(const Readings& plan) {
    for (const Reading& point : plan.messages) add(acts_.samples(acts_.exchanges(elements_of(point))));
    for (const Reading& point : plan.one_way) add(acts_.samples(acts_.there_and_back(elements_of(point))), 2);
    for (const Reading& point : plan.additions) add_local(point, acts_.additions(elements_of(point)));
    for (const Reading& point : plan.copies) add_local(point, acts_.copies(elements_of(point)));
    for (const Reading& point : plan.cold_messages) add(acts_.samples(acts_.cold_exchanges(elements_of(point))));
    for (const Reading& point : plan.cold_additions) add_local(point, acts_.cold_additions(elements_of(point)));
    for (const Reading& point : plan.footprints) add_within(elements_of(point));
    return samples_;
  }
  Values arithmetic(const Readings& plan) {
    for (const auto* products : {&plan.squares, &plan.halves, &plan.others, &plan.grid})
      for (const Reading& shape : *products) add(time_product(me_, acts_.tokens(), shape));
    if (!plan.operations.empty())
      for (const NamedAct& operation : calibrated_operations(me_))
        add(timed_samples(me_, acts_.tokens(), operation.act, kRepeats));
    return samples_;
  }

 private:
  static std::size_t elements_of(const Reading& point) { return static_cast<std::size_t>(point.bytes) / 4; }
  void add(const Values& samples, double acts = 1) {
    for (const double seconds : samples) samples_.push_back(seconds / acts);
  }
  /// Each sample goes once through the whole footprint.
  void add_within(std::size_t footprint) {
    const auto part = static_cast<std::size_t>(kFootprintPart) / 4;
    add(acts_.samples(acts_.additions_within(part, footprint), static_cast<int>(footprint / part)));
  }
  void add_local(const Reading& point, const Timed& act) { add(acts_.samples(act, LinkActs::repeats_of(point.bytes))); }

  Rank me_;
  LinkActs acts_;
  Values samples_;
};

/// Returns the operations of calibrated_operations() with their FLOP, which are their seconds on a machine with one
/// FLOP per second and no other costs.
std::vector<Reading> planned_operations() {
  Machine counting = Machine::uniform(0, 0, 0);
  counting.peak_flop_per_second.fill(1);
  counting.memory_bytes_per_second = std::numeric_limits<double>::infinity();
  std::vector<Reading> readings;
  DryRun dry_run(counting);
  for (const NamedAct& operation : calibrated_operations(dry_run.rank())) {
    const double before = dry_run.seconds();
    operation.act();
    readings.push_back({.operation = operation.name, .work = dry_run.seconds() - before});
  }
  return readings;
}

using Points = std::vector<Reading*>;

/// Returns the points in the order of a pass.
Points points_of_links(Readings& readings) {
  Points points;
  for (auto* of_kind : {&readings.messages, &readings.one_way, &readings.additions, &readings.copies,
                        &readings.cold_messages, &readings.cold_additions, &readings.footprints})
    for (Reading& reading : *of_kind) points.push_back(&reading);
  return points;
}
Points points_of_arithmetic(Readings& readings) {
  Points points;
  for (auto* of_kind : {&readings.squares, &readings.halves, &readings.others, &readings.grid, &readings.operations})
    for (Reading& reading : *of_kind) points.push_back(&reading);
  return points;
}

/// Makes passes through the points that one call of `times` measures, until all points agree, `most` passes have been
/// made, or the time is over. If a point is the `probe`, only passes count in which it is near its usual value. Returns
/// the number of passes that count.
int take_passes(const RunOptions& options, const Points& points, int most, const Reading* probe,
                const std::function<Values(Rank)>& times) {
  std::vector<std::vector<double>> passes(points.size());
  std::vector<std::size_t> counted;
  const auto probe_at = static_cast<std::size_t>(std::find(points.begin(), points.end(), probe) - points.begin());
  const auto agree = [&] {
    counted.resize(passes[0].size());
    std::iota(counted.begin(), counted.end(), std::size_t{0});
    if (probe) counted = passes_of_one_state(passes[probe_at]);
    for (std::size_t i = 0; i < points.size(); ++i) {
      std::vector<double> of_point;
      for (const std::size_t pass : counted) of_point.push_back(passes[i][pass]);
      points[i]->set_passes(of_point);
    }
    return counted.size() >= kFewestPasses &&
           std::all_of(points.begin(), points.end(), [](const Reading* point) { return point->agrees(); });
  };
  double elapsed = 0;
  for (int pass = 1; pass <= most; ++pass) {
    const Outcome outcome = run(options, [&](Rank me) {
      const double begin = me.now();
      Values seconds = times(me);
      seconds.push_back(me.now() - begin);
      return seconds;
    });
    outcome.check();
    for (std::size_t i = 0; i < points.size(); ++i) passes[i].push_back(median_of_slowest(outcome, i * kLinkSamples));
    elapsed += outcome.values[0].back();
    if (agree() || (elapsed > kBudgetSeconds && counted.size() >= kFewestPasses)) break;
  }
  return static_cast<int>(counted.size());
}

}  // namespace

Readings planned_readings() {
  Readings plan;
  if (has_tables()) {
    std::vector<std::size_t> sizes{1, 16, 64};
    for (std::size_t n = 128; n <= kCold / 4; n *= 2) sizes.push_back(n);
    plan.messages = plan.additions = plan.cold_messages = plan.cold_additions = of_sizes(sizes);
    for (std::size_t n = 2 * static_cast<std::size_t>(kFootprintPart) / 4; n <= kCold; n *= 2)
      plan.footprints.push_back({.bytes = 4.0 * static_cast<double>(n)});
    for (std::size_t m : {1, 8, 32, 128, 512})
      for (std::size_t side : {16, 64, 192, 512, 1024}) plan.grid.push_back({.m = m, .n = side, .k = side});
    plan.operations = planned_operations();
  } else {
    plan.messages = of_sizes(sizes_of_line(kMessages));
    plan.additions = of_sizes(sizes_of_line(kCopies));
  }
  plan.one_way = plan.messages;
  plan.copies = of_sizes(sizes_of_line(kCopies));
  if (on_gpu()) plan.longest = plan.copies.back().bytes;
  const std::size_t largest = on_gpu() ? 8192 : 1024;
  for (std::size_t n = 16; n <= largest; n *= 2) plan.squares.push_back({.m = n, .n = n, .k = n});
  for (DType dtype : {DType::bf16, DType::f16})
    plan.halves.push_back({.m = largest, .n = largest, .k = largest, .dtype = dtype});
  plan.others = {{.m = 64, .n = 1024, .k = 256},
                 {.m = 256, .n = 64, .k = 256},
                 {.m = 512, .n = 2048, .k = 128},
                 {.m = 32, .n = 1024, .k = 1024},
                 {.m = 1024, .n = 256, .k = 64}};
  return plan;
}

Readings measured_readings(const RunOptions& options, int most) {
  Readings readings = planned_readings();
  const double cache = read_host().last_cache_bytes;
  if (has_tables()) readings.cache_bytes = (cache > 0 ? cache : 32e6) / options.ranks;
  const int passes = time_is_virtual() ? 1 : most;
  const auto probe = std::find_if(readings.messages.begin(), readings.messages.end(),
                                  [](const Reading& message) { return message.bytes == Probes::kBytes; });
  // Separate from products, which heat the cores and so slow them down for a while.
  readings.passes = take_passes(options, points_of_links(readings), 2 * passes, &*probe,
                                [&](Rank me) { return Pass(me).links(readings); });
  take_passes(options, points_of_arithmetic(readings), passes, nullptr,
              [&](Rank me) { return Pass(me).arithmetic(readings); });
  return readings;
}

}  // namespace lockstep::bench
