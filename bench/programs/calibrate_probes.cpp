#include "bench/programs/calibrate_probes.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string_view>
#include <utility>

#include "bench/programs/calibrate_operations.hpp"
#include "bench/support/measure.hpp"
#include "common/arithmetic.hpp"
#include "common/runtime/dry_run/dry_run.hpp"
#include "common/support/host/host.hpp"

namespace lockstep::bench {
namespace {

constexpr int kSamples = 9;  // of a point in a pass
constexpr int kRepeats = 4;  // acts a sample
constexpr int kFewestPasses = 3;
constexpr double kLongBytes = 1 << 20;                // so does a message or an addition
constexpr double kBudgetSeconds = 45;                 // of all passes
constexpr double kLongFlop = 1e8;                     // such a product fills a sample alone
constexpr std::size_t kCold = std::size_t{16} << 20;  // elements that no cache holds
constexpr std::size_t kMessages[] = {1, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576};  // elements
constexpr std::size_t kCopies[] = {64, 1024, 8192, 65536, 262144, 1048576, 4194304};

bool has_tables() {
  return std::string_view(backend_name()) == "mpi";
}  // a link is a line in the simulator, and a GPU's

std::vector<Reading> of_sizes(const std::vector<std::size_t>& elements) {
  std::vector<Reading> readings;
  for (const std::size_t n : elements) readings.push_back({.bytes = 4.0 * static_cast<double>(n)});
  return readings;
}

/// What every rank sends and receives before a point, so that all begin it together.
struct Tokens {
  Slice sent, received;
};

/// Median seconds of an act on this rank. In virtual time one says all.
double median_seconds(Rank me, const Tokens& tokens, int repeats, const std::function<void()>& act) {
  std::vector<double> samples;
  barrier(me, tokens.sent, tokens.received);
  act();
  for (int sample = 0; sample < (simulated() ? 1 : kSamples); ++sample) {
    const double begin = me.now();
    for (int repeat = 0; repeat < repeats; ++repeat) act();
    samples.push_back((me.now() - begin) / repeats);
  }
  return median(samples).value;
}

Slice filled(Rank me, std::size_t elements, DType dtype = DType::f32) {
  Slice slice = me.allocate(elements, dtype, Category::buffer);
  fill(me, slice, 0);
  return slice;
}

/// Parts of a slice in turn, so that each is long out of the caches when its turn comes again.
class InTurn {
 public:
  InTurn(Slice whole, std::size_t elements) : whole_(std::move(whole)), elements_(elements) {}
  Slice next() {
    if (first_ + elements_ > whole_.size()) first_ = 0;
    first_ += elements_;
    return whole_.cut(first_ - elements_, elements_);
  }

 private:
  Slice whole_;
  std::size_t elements_, first_ = 0;
};

double time_product(Rank me, const Tokens& tokens, const Reading& shape) {
  const Slice a = filled(me, shape.m * shape.k, shape.dtype), b = filled(me, shape.k * shape.n, shape.dtype),
              c = filled(me, shape.m * shape.n, shape.dtype);
  return median_seconds(me, tokens, shape.flop() < kLongFlop ? kRepeats : 1, [&] {
    matmul(me, matrix(c, shape.m, shape.n), matrix(a, shape.m, shape.k), matrix(b, shape.k, shape.n));
  });
}

/// Every point in turn, on all ranks at once; messages between the first and the last rank, while the others wait.
class Pass {
 public:
  explicit Pass(Rank me)
      : me_(me),
        last_(me.size() - 1),
        peer_(last_ - me.rank()),
        talks_(me.rank() == 0 || me.rank() == last_),
        here_(filled(me, has_tables() ? kCold : kCopies[std::size(kCopies) - 1])),
        there_(filled(me, here_.size())),
        tokens_{filled(me, 2), filled(me, 2)} {}

  Values times(const Readings& plan) {
    for (const Reading& point : plan.messages) add_point(point, exchanges(elements_of(point)));
    for (const Reading& point : plan.one_way) add_point(point, there_and_back(elements_of(point)), 2);
    for (const Reading& point : plan.additions) add_point(point, additions(elements_of(point)));
    for (const Reading& point : plan.copies) {
      const std::size_t n = elements_of(point);
      add_point(point, [=, this] { copy(me_, there_.cut(0, n), here_.cut(0, n)); });
    }
    for (const Reading& point : plan.cold_messages) add_point(point, cold_exchanges(elements_of(point)));
    for (const Reading& point : plan.cold_additions) add_point(point, cold_additions(elements_of(point)));
    for (const auto* products : {&plan.squares, &plan.halves, &plan.others, &plan.grid})
      for (const Reading& shape : *products) seconds_.push_back(time_product(me_, tokens_, shape));
    if (!plan.operations.empty())
      for (const NamedAct& operation : calibrated_operations(me_))
        seconds_.push_back(median_seconds(me_, tokens_, kRepeats, operation.act));
    return seconds_;
  }

 private:
  using Act = std::function<void()>;
  static std::size_t elements_of(const Reading& point) { return static_cast<std::size_t>(point.bytes) / 4; }
  void add_point(const Reading& point, const Act& act, double acts = 1) {
    seconds_.push_back(median_seconds(me_, tokens_, point.bytes < kLongBytes ? kRepeats : 1, act) / acts);
  }

  /// What came last goes next, as in collectives: a slice that nobody wrote to meanwhile is still in its reader's
  /// cache.
  Act exchanges(std::size_t n) {
    return [this, from = here_.cut(0, n), to = there_.cut(0, n)]() mutable {
      if (talks_) me_.exchange({send(peer_, from), receive(peer_, to)});
      std::swap(from, to);
    };
  }
  /// What goes was long untouched; it arrives where the one before it did, as in a ring's first step.
  Act cold_exchanges(std::size_t n) {
    return [this, from = InTurn(here_, n), to = there_.cut(0, n)]() mutable {
      if (talks_) me_.exchange({send(peer_, from.next()), receive(peer_, to)});
    };
  }
  Act there_and_back(std::size_t n) {
    return [this, from = here_.cut(0, n), to = there_.cut(0, n)]() mutable {
      if (me_.rank() == 0) me_.exchange({send(peer_, from)});
      if (talks_) me_.exchange({receive(peer_, to)});
      if (me_.rank() == last_) me_.exchange({send(peer_, from)});
      std::swap(from, to);
    };
  }
  Act additions(std::size_t n) {
    return [this, y = here_.cut(0, n), x = there_.cut(0, n)] { add(me_, y, x); };
  }
  Act cold_additions(std::size_t n) {  // to what was long untouched, from what has just come
    return [this, y = InTurn(here_, n), x = there_.cut(0, n)]() mutable { add(me_, y.next(), x); };
  }

  Rank me_;
  int last_, peer_;
  bool talks_;
  Slice here_, there_;
  Tokens tokens_;
  Values seconds_;
};

/// What calibrated_operations() does, each with its FLOP: on a machine with one FLOP a second and nothing else to pay.
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

/// All points, in the order of a pass.
std::vector<Reading*> all_points(Readings& readings) {
  std::vector<Reading*> points;
  for (auto* of_kind : {&readings.messages, &readings.one_way, &readings.additions, &readings.copies,
                        &readings.cold_messages, &readings.cold_additions, &readings.squares, &readings.halves,
                        &readings.others, &readings.grid, &readings.operations})
    for (Reading& reading : *of_kind) points.push_back(&reading);
  return points;
}

}  // namespace

Readings planned_readings() {
  Readings plan;
  if (has_tables()) {
    std::vector<std::size_t> sizes{1, 16, 64};
    for (std::size_t n = 128; n <= kCold / 4; n *= 2) sizes.push_back(n);
    plan.messages = plan.additions = plan.cold_messages = plan.cold_additions = of_sizes(sizes);
    for (std::size_t m : {1, 8, 32, 128, 512})
      for (std::size_t side : {16, 64, 192, 512, 1024}) plan.grid.push_back({.m = m, .n = side, .k = side});
    plan.operations = planned_operations();
  } else {
    plan.messages = of_sizes({std::begin(kMessages), std::end(kMessages)});
    plan.additions = of_sizes({std::begin(kCopies), std::end(kCopies)});
  }
  plan.one_way = plan.messages;
  plan.copies = of_sizes({std::begin(kCopies), std::end(kCopies)});
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
  const std::vector<Reading*> points = all_points(readings);
  std::vector<std::vector<double>> passes(points.size());
  const auto agree = [&] {
    for (std::size_t i = 0; i < points.size(); ++i) points[i]->set_passes(passes[i]);
    return std::all_of(points.begin(), points.end(), [](const Reading* point) { return point->agrees(); });
  };
  double elapsed = 0;
  for (int pass = 1; pass <= (simulated() ? 1 : most); ++pass) {
    const Outcome outcome = run(options, [&](Rank me) {
      const double begin = me.now();
      Values seconds = Pass(me).times(readings);
      seconds.push_back(me.now() - begin);
      return seconds;
    });
    outcome.check();
    for (std::size_t i = 0; i < points.size(); ++i) {
      double slowest = 0;
      for (const Values& of_rank : outcome.values) slowest = std::max(slowest, of_rank[i]);
      passes[i].push_back(slowest);
    }
    readings.passes = pass;
    elapsed += outcome.values[0].back();
    const bool all = agree();
    if (pass >= kFewestPasses && (all || elapsed > kBudgetSeconds)) break;
  }
  return readings;
}

}  // namespace lockstep::bench
