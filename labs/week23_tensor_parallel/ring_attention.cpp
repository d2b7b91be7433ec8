// Exercise 23.6: ring attention. Read labs/week23_tensor_parallel/ring_attention.hpp first.
#include "labs/week23_tensor_parallel/ring_attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::week23 {

PartialRow merge(const PartialRow& a, const PartialRow& b) {
  todo("23.6a",
       "the new log-sum-exp, and the share that each side has in the new softmax. Take the larger log_sum out of "
       "both exponentials first; and what if neither side has any keys?");
}

namespace {

/// This rank's queries against the keys of `owner`, which are in kv.
void attend(const RingAttention& ring, const Slice& y, const Slice& statistics, const Slice& q, const Slice& kv,
            int owner) {
  const int p = ring.group.size();
  const auto own = chunks_of(ring.group.rank(), p, ring.cut), theirs = chunks_of(owner, p, ring.cut);
  todo("23.6b",
       "each of your two chunks of queries against each of their two chunks of keys, with attention_block: it "
       "merges, and a block that is hidden costs nothing");
}

void attend_backward(const RingAttention& ring, const Slice& dq, const Slice& dkv, const Slice& dy, const Slice& y,
                     const Slice& statistics, const Slice& q, const Slice& kv, int owner) {
  const int p = ring.group.size();
  const auto own = chunks_of(ring.group.rank(), p, ring.cut), theirs = chunks_of(owner, p, ring.cut);
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j)
      attention_block_backward(ring.group, half(dq, i), half(dkv, j), half(dy, i), half(y, i), half(statistics, i),
                               half(q, i), half(kv, j), block_between(ring, own[i], theirs[j]));
}

/// Two blocks as long as kv, where one rank has nobody to receive from.
std::array<Slice, 2> two_blocks(Rank me, const Slice& kv) {
  if (me.size() == 1) return {};
  return {me.allocate(kv.size(), kv.dtype(), Category::buffer), me.allocate(kv.size(), kv.dtype(), Category::buffer)};
}

}  // namespace

void ring_attention_forward(const RingAttention& ring, Slice y, Slice statistics, Slice q, Slice kv) {
  Rank me = ring.group;
  const int p = me.size(), r = me.rank(), next = (r + 1) % p, previous = (r + p - 1) % p;
  Scope scope = me.region("ring attention forward", kv.bytes() * static_cast<std::size_t>(p));
  const std::array<Slice, 2> blocks = two_blocks(me, kv);
  todo("23.6b",
       "y and statistics of your queries over all ranks' keys: p steps, from your own keys on. In each you attend to "
       "the block that you hold, while it travels to the next rank and another arrives in one of `blocks`. What are "
       "y and statistics over no keys?");
}

void ring_attention_backward(const RingAttention& ring, Slice dq, Slice dkv, Slice dy, Slice y, Slice statistics,
                             Slice q, Slice kv) {
  Rank me = ring.group;
  const int p = me.size(), r = me.rank(), next = (r + 1) % p, previous = (r + p - 1) % p;
  Scope scope = me.region("ring attention backward", 2 * kv.bytes() * static_cast<std::size_t>(p));
  const std::array<Slice, 2> blocks = two_blocks(me, kv), gradients = two_blocks(me, kv);
  fill(me, dq, 0);
  fill(me, dkv, 0);
  todo("23.6c",
       "the same p steps with attend_backward (given). After each step the gradient of the block that you held goes "
       "to the next rank too, even after the last step: where does it arrive then?");
}

std::array<int, 2> zigzag_chunks(int rank, int ranks) {
  todo("23.6d", "the rank-th chunk from the beginning, and the rank-th from the end");
}

double visible_pairs(int rank, int ranks, std::size_t positions, SequenceCut cut) {
  const double size = static_cast<double>(chunk_positions(positions, ranks));
  double pairs = 0;
  todo("23.6d",
       "for each of the rank's chunks: its queries see all keys of the chunks before, and within their own chunk one "
       "more from query to query");
  return pairs;
}

}  // namespace lockstep::week23
