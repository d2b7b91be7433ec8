// Exercise 23.6: ring attention. Read labs/week23_tensor_parallel/ring_attention.hpp first.
#include "labs/week23_tensor_parallel/ring_attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::week23 {

PartialRow merge(const PartialRow& a, const PartialRow& b) {
  // lab 23.6a begin: the new log-sum-exp, and the share that each side has in the new softmax. Take the larger log_sum
  // out of both exponentials first; and what if neither side has any keys?
  const double most = std::max(a.log_sum, b.log_sum);
  if (most == -std::numeric_limits<double>::infinity()) return a;
  PartialRow both{a.y, most + std::log(std::exp(a.log_sum - most) + std::exp(b.log_sum - most))};
  const double share_a = std::exp(a.log_sum - both.log_sum), share_b = std::exp(b.log_sum - both.log_sum);
  for (std::size_t i = 0; i < both.y.size(); ++i) both.y[i] = share_a * a.y[i] + share_b * b.y[i];
  return both;
  // lab end
}

namespace {

/// This rank's queries against the keys of `owner`, which are in kv.
void attend(const RingAttention& ring, const Slice& y, const Slice& statistics, const Slice& q, const Slice& kv,
            int owner) {
  const int p = ring.group.size();
  const auto own = chunks_of(ring.group.rank(), p, ring.cut), theirs = chunks_of(owner, p, ring.cut);
  // lab 23.6b begin: each of your two chunks of queries against each of their two chunks of keys, with attention_block:
  // it merges, and a block that is hidden costs nothing
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j)
      attention_block(ring.group, half(y, i), half(statistics, i), half(q, i), half(kv, j),
                      block_between(ring, own[i], theirs[j]));
  // lab end
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
  // lab 23.6b begin: y and statistics of your queries over all ranks' keys: p steps, from your own keys on. In each you
  // attend to the block that you hold, while it travels to the next rank and another arrives in one of `blocks`. What
  // are y and statistics over no keys?
  fill(me, y, 0);
  fill(me, statistics, -std::numeric_limits<float>::infinity());
  Slice held = kv;
  for (int step = 0; step < p; ++step) {
    const Slice& arriving = blocks[step % 2];
    Ticket passed;
    if (step + 1 < p) passed = me.start({send(next, held), receive(previous, arriving)});
    attend(ring, y, statistics, q, held, (r - step + p) % p);
    me.wait(passed);
    held = arriving;
  }
  // lab end
}

void ring_attention_backward(const RingAttention& ring, Slice dq, Slice dkv, Slice dy, Slice y, Slice statistics,
                             Slice q, Slice kv) {
  Rank me = ring.group;
  const int p = me.size(), r = me.rank(), next = (r + 1) % p, previous = (r + p - 1) % p;
  Scope scope = me.region("ring attention backward", 2 * kv.bytes() * static_cast<std::size_t>(p));
  const std::array<Slice, 2> blocks = two_blocks(me, kv), gradients = two_blocks(me, kv);
  fill(me, dq, 0);
  fill(me, dkv, 0);
  // lab 23.6c begin: the same p steps with attend_backward (given). After each step the gradient of the block that you
  // held goes to the next rank too, even after the last step: where does it arrive then?
  Slice held = kv, gradient = dkv;
  for (int step = 0; step < p; ++step) {
    const Slice& arriving = blocks[step % 2];
    const Slice arriving_gradient = step + 1 < p ? gradients[step % 2] : dkv;
    Ticket passed;
    if (step + 1 < p) passed = me.start({send(next, held), receive(previous, arriving)});
    attend_backward(ring, dq, gradient, dy, y, statistics, q, held, (r - step + p) % p);
    me.wait(passed);
    if (p > 1) me.exchange({send(next, gradient), receive(previous, arriving_gradient)});
    held = arriving;
    gradient = arriving_gradient;
  }
  // lab end
}

std::array<int, 2> zigzag_chunks(int rank, int ranks) {
  // lab 23.6d begin: the rank-th chunk from the beginning, and the rank-th from the end
  return {rank, 2 * ranks - 1 - rank};
  // lab end
}

double visible_pairs(int rank, int ranks, std::size_t positions, SequenceCut cut) {
  const double size = static_cast<double>(chunk_positions(positions, ranks));
  double pairs = 0;
  // lab 23.6d begin: for each of the rank's chunks: its queries see all keys of the chunks before, and within their own
  // chunk one more from query to query
  for (const int number : chunks_of(rank, ranks, cut)) pairs += size * number * size + size * (size + 1) / 2;
  // lab end
  return pairs;
}

}  // namespace lockstep::week23
