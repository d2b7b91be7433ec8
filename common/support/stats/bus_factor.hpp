// From a collective's own bandwidth to that of its busiest link.
#pragma once

#include <string_view>

namespace lockstep {

/// busbw / algbw of a collective of `ranks` ≥ 1, as nccl-tests defines it (doc/PERFORMANCE.md): 2(p − 1)/p for an
/// all_reduce, (p − 1)/p for an all_gather, a reduce_scatter and an all_to_all, 1 for every other one.
inline double bus_factor(std::string_view collective, int ranks) {
  const double p = ranks, of_others = (p - 1) / p;
  if (collective == "all_reduce") return 2 * of_others;
  if (collective == "all_gather" || collective == "reduce_scatter" || collective == "all_to_all") return of_others;
  return 1;
}

}  // namespace lockstep
