// Exercise 21.9: sums of compressed gradients. Fewer elements (top-k), fewer bits of each (int8), or both; and how to
// make up for the loss.
//
// A ring cannot add compressed arrays: the sum of two sparse vectors is less sparse, and the sum of two int8 numbers
// needs more than eight bits. So every rank gets every other rank's compressed gradient, and adds them up itself: an
// all-gather, whose bytes grow with p. Part d takes them apart again.
//
// Top-k with error feedback: Aji and Heafield, arXiv 1704.05021; Stich, Cordonnier and Jaggi, "Sparsified SGD with
// memory", arXiv 1809.07599. Stochastic rounding: Alistarh et al., "QSGD", arXiv 1610.02132.
//
// Every function is collective over `me`'s group, runs on whichever queue `me` is on, and leaves *the same bits* in
// `data` on every rank; otherwise replicas would diverge. `data` is f32; sizes, k and block are the same on all ranks.
#pragma once

#include "common/arithmetic.hpp"
#include "labs/week21_data_parallel/ddp.hpp"

namespace lockstep::week21 {

/// Given: ⌈density · elements⌉, at least 1 where there is any element: how many top-k keeps. It never depends on data.
std::size_t top_k_count(std::size_t elements, double density);

/// Part a. `data` becomes the sum over all ranks of their sparse vectors: rank r's has values[j] at indices[j], and 0
/// elsewhere. k = values.size(), f32; indices.size() = k, i32, strictly ascending, as top_k returns them. Added in rank
/// order, 0 first. What `data` held before does not matter.
///
/// One all-gather of the values and one of the indices: (p − 1)·8k bytes sent per rank. Memory: 8pk bytes.
void sparse_sum(Rank me, Slice data, Slice values, Slice indices);

/// Part b. `data` becomes the sum over all ranks of the k elements of largest magnitude of each. The other elements
/// stay in the rank's `error` (f32, as long as `data`, zeros before the first step), are added to its gradient in the
/// next step, and so are sent later. Nothing is ever lost: Σ over steps of `data` + Σ over ranks of `error` equals the
/// plain sums. With an empty `error` there is no error feedback, and unsent elements are lost.
void top_k_all_reduce(Rank me, Slice data, Slice error, std::size_t k);

/// Part c. `data` becomes the sum over all ranks of their arrays in eight bits, each block of `block` elements with a
/// scale (quantise, add_dequantised). Rounding is random and right on average. `key` is the same on all ranks and new
/// in each step; rank r draws with tensor key.tensor + r, so that the ranks' rounding errors are independent. Added in
/// rank order.
///
/// One all-gather of the numbers, one of the scales: (p − 1)·(n + 4⌈n/block⌉) bytes sent per rank, for n elements.
void int8_all_reduce(Rank me, Slice data, std::size_t block, Random key);

/// Part d. The same sum in two halves, for 2(p − 1)/p·(n + 4n/block) bytes: rank r receives every rank's int8 chunk r
/// and adds them up; then it rounds the sum to eight bits once more, and the rounded sums are all-gathered. Draws with
/// key.tensor + r in the first half and key.tensor + p + r in the second; `first` is key.first + the chunk's offset.
///
/// One batch to all peers at once, then the all-gathers. Chunks are those of chunk_range; each has ⌈longest chunk /
/// block⌉ scales; a shorter chunk may leave the last one unused.
void int8_two_step_all_reduce(Rank me, Slice data, std::size_t block, Random key);

/// Part f. The k elements of largest magnitude of each rank's `data` + `error` are summed exactly, as in parts a and b,
/// and all others in eight bits, as in part d with the same `key`; `data` becomes both together. A few large elements
/// would set the scales of their whole blocks; without them the scales are finer.
///
/// `error` is as in part b, but holds what rounding took: from this rank's array in the first half, and from its chunk
/// of the sum in the second. Nothing is lost but the last bits of f32. With an empty `error`, rounding is only right on
/// average. Bytes and messages are those of both parts.
void mixed_all_reduce(Rank me, Slice data, Slice error, std::size_t k, std::size_t block, Random key);

enum class Method { ring, top_k, int8, int8_two_step, mixed };

/// The compression of each bucket. The ring is the plain one, without compression.
struct Compression {
  Method method = Method::ring;
  double density = 0.01;    ///< of top-k and mixed
  bool feedback = true;     ///< of top-k and mixed
  std::size_t block = 256;  ///< of int8: elements with one scale
  std::uint64_t seed = 0;   ///< of random rounding
};

/// Part e. Bytes that one rank sends in a sum of `elements` f32 (where p, the density and the blocks divide them).
/// Mixed sums are given: those of both parts.
double bytes_sent(const Compression& how, int ranks, double elements);

/// Part e, and f for mixed sums. The number of ranks from which on this method sends at least as many bytes as the
/// ring; infinity: never.
double ranks_to_break_even(const Compression& how);

/// Given: true where errors are kept between steps.
inline bool keeps_errors(const Compression& how) {
  return how.feedback && (how.method == Method::top_k || how.method == Method::mixed);
}

/// Given: the sum for make_ddp, with its memory for errors: 4 bytes per parameter with feedback
/// (Category::optimizer). Gradients are compressed bucket by bucket; anything else that is summed goes round the plain
/// ring. Made on main, at set-up. Throws Error(usage) for a density outside (0, 1], a block of 0, or gradients that are
/// not f32.
///
/// Random rounding depends on `steps`, once per step for each element: a run resumed from a checkpoint draws what it
/// would have drawn without the interruption. Without `steps`, each sum draws new numbers.
AllReduce compressed_all_reduce(Rank dp, const Parameters& parameters, const Compression& how, StepsDone steps = {});

}  // namespace lockstep::week21
