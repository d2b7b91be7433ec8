// 23.6 with gradients of keys that stay away as briefly as can be: what a rank contributes to its own keys stays at
// home, the rest begins at its next rank and comes home after p − 1 hops. Pairs are added up query by query.
#include "labs/week23_tensor_parallel/ring_attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::week23 {

PartialRow merge(const PartialRow& a, const PartialRow& b) {
  const double most = std::max(a.log_sum, b.log_sum);
  if (most == -std::numeric_limits<double>::infinity()) return a;
  PartialRow both{a.y, most + std::log(std::exp(a.log_sum - most) + std::exp(b.log_sum - most))};
  const double share_a = std::exp(a.log_sum - both.log_sum), share_b = std::exp(b.log_sum - both.log_sum);
  for (std::size_t i = 0; i < both.y.size(); ++i) both.y[i] = share_a * a.y[i] + share_b * b.y[i];
  return both;
}

namespace {

/// This rank's queries against the keys of `owner`, which are in kv.
void attend(const RingAttention& ring, const Slice& y, const Slice& statistics, const Slice& q, const Slice& kv,
            int owner) {
  const int p = ring.group.size();
  const auto own = chunks_of(ring.group.rank(), p, ring.cut), theirs = chunks_of(owner, p, ring.cut);
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j)
      attention_block(ring.group, half(y, i), half(statistics, i), half(q, i), half(kv, j),
                      block_between(ring, own[i], theirs[j]));
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
}

void ring_attention_backward(const RingAttention& ring, Slice dq, Slice dkv, Slice dy, Slice y, Slice statistics,
                             Slice q, Slice kv) {
  Rank me = ring.group;
  const int p = me.size(), r = me.rank(), next = (r + 1) % p, previous = (r + p - 1) % p;
  Scope scope = me.region("ring attention backward", 2 * kv.bytes() * static_cast<std::size_t>(p));
  const std::array<Slice, 2> blocks = two_blocks(me, kv), gradients = two_blocks(me, kv);
  fill(me, dq, 0);
  fill(me, dkv, 0);
  Slice held = kv, gradient = dkv;
  for (int step = 0; step < p; ++step) {
    Ticket passed;
    if (step + 1 < p) passed = me.start({send(next, held), receive(previous, blocks[step % 2])});
    if (step == 1) {
      gradient = gradients[0];
      fill(me, gradient, 0);
    }
    attend_backward(ring, dq, gradient, dy, y, statistics, q, held, (r - step + p) % p);
    me.wait(passed);
    held = blocks[step % 2];
    if (step == 0) continue;
    const Slice& arriving = gradients[step % 2];
    me.exchange({send(next, gradient), receive(previous, arriving)});
    gradient = arriving;
  }
  if (p > 1) add(me, dkv, gradient);
}

std::array<int, 2> zigzag_chunks(int rank, int ranks) { return {rank, 2 * ranks - 1 - rank}; }

double visible_pairs(int rank, int ranks, std::size_t positions, SequenceCut cut) {
  const double size = static_cast<double>(chunk_positions(positions, ranks));
  double pairs = 0;
  for (const int number : chunks_of(rank, ranks, cut))
    for (double position = size * number; position < size * (number + 1); ++position) pairs += position + 1;
  return pairs;
}

}  // namespace lockstep::week23
