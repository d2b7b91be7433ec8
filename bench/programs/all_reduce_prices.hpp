// Costs of all-reduces by 21.5's formulas, with the prices near their messages' sizes. Without tables
// (docs/use/machines.md) prices do not depend on the size.
#pragma once

#include "bench/programs/pipelined_all_reduce.hpp"
#include "bench/support/links.hpp"
#include "labs/week21_data_parallel/cost_model.hpp"
#include "labs/week21_data_parallel/halving_doubling.hpp"

namespace lockstep::bench {

/// α, β, γ and launch near messages of one size.
inline week21::CostModel cost_of(const LinkPrices& prices) {
  return {prices.alpha, prices.beta, prices.gamma, prices.launch};
}

/// 21.5's formulas, with the prices near their messages' sizes.
inline double naive_seconds(const LinkPrices& prices, int ranks, double bytes) {
  return week21::naive_all_reduce_seconds(cost_of(prices.one_way_at(bytes)), ranks, bytes);
}
inline double ring_seconds(const LinkPrices& prices, int ranks, double bytes) {
  return week21::ring_all_reduce_seconds(cost_of(prices.at(bytes / ranks)), ranks, bytes);
}
/// Tables are measured between processes, where the core that adds also copies the messages: additions cannot be hidden
/// behind messages.
inline double pipelined_seconds(const LinkPrices& prices, int ranks, double bytes) {
  const double segment = pipelined_segment_bytes(ranks, bytes);
  if (prices.tables.exchanges.empty()) return pipelined_all_reduce_seconds(cost_of(prices), ranks, bytes);
  const double segments = bytes / ranks / segment;
  const double whole = ring_seconds(prices, ranks, bytes), chunks = (ranks - 1) * segments;
  // A whole chunk of a ring is as warm as the table's message of its size. A segment is only as warm as the array.
  const double cold = prices.tables.cold_share(bytes);
  const week21::CostModel one = cost_of(prices.at(segment, cold, cold)), gather = cost_of(prices.at(bytes / ranks));
  if (segments <= 1) return whole;
  return chunks * (one.alpha + one.launch + segment * (one.beta + one.gamma)) +
         (ranks - 1) * (gather.alpha + bytes / ranks * gather.beta);
}

/// 21.3's formulas with tables: each step sends the whole array, or a part that halves each time.
inline double doubling_by_tables(const LinkPrices& prices, int ranks, double bytes) {
  return week21::recursive_doubling_seconds(cost_of(prices.at(bytes)), ranks, bytes);
}
inline double halving_by_tables(const LinkPrices& prices, int ranks, double bytes) {
  double seconds = 0, part = bytes;
  const int butterfly = week21::butterfly_ranks(ranks);
  for (int group = 2; group <= butterfly; group *= 2) {
    part /= 2;  // for two ranks 21.3 takes one step
    seconds += week21::rabenseifner_seconds(cost_of(prices.at(part)), 2, 2 * part);
  }
  const double spare = week21::recursive_doubling_seconds(cost_of(prices.at(bytes)), ranks, bytes) -
                       week21::recursive_doubling_seconds(cost_of(prices.at(bytes)), butterfly, bytes);
  return seconds + spare;
}

}  // namespace lockstep::bench
