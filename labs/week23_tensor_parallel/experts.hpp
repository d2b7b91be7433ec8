// Exercise 23.7 (extra): a mixture of experts whose experts live on different ranks. A router sends each token's row to
// k of E experts, which are MLPs. Rows travel to the ranks that hold their experts, and the results travel back.
//
// Shazeer et al., "Outrageously Large Neural Networks" (arXiv 1701.06538), section 2: the layer, and section 3.1: every
// rank has tokens of its own and shares the experts. Lepikhin et al., "GShard" (arXiv 2006.16668), section 3.2: the two
// all-to-alls. Fedus et al., "Switch Transformers" (arXiv 2101.03961), section 2.1: softmax over all experts, before
// the choice. MegaBlocks (arXiv 2211.15841), section 4: rows sorted by expert, and no token dropped.
//
// Symbols: p ranks in the group, E experts of the layer, k for each token, N tokens on this rank (each rank may have
// another N, also 0), C channels, H hidden units. Slot s of a rank is choice s mod k of its token s / k. Numbers are
// f32.
#pragma once

#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "common/arithmetic.hpp"
#include "common/rank.hpp"

namespace lockstep::week23 {

// Part a: the router's choice, on the host ----------------------------------------------------------------------------

struct Routing {
  std::vector<float> probabilities;   ///< N × E
  std::vector<std::int32_t> experts;  ///< N × k: the expert of each slot
};
/// From logits of N × E: the softmax of each row over all E experts, and the k experts with the largest logits, the
/// largest first. Of equal ones the lowest number comes first. Logits may be in the thousands. 1 ≤ k ≤ E.
Routing route(const std::vector<float>& logits, std::size_t experts, std::size_t k);

struct Grouping {
  std::vector<std::size_t> counts;  ///< of each expert
  std::vector<std::int32_t>
      order;  ///< places in `expert_of`: those of expert 0, of expert 1, …, each in ascending order
};
/// Groups slots, or rows, by expert. Their experts are 0 … experts − 1, and any of them may have none.
Grouping group_by_expert(const std::vector<std::int32_t>& expert_of, std::size_t experts);

/// Given: the probability of each slot's expert, N × k. It is the weight of that expert's output. The k weights of a
/// token add up to less than 1.
inline std::vector<float> weights_of(const Routing& routing, std::size_t experts, std::size_t k) {
  std::vector<float> weights;
  for (std::size_t slot = 0; slot < routing.experts.size(); ++slot)
    weights.push_back(routing.probabilities[slot / k * experts + static_cast<std::size_t>(routing.experts[slot])]);
  return weights;
}

// Part b: all-to-all --------------------------------------------------------------------------------------------------

/// Sends sent[q] rows of `from` to each rank q, one rank's rows after the other's in rank order, and receives
/// received[q] rows from each into `to`, in the same order. Rows have `width` elements. A rank's rows to itself are
/// copied. All others travel in one batch, of at most 2(p − 1) transfers: where there are no rows there is no message.
void all_to_all(Rank group, Slice to, const std::vector<std::size_t>& received, Slice from,
                const std::vector<std::size_t>& sent, std::size_t width);

/// Counts of rows from each rank to this rank's experts. counts[e] is what this rank sends to expert e of E. The result
/// has E/p elements from rank 0, then E/p from rank 1, …: one for each of this rank's experts. Numbers are below 2^24.
/// They are read back to the host, which needs them to allocate. (to_host returns an i32 slice as floats.)
std::vector<std::size_t> exchange_counts(Rank group, const std::vector<std::size_t>& counts);

// Part c: the layer ---------------------------------------------------------------------------------------------------

/// A layer's experts. Rank r of the group holds E/p of them, from r·E/p on. E is a multiple of p.
struct ExpertParallel {
  Rank group;
  std::size_t experts = 1;   // E
  std::size_t k = 1;         // experts per token
  std::size_t channels = 1;  // C
  std::size_t hidden = 1;    // H

  std::size_t own() const { return experts / static_cast<std::size_t>(group.size()); }
};

/// Route of the rows. On the way there: from slots to `sent.order`, which has each rank's rows together; to the rank
/// of the expert, where they arrive one rank's after the other's; then to `received.order`, which has each expert's
/// rows together. On the way back, all of it backwards.
struct RowPlan {
  Grouping sent;                       ///< this rank's slots, by expert of E; at the end those without one (23.10)
  Grouping received;                   ///< rows as they arrive here, by expert of E/p
  std::vector<std::size_t> to_rank;    ///< rows that go to each rank, this one included
  std::vector<std::size_t> from_rank;  ///< rows that come from each
  /// Rows that leave: those of slots without an expert do not.
  std::size_t leaving() const { return std::accumulate(to_rank.begin(), to_rank.end(), std::size_t{0}); }
};

/// Given: sums of `each` consecutive counts.
inline std::vector<std::size_t> sums_of(const std::vector<std::size_t>& counts, std::size_t each) {
  std::vector<std::size_t> sums(counts.size() / each);
  for (std::size_t i = 0; i < counts.size(); ++i) sums[i / each] += counts[i];
  return sums;
}
/// Given: how this rank's rows travel, from their order and from what exchange_counts returns.
inline RowPlan plan_rows(const ExpertParallel& ep, Grouping sent, const std::vector<std::size_t>& counts) {
  RowPlan plan;
  plan.sent = std::move(sent);
  std::vector<std::int32_t> arriving;  // the expert of each row, in the order of arrival
  if (const std::size_t numbers = plan.sent.counts.size(); numbers == ep.experts + 1)
    usage_error("plan.sent.counts has " + std::to_string(numbers) + " numbers, and E is " + std::to_string(ep.experts) +
                ": the last one counts dropped slots, which go to no rank. Remove it " +
                "before the counts are exchanged");
  if (counts.size() != ep.experts)
    usage_error("exchange_counts returned " + std::to_string(counts.size()) +
                " counts, expected one for each expert: " + std::to_string(ep.experts));
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] >= 1 << 24)
      usage_error("exchange_counts says that rank " + std::to_string(i / ep.own()) + " sends " +
                  std::to_string(counts[i]) + " rows to one expert");
    arriving.insert(arriving.end(), counts[i], static_cast<std::int32_t>(i % ep.own()));
  }
  plan.received = group_by_expert(arriving, ep.own());
  plan.to_rank = sums_of(plan.sent.counts, ep.own());
  plan.from_rank = sums_of(counts, ep.own());
  return plan;
}

/// Given: memory for so many rows of C.
inline Slice rows_of(const ExpertParallel& ep, std::size_t count, Category category = Category::buffer,
                     Location where = Location::current()) {
  Rank me = ep.group;
  return me.allocate(count * ep.channels, DType::f32, category, where);
}
/// Given: row order[i] of slots for each row i of `rows`, where `slots` has a row of C for each slot; or, where it has
/// one for each token, the row of that slot's token.
inline Slice places_in(const ExpertParallel& ep, const Slice& slots, const std::vector<std::int32_t>& order,
                       const Slice& rows) {
  Rank me = ep.group;
  std::vector<std::int32_t> places;
  const auto per_row = slots.empty() ? 1 : static_cast<std::int32_t>(order.size() * ep.channels / slots.size());
  for (std::size_t i = 0; i < rows.size() / ep.channels; ++i) places.push_back(order[i] / per_row);
  Slice index = me.allocate(places.size(), DType::i32, Category::buffer);
  upload(me, index, places);
  return index;
}
/// Given: row i of `to` = the row of `from` at order[i]; if it has a row for each token, that of the slot's token. An
/// embedding whose table is `from`.
inline void take_rows(const ExpertParallel& ep, Slice to, Slice from, const std::vector<std::int32_t>& order,
                      Location where = Location::current()) {
  embedding(ep.group, to, places_in(ep, from, order, to), from, {}, 1, where);
}
/// Given, its transpose: `to` = 0, and then the row of `to` at order[i] += row i of `from`. An embedding's backward.
inline void put_rows(const ExpertParallel& ep, Slice to, Slice from, const std::vector<std::int32_t>& order,
                     Location where = Location::current()) {
  fill(ep.group, to, 0, where);
  embedding_backward(ep.group, to, {}, from, places_in(ep, to, order, from), 1, where);
}
/// Given: part n of an array of equal parts, each a matrix of rows × columns.
inline Matrix part(const Slice& array, std::size_t n, std::size_t rows, std::size_t columns) {
  return matrix(array.cut(n * rows * columns, rows * columns), rows, columns);
}

/// `to` = the rows for this rank's experts, grouped by expert, from all ranks' slots. `from` has a row for each of this
/// rank's slots, or for each of its tokens.
void dispatch(const ExpertParallel& ep, const RowPlan& plan, Slice to, Slice from);
/// The transpose: `from` has the rows of this rank's experts, grouped by expert, and each goes back to where it came
/// from. `to` has a row for each of this rank's slots; or for each of its tokens, which is then the sum of its slots.
void collect(const ExpertParallel& ep, const RowPlan& plan, Slice to, Slice from);

/// This rank's experts, one after the other: values, or gradients. No biases.
struct ExpertTensors {
  Slice up;    // H × C for each of the E/p
  Slice down;  // C × H for each
};
/// Saved by the forward pass for the backward pass. Given: make_saved allocates all of it.
struct ExpertsSaved {
  RowPlan plan;
  Slice input;    // R × C: the R rows of this rank's experts, by expert
  Slice up;       // R × H, before the GELU
  Slice gelu;     // R × H
  Slice outputs;  // N·k × C: the experts' outputs, a row for each slot
  Slice weights;  // N × k: weights_of
};
inline ExpertsSaved make_saved(const ExpertParallel& ep, const Routing& routing, RowPlan plan) {
  Rank me = ep.group;
  ExpertsSaved saved{std::move(plan), {}, {}, {}, {}, {}};
  const std::size_t rows = saved.plan.received.order.size(), slots = routing.experts.size();
  if (const std::size_t placed = saved.plan.sent.order.size(); placed != slots)
    usage_error("plan.sent.order has " + std::to_string(placed) + " of " + std::to_string(slots) + " slots");
  saved.input = rows_of(ep, rows, Category::activation);
  saved.outputs = rows_of(ep, slots, Category::activation);
  saved.up = me.allocate(rows * ep.hidden, DType::f32, Category::activation);
  saved.gelu = me.allocate(rows * ep.hidden, DType::f32, Category::activation);
  saved.weights = me.allocate(slots, DType::f32, Category::activation);
  upload(me, saved.weights, weights_of(routing, ep.experts, ep.k));
  return saved;
}
/// All ranks of the group call it.
inline ExpertsSaved make_saved(const ExpertParallel& ep, const Routing& routing) {
  const Grouping sent = group_by_expert(routing.experts, ep.experts);
  return make_saved(ep, routing, plan_rows(ep, sent, exchange_counts(ep.group, sent.counts)));
}

/// Given: f(expert, its rows of an array that is R × width, …) for each expert that has rows.
template <class F>
void for_each_expert(const RowPlan& plan, const F& f) {
  std::size_t first = 0;
  for (std::size_t e = 0; e < plan.received.counts.size(); first += plan.received.counts[e++])
    if (const std::size_t count = plan.received.counts[e]; count > 0)
      f(e, [=](const Slice& array, std::size_t width) {
        return matrix(array.cut(first * width, count * width), count, width);
      });
}
/// Given: result (R × C) = the output of each row's expert, GELU(row · upᵀ) · downᵀ, from saved.input.
inline void run_experts(const ExpertParallel& ep, const ExpertTensors& values, const ExpertsSaved& saved,
                        Slice result) {
  const std::size_t c = ep.channels, h = ep.hidden;
  for_each_expert(saved.plan, [&](std::size_t e, const auto& rows) {
    matmul(ep.group, rows(saved.up, h), rows(saved.input, c), part(values.up, e, h, c).t());
    gelu(ep.group, rows(saved.gelu, h).slice, rows(saved.up, h).slice);
    matmul(ep.group, rows(result, c), rows(saved.gelu, h), part(values.down, e, c, h).t());
  });
}
/// Given: dinput (R × C) from dresult. Gradients accumulate: an expert's is the sum over all rows that came to it.
inline void run_experts_backward(const ExpertParallel& ep, const ExpertTensors& values, const ExpertTensors& gradients,
                                 const ExpertsSaved& saved, Slice dinput, Slice dresult) {
  Rank me = ep.group;
  const std::size_t c = ep.channels, h = ep.hidden;
  Slice wide = me.allocate(saved.up.size(), DType::f32, Category::buffer);
  for_each_expert(saved.plan, [&](std::size_t e, const auto& rows) {
    const Matrix d = rows(wide, h);
    matmul(me, part(gradients.down, e, c, h), rows(dresult, c).t(), rows(saved.gelu, h), Into::accumulate);
    matmul(me, d, rows(dresult, c), part(values.down, e, c, h));
    gelu_backward(me, d.slice, d.slice, rows(saved.up, h).slice);
    matmul(me, part(gradients.up, e, h, c), d.t(), rows(saved.input, c), Into::accumulate);
    matmul(me, rows(dinput, c), d, part(values.up, e, h, c));
  });
}

/// y (N × C): y[n] = Σ over the k slots of token n of weight · output. x: N × C. `saved` is make_saved's, and its
/// input, up, gelu and outputs are written. Sent: what dispatch and collect send.
void experts_forward(const ExpertParallel& ep, const ExpertTensors& values, const ExpertsSaved& saved, Slice y,
                     Slice x);
/// From dy (N × C): dx (N × C) and dweights (N × k), overwritten, and the gradients of this rank's experts, which
/// accumulate. dx is what comes through the experts; what comes through the router's logits is not in it. Sent: what
/// dispatch and collect send. Nothing is divided.
void experts_backward(const ExpertParallel& ep, const ExpertTensors& values, const ExpertTensors& gradients,
                      const ExpertsSaved& saved, Slice dx, Slice dweights, Slice dy);

// Part d: two gradients that are easily wrong -------------------------------------------------------------------------

/// The gradient of the logits (N × E), from that of the weights (N × k). Also of the logits of experts that were not
/// chosen: their exponentials are in every probability.
std::vector<float> router_gradient(const Routing& routing, const std::vector<float>& dweights, std::size_t experts,
                                   std::size_t k);

/// The d ranks of `world` are groups of p ranks that share the experts; `same_experts` are the d/p ranks that hold this
/// rank's experts, one of each group. Each rank has run backward with the mean loss over its own tokens, all ranks
/// equally many. Afterwards both slices hold the gradients of the mean loss over all tokens of all ranks: `replicated`,
/// of what all ranks have (the router, attention, …), and `experts`, of this rank's experts. With week21's
/// ring_all_reduce; the experts' gradients travel among same_experts only.
void average_gradients(Rank world, Rank same_experts, Slice replicated, Slice experts);

}  // namespace lockstep::week23
