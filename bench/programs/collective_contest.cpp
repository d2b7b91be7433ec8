#include "bench/programs/collective_contest.hpp"

#include <fmt/format.h>

#include "common/arithmetic.hpp"
#include "common/runtime/machine/library.hpp"
#include "common/support/stats/bus_factor.hpp"
#include "common/support/text/numbers.hpp"
#include "common/support/text/units.hpp"

namespace lockstep::bench {
namespace {

/// A baseline: every rank copies so many elements, all at once.
Contender copying(const char* name, std::size_t elements) {
  return {.name = name,
          .prepare = [=](Rank me, Purpose) -> Prepared {
            Slice from = me.allocate(elements, DType::f32, Category::buffer);
            Slice to = me.allocate(elements, DType::f32, Category::buffer);
            fill(me, from, 1);
            return {.act = [=] { copy(me, to, from); }, .right = {}};
          },
          .counted = false};
}

/// Adds the speed of contender `i` relative to the baseline, which is the last of the group, and to each library (a
/// contender that the ledgers do not count). Uses the median of the quotients of each turn, so that disturbances of
/// both cancel; for a library that took no turns, the quotient of the medians.
void set_comparisons(Row& row, const std::vector<Measurement>& group, std::size_t i) {
  if (i + 1 == group.size()) return;
  row.set("fraction_of_copy_bound", group.back().seconds.value / group[i].seconds.value);
  for (std::size_t library = 0; library + 1 < group.size(); ++library) {
    if (group[library].counted) continue;
    const std::string field = "times_" + group[library].contender;
    if (group[library].apart != group[i].apart) {
      const Median &other = group[library].seconds, &ours = group[i].seconds;
      row.set(field, other.value / ours.value);
      row.set(field + "_low", other.low / ours.high).set(field + "_high", other.high / ours.low);
      continue;
    }
    std::vector<double> quotients;
    for (std::size_t turn = 0; turn < group[library].samples.size(); ++turn)
      quotients.push_back(group[library].samples[turn] / group[i].samples[turn]);
    const Median times = median(quotients);
    row.set(field, times.value).set(field + "_low", times.low).set(field + "_high", times.high);
  }
}

Contender contender_of(Collective collective, const CollectiveAlgorithm& algorithm, int ranks, std::size_t elements,
                       const std::shared_ptr<const Machine>& machine) {
  Contender contender{
      .name = algorithm.name,
      .prepare = [=](Rank me,
                     Purpose purpose) { return prepare_collective(me, purpose, collective, algorithm, elements); },
      .counted = algorithm.counted};
  if (algorithm.apart) contender.apart = [=](Rank me, const Plan& plan) { return algorithm.apart(me, elements, plan); };
  if (algorithm.seconds)
    contender.predict = [=, seconds = algorithm.seconds](const LinkPrices& links) {
      return seconds({links, machine}, ranks, 4.0 * static_cast<double>(elements));
    };
  return contender;
}

}  // namespace

void add_contest(Bench& bench, Collective collective, const std::vector<CollectiveAlgorithm>& algorithms, int ranks,
                 std::size_t elements, const Bench::Finish& finish) {
  const RunOptions options = bench.run_options(ranks);
  const bool of_processes = on_own_cores(options), sums = collective == Collective::all_reduce;
  std::vector<Contender> contenders;
  for (const CollectiveAlgorithm& algorithm : algorithms)
    contenders.push_back(contender_of(collective, algorithm, ranks, elements, bench.machine_of_links(options)));
  if (shares_memory() && sums) contenders.push_back(copying("device_copy", elements));
  if (of_processes) {
    const double copied = static_cast<double>(elements) * bus_factor(name_of(collective), ranks);
    contenders.push_back(copying("memory_copy", static_cast<std::size_t>(copied)));
  }
  bench.add(fmt::format("{}{} ranks/{}", sums ? "" : std::string(name_of(collective)) + "/", ranks,
                        format_bytes(4.0 * static_cast<double>(elements))),
            options, contenders, [=](const std::vector<Measurement>& group, std::size_t i, Row& row) {
              finish(group, i, row);
              if (of_processes) set_comparisons(row, group, i);
              if (group[i].apart) row.set("waiting_cpu_share", group[i].waiting_cpu_share);
            });
}

std::size_t elements_of(Collective collective, std::uint64_t bytes, int ranks) {
  const std::size_t elements = f32_elements(bytes), p = static_cast<std::size_t>(ranks);
  if (collective == Collective::all_reduce) return elements;
  if (elements < p)
    throw Error(Verdict::usage, fmt::format("--bytes {}: {} ranks need an element of 4 bytes each", bytes, ranks));
  return elements / p * p;
}

NcclTable nccl_table(const Bench& bench, Collective collective, int ranks, const std::vector<std::uint64_t>& sizes) {
  const bool floor = collective == Collective::all_to_all;
  NcclTable table{name_of(collective), ranks, bench.run_options(ranks).machine, floor};
  const auto price = [&](double bytes) {
    if (floor) return all_to_all_floor_seconds(table.machine, ranks, bytes);
    if (collective == Collective::all_reduce) return library_all_reduce_seconds(table.machine, ranks, bytes);
    return library_gather_seconds(table.machine, ranks, bytes);
  };
  for (const std::uint64_t size : sizes) {
    const std::uint64_t bytes = 4 * elements_of(collective, size, ranks);
    table.lines.push_back({bytes, price(static_cast<double>(bytes))});
  }
  return table;
}

}  // namespace lockstep::bench
