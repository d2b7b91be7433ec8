// 23.6 with each chunk of keys a message of its own, the later one first, and the hidden blocks left out by
// their numbers. Merging goes by the difference of the two
// log-sum-exps.
#include "labs/week23_tensor_parallel/ring_attention.hpp"

#include <cmath>
#include <limits>

namespace lockstep::week23 {

PartialRow merge(const PartialRow& a, const PartialRow& b) {
  if (b.log_sum > a.log_sum) return merge(b, a);
  if (std::isinf(b.log_sum)) return a;
  PartialRow both = a;
  const double ratio = std::exp(b.log_sum - a.log_sum), share = ratio / (1 + ratio);
  both.log_sum += std::log1p(ratio);
  for (std::size_t i = 0; i < both.y.size(); ++i) both.y[i] += share * (b.y[i] - a.y[i]);
  return both;
}

namespace {

struct Around {
  int p, r, next, previous;
  explicit Around(Rank me) : p(me.size()), r(me.rank()), next((r + 1) % p), previous((r + p - 1) % p) {}
};

/// f(half of the queries, half of the keys, block) of what causality leaves.
template <class F>
void for_visible(const RingAttention& ring, int owner, const F& f) {
  const int p = ring.group.size();
  const auto own = chunks_of(ring.group.rank(), p, ring.cut), theirs = chunks_of(owner, p, ring.cut);
  for (int j = 1; j >= 0; --j)
    for (int i = 1; i >= 0; --i)
      if (theirs[j] <= own[i]) f(i, j, block_between(ring, own[i], theirs[j]));
}

std::vector<Slice> make_blocks(Rank me, const Slice& like, int count) {
  std::vector<Slice> blocks;
  for (int i = 0; i < count; ++i) blocks.push_back(me.allocate(like.size(), like.dtype(), Category::buffer));
  return blocks;
}

Ticket pass_on(Rank me, const Slice& held, const Slice& arriving) {
  const Around at(me);
  return me.start({send(at.next, half(held, 1)), receive(at.previous, half(arriving, 1)), send(at.next, half(held, 0)),
                   receive(at.previous, half(arriving, 0))});
}

}  // namespace

void ring_attention_forward(const RingAttention& ring, Slice y, Slice statistics, Slice q, Slice kv) {
  Rank me = ring.group;
  const Around at(me);
  const std::vector<Slice> blocks = make_blocks(me, kv, at.p > 2 ? 2 : at.p - 1);
  fill(me, statistics, -std::numeric_limits<float>::infinity());
  fill(me, y, 0);
  Slice held = kv;
  for (int owner = at.r, left = at.p; left > 0; --left, owner = (owner + at.p - 1) % at.p) {
    const Slice arriving = left > 1 ? blocks[static_cast<std::size_t>(left) % blocks.size()] : Slice();
    const Ticket passed = left > 1 ? pass_on(me, held, arriving) : Ticket();
    for_visible(ring, owner, [&](int i, int j, AttentionBlock block) {
      attention_block(me, half(y, i), half(statistics, i), half(q, i), half(held, j), block);
    });
    me.wait(passed);
    held = arriving;
  }
}

void ring_attention_backward(const RingAttention& ring, Slice dq, Slice dkv, Slice dy, Slice y, Slice statistics,
                             Slice q, Slice kv) {
  Rank me = ring.group;
  const Around at(me);
  const std::vector<Slice> blocks = make_blocks(me, kv, at.p > 1 ? 2 : 0);
  std::vector<Slice> gradients = make_blocks(me, kv, at.p > 1 ? 2 : 0);
  fill(me, dq, 0);
  fill(me, dkv, 0);
  Slice held = kv, gradient = dkv;
  for (int owner = at.r, left = at.p; left > 0; --left, owner = (owner + at.p - 1) % at.p) {
    const Slice arriving = left > 1 ? blocks[static_cast<std::size_t>(left % 2)] : Slice();
    const Ticket passed = left > 1 ? pass_on(me, held, arriving) : Ticket();
    for_visible(ring, owner, [&](int i, int j, AttentionBlock block) {
      attention_block_backward(me, half(dq, i), half(gradient, j), half(dy, i), half(y, i), half(statistics, i),
                               half(q, i), half(held, j), block);
    });
    me.wait(passed);
    if (at.p > 1) {
      const Slice arriving_gradient = left > 1 ? gradients[static_cast<std::size_t>(left % 2)] : dkv;
      me.wait(pass_on(me, gradient, arriving_gradient));
      gradient = arriving_gradient;
    }
    held = arriving;
  }
}

std::array<int, 2> zigzag_chunks(int rank, int ranks) {
  const int last = 2 * ranks - 1;
  return rank < last - rank ? std::array{rank, last - rank} : std::array{last - rank, rank};
}

double visible_pairs(int rank, int ranks, std::size_t positions, SequenceCut cut) {
  const double size = static_cast<double>(chunk_positions(positions, ranks));
  double chunks = 0;  // of size² pairs; it rounds
  for (const int number : chunks_of(rank, ranks, cut)) chunks += number + (1 + 1 / size) / 2;
  return chunks * size * size;
}

}  // namespace lockstep::week23
