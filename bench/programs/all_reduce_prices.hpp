// What all-reduces cost by 21.5's formulas, with prices that hold around messages as long as theirs. Without tables
// (docs/machines.md) they are those of any other size.
#pragma once

#include "bench/programs/pipelined_all_reduce.hpp"
#include "bench/support/links.hpp"
#include "labs/week21_data_parallel/cost_model.hpp"
#include "labs/week21_data_parallel/halving_doubling.hpp"

namespace lockstep::bench {

/// α, β, γ and launch as they are around messages of one size.
inline week21::CostModel cost_of(const LinkPrices& prices) {
  return {prices.alpha, prices.beta, prices.gamma, prices.launch};
}

/// 21.5's formulas, with the prices of messages as long as theirs.
inline double naive_seconds(const LinkPrices& prices, int ranks, double bytes) {
  return week21::naive_all_reduce_seconds(cost_of(prices.one_way_at(bytes)), ranks, bytes);
}
inline double ring_seconds(const LinkPrices& prices, int ranks, double bytes) {
  return week21::ring_all_reduce_seconds(cost_of(prices.at(bytes / ranks)), ranks, bytes);
}
/// Tables are measured between processes whose messages are copied by the core that adds: there, additions are not
/// hidden beside messages.
inline double pipelined_seconds(const LinkPrices& prices, int ranks, double bytes) {
  const double segment = pipelined_segment_bytes(ranks, bytes);
  if (prices.tables.exchanges.empty()) return pipelined_all_reduce_seconds(cost_of(prices), ranks, bytes);
  const double segments = bytes / ranks / segment;
  const double whole = ring_seconds(prices, ranks, bytes), chunks = (ranks - 1) * segments;
  // A ring's chunk as a whole is as warm as the table's message of its length; a segment of it only if the array is.
  const double cold = prices.tables.cold_share(bytes);
  const week21::CostModel one = cost_of(prices.at(segment, cold, cold)), gather = cost_of(prices.at(bytes / ranks));
  if (segments <= 1) return whole;
  return chunks * (one.alpha + one.launch + segment * (one.beta + one.gamma)) +
         (ranks - 1) * (gather.alpha + bytes / ranks * gather.beta);
}

/// 21.3's formulas where there are tables: the whole array in each step, or a part, half as long each time.
inline double doubling_by_tables(const LinkPrices& prices, int ranks, double bytes) {
  return week21::recursive_doubling_seconds(cost_of(prices.at(bytes)), ranks, bytes);
}
inline double halving_by_tables(const LinkPrices& prices, int ranks, double bytes) {
  double seconds = 0, part = bytes;
  const int butterfly = week21::butterfly_ranks(ranks);
  for (int group = 2; group <= butterfly; group *= 2) {
    part /= 2;  // to two ranks 21.3 takes one step
    seconds += week21::rabenseifner_seconds(cost_of(prices.at(part)), 2, 2 * part);
  }
  const double spare = week21::recursive_doubling_seconds(cost_of(prices.at(bytes)), ranks, bytes) -
                       week21::recursive_doubling_seconds(cost_of(prices.at(bytes)), butterfly, bytes);
  return seconds + spare;
}

}  // namespace lockstep::bench
