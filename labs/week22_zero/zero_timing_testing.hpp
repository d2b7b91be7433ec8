// For the tests of 22.3 and 22.4: a phantom model of equal layers, priced so that a layer's forward pass takes a little
// longer than gathering it, and its backward pass longer than gathering and reducing it. How much of that shows?
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>

#include "common/arithmetic.hpp"
#include "common/chunk.hpp"
#include "common/testing/cases.hpp"
#include "labs/week21_data_parallel/ring_all_reduce.hpp"
#include "labs/week22_zero/usage_order.hpp"

namespace lockstep::week22 {

using testing::Case;

inline constexpr std::size_t kTimedLayers = 8;
inline constexpr std::size_t kTimedElements = std::size_t{1} << 18;  // of a layer, which is a unit and a piece
inline constexpr std::size_t kTimedSide = 512;                       // of the matrices that stand for its work

/// A rank's measurements, in virtual seconds.
struct Timed {
  double waiting = 0;        // of main
  double communication = 0;  // with messages in flight, summed over the queues
  double seconds = 0;
};

class TimedModel {
 public:
  explicit TimedModel(Rank me) : me_(me), work_(me.allocate(3 * kArea, DType::f32, Category::activation)) {
    for (std::size_t i = 0; i < kTimedLayers; ++i)
      table_.push_back({"layer" + std::to_string(i), i * kTimedElements, kTimedElements, 1, kTimedElements});
  }

  const std::vector<Parameter>& table() const { return table_; }
  Parameters parameters() {
    return {table_, me_.allocate(kTimedLayers * kTimedElements, DType::f32, Category::parameter), {}};
  }
  std::vector<Unit> units() const {
    std::vector<Unit> units;
    for (std::size_t i = 0; i < kTimedLayers; ++i) units.push_back(make_unit(table_, i, 1));
    return units;
  }
  static UsageOrder usage_order() {
    UsageOrder usage_order;
    for (std::size_t i = 0; i < kTimedLayers; ++i) usage_order.push_back({i});
    return usage_order;
  }

  /// The arithmetic of one layer, `times` forward passes long.
  void work(int times) {
    const auto side = [&](std::size_t k) { return matrix(work_.cut(k * kArea, kArea), kTimedSide, kTimedSide); };
    for (int i = 0; i < times; ++i) matmul(me_, side(0), side(1), side(2));
  }

  Values measure(const std::function<void()>& passes) {
    week21::ring_all_reduce(me_, work_.cut(0, 1));  // a broadcast leaves the ranks at different times
    const double began = me_.now(), waited = ledger_of(me_).queues[0].waiting, before = communication();
    passes();
    return {ledger_of(me_).queues[0].waiting - waited, communication() - before, me_.now() - began};
  }

 private:
  static constexpr std::size_t kArea = kTimedSide * kTimedSide;

  double communication() const {
    double total = 0;
    for (const QueueTime& queue : ledger_of(me_).queues) total += queue.transferring;
    return total;
  }

  Rank me_;
  Slice work_;
  std::vector<Parameter> table_;
};

/// Says if more than `exposed` of `all` equally long gatherings and reductions shows, and `more` of another: the
/// arithmetic that follows it, or what an order of messages other than the ring's takes longer. "" if no more did.
inline std::string too_much_shows(const Timed& t, std::size_t exposed, std::size_t all, double more = 0.05) {
  const double one = t.communication / static_cast<double>(all);
  if (t.waiting <= (static_cast<double>(exposed) + more) * one) return "";
  return fmt::format(
      "{:.2f} ms of communication, and main waited for {:.2f} ms of it: {} of {} gathers and reductions should show, "
      "{:.2f} ms. Is each started before main continues with its work, and waited for as late as possible?",
      t.communication * 1e3, t.waiting * 1e3, exposed, all, static_cast<double>(exposed) * one * 1e3);
}

/// Seconds in regions "reduce_scatter" on all queues, and of the arithmetic and messages that one unit of TimedModel
/// needs: a reduce-scatter, and for the scratches that an answer may use, six times arithmetic on one rank's chunk.
struct ReductionTime {
  double seen = 0, allowed = 0;
};
inline ReductionTime reduction_time(Rank me) {
  ReductionTime time;
  for (const RegionTotal& region : ledger_of(me).regions)
    if (region.name == "reduce_scatter") time.seen += region.seconds;
  Slice whole = me.allocate(kTimedElements, DType::f32, Category::buffer);
  const double began = me.now();
  week21::ring_reduce_scatter(me, whole);
  for (int i = 0; i < 6; ++i) scale(me, chunk(whole, me.rank(), me.size()), 1);
  time.allowed = me.now() - began;
  return time;
}

/// Runs `reduce_units`, which reduces every unit of TimedModel in one pass on main, where arithmetic costs as much as
/// sending: a rank averages its own chunk alone.
inline void averages_its_own_chunk_alone(const std::function<void(Rank)>& reduce_units,
                                         Location where = Location::current()) {
  testing::CasePlan plan{.ranks = {8}, .sizes = testing::sizes_of({kTimedLayers}), .unit = "layer"};
  plan.simulator_only = "the time of a reduction is measured in virtual time";
  plan.adjust = [](const Case&, RunOptions& options) {
    options.phantom = true;
    options.perturb.reset();
    options.machine = Machine::uniform(1e-6, 1e-9, 1e-9);
  };
  testing::run_cases(
      [&](Rank me, const Case&) {
        reduce_units(me);
        const ReductionTime time = reduction_time(me);
        return Values{time.seen / static_cast<double>(kTimedLayers), time.allowed};
      },
      [](const Case& c, const Outcome& outcome) -> std::string {
        for (int rank = 0; rank < c.ranks; ++rank)
          if (const Values& seen = outcome.values[rank]; seen[0] > seen[1])
            return fmt::format(
                "rank {}: reducing a unit takes {:.3f} ms. The reduce-scatter and six times the arithmetic on this "
                "rank's chunk take only {:.3f} ms. Is more than that chunk averaged? The other chunks hold partial "
                "sums that are not needed",
                rank, seen[0] * 1e3, seen[1] * 1e3);
        return "";
      },
      plan, where);
}

/// Runs a measurement on 2, 4 and 8 ranks; `judge` describes the mistake in one rank's.
inline void run_timed(const testing::CaseProgram& program,
                      const std::function<std::string(const Case&, const Timed&)>& judge,
                      Location where = Location::current()) {
  testing::CasePlan plan{.ranks = {2, 4, 8}, .sizes = testing::sizes_of({kTimedLayers}), .unit = "layer"};
  plan.simulator_only = "overlap is measured in virtual time";
  plan.adjust = [](const Case& c, RunOptions& options) {
    constexpr double kFlop = 2.0 * kTimedSide * kTimedSide * kTimedSide;
    const double gather = (c.ranks - 1) * (1e-6 + kTimedElements * 4.0 / c.ranks * 1e-9);
    options.phantom = true;
    options.perturb.reset();  // its delays would be measured
    options.machine = Machine::uniform(1e-6, 1e-9, 1e-12);
    options.machine.peak_flop_per_second.fill(kFlop / (1.25 * gather));
  };
  testing::run_cases(
      program,
      [&](const Case& c, const Outcome& outcome) -> std::string {
        for (int rank = 0; rank < c.ranks; ++rank) {
          const Values& seen = outcome.values[rank];
          const std::string wrong = judge(c, {seen[0], seen[1], seen[2]});
          if (!wrong.empty()) return fmt::format("rank {}: {}", rank, wrong);
        }
        return "";
      },
      plan, where);
}

}  // namespace lockstep::week22
