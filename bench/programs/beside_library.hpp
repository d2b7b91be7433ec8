// Compares an all-reduce on MPI with the libraries' own and with a plain copy, all measured in turns.
#pragma once

#include <vector>

#include "bench/support/measure.hpp"
#include "common/arithmetic.hpp"
#include "common/support/json/results.hpp"

namespace lockstep::bench {

/// A baseline: every rank copies so many elements, all at once.
inline Contender copying(const char* name, std::size_t elements) {
  return {.name = name,
          .prepare = [=](Rank me, Purpose) -> Prepared {
            Slice from = me.allocate(elements, DType::f32, Category::buffer);
            Slice to = me.allocate(elements, DType::f32, Category::buffer);
            fill(me, from, 1);
            return {.act = [=] { copy(me, to, from); }, .right = {}};
          },
          .counted = false};
}

/// Adds comparisons to the row of contender `i`: its speed relative to the baseline, which is the last of the group,
/// and relative to each library (a contender that the ledgers do not count). Uses the median of the quotients of each
/// turn, so that disturbances of both cancel; for a library that took no turns, the quotient of the medians.
inline void set_comparisons(Row& row, const std::vector<Measurement>& group, std::size_t i) {
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

}  // namespace lockstep::bench
