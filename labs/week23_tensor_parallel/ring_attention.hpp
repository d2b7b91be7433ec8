// Exercise 23.6: ring attention, the core of context parallelism. Each rank has a block of the sequence: its queries,
// keys and values. The keys and values go round a ring; a rank receives those of one rank after the other and merges
// the partial results by their log-sum-exp. So no rank ever holds the whole sequence, forward or backward.
//
// Liu, Zaharia and Abbeel, "Ring Attention with Blockwise Transformers for Near-Infinite Context", arXiv 2310.01889:
// parts b and c. Brandon et al., "Striped Attention", arXiv 2311.09431: what the causal mask does to it; the zig-zag
// split of part d is that of the Llama 3 paper (arXiv 2407.21783), section 3.3.2.
#pragma once

#include <vector>

#include "labs/week23_tensor_parallel/sequence_chunks.hpp"

namespace lockstep::week23 {

/// The result of one query over some of its keys, on the host: log_sum = ln Σ exp(score) over these keys, y = Σ
/// exp(score − log_sum)·v. For no keys, log_sum is −∞ and y is zeros.
struct PartialRow {
  std::vector<double> y;
  double log_sum = 0;
};

/// Part a. The same over the keys of both; the two have no key in common, and their y have the same length.
/// attention_block does this with each row that it merges. Scores of thousands do not overflow, and two rows of no keys
/// give one of no keys.
PartialRow merge(const PartialRow& a, const PartialRow& b);

/// Part b. y and `statistics` (log-sum-exp) of this rank's queries over all keys of their sequences that they see. All
/// four are this rank's two chunks, one after the other (sequence_chunks.hpp): q and y of B × T/(2p) × h × head_size
/// each, kv of B × T/(2p) × 2 × h × head_size, statistics of B × h × T/(2p) f32. y and `statistics` are overwritten, q
/// and kv stay as they are. Where heads share keys (ring.shape.kv_heads), kv has kv_heads of them instead of h.
///
/// p steps, and between two steps a message of kv's length to the next rank, (r + 1) mod p, and one from the previous
/// rank. A block is in transit while the one before it is computed with. Sent per rank: (p − 1)·kv. Memory: two blocks
/// as long as kv.
void ring_attention_forward(const RingAttention& ring, Slice y, Slice statistics, Slice q, Slice kv);

/// Part c. dq and dkv of this rank's chunks, overwritten, from dy and from the results of the forward pass; the other
/// slices are not changed. The gradient of a block of keys goes round with the block: each rank adds what its queries
/// contribute, and after p steps it is back on its owner.
///
/// Blocks are in transit while the ones before are computed with, as in part b; their gradients need not be. Sent per
/// rank: (p − 1)·kv and at most p·dkv. Memory: four blocks as long as kv.
void ring_attention_backward(const RingAttention& ring, Slice dq, Slice dkv, Slice dy, Slice y, Slice statistics,
                             Slice q, Slice kv);

/// Part d. The chunks of `rank` in the zig-zag split of a sequence into 2p, the earlier first: one counted from the
/// beginning and one as far from the end. Every chunk belongs to exactly one rank.
std::array<int, 2> zigzag_chunks(int rank, int ranks);

/// Part d. How many (query, key) pairs the causal mask allows for the queries of `rank`, over all keys of a sequence of
/// `positions` (T, a multiple of 2p): a query at position t sees t + 1 keys.
double visible_pairs(int rank, int ranks, std::size_t positions, SequenceCut cut);

}  // namespace lockstep::week23
