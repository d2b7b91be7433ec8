// Shared by the tests of exercise 23.6: the serial attention, how its arrays are split into chunks, and a run of both
// passes on p ranks.
#pragma once

#include <cmath>
#include <numeric>

#include "common/testing/cases.hpp"
#include "labs/week23_tensor_parallel/ring_attention.hpp"
#include "labs/week23_tensor_parallel/shard_testing.hpp"
#include "labs/week23_tensor_parallel/sums_testing.hpp"

namespace lockstep::week23::ring_attention_test {

using testing::Case;
using testing::CasePlan;
using testing::run_cases;

constexpr std::size_t kBatch = 2, kHeads = 2, kHeadSize = 3, kWidth = kHeads * kHeadSize;

/// A case's size is the positions of a chunk.
inline AttentionShape whole_shape(const Case& c) {
  return {kBatch, 2 * static_cast<std::size_t>(c.ranks) * c.size, kHeads, kHeadSize};
}

/// Said here once more, not asked of the answer.
inline std::array<std::size_t, 2> right_chunks(std::size_t rank, int ranks, SequenceCut cut) {
  if (cut == SequenceCut::contiguous) return {2 * rank, 2 * rank + 1};
  return {rank, 2 * static_cast<std::size_t>(ranks) - 1 - rank};
}

/// An array of B × T × `width`, of which each rank has two chunks.
inline Part in_chunks(std::string name, const Case& c, SequenceCut cut, std::size_t width) {
  const std::size_t positions = whole_shape(c).positions, own = c.size * width;
  return {std::move(name), 2 * kBatch * own, kBatch * positions * width,
          [=, ranks = c.ranks](std::size_t rank, std::size_t i) {
            const std::size_t number = right_chunks(rank, ranks, cut)[i / (kBatch * own)];
            const std::size_t sequence = i % (kBatch * own) / own;
            return (sequence * positions + number * c.size) * width + i % own;
          }};
}
/// The statistics: B × h × T.
inline Part statistics_in_chunks(const Case& c, SequenceCut cut) {
  const std::size_t positions = whole_shape(c).positions;
  return {"statistics", 2 * kBatch * kHeads * c.size, kBatch * kHeads * positions,
          [=, ranks = c.ranks](std::size_t rank, std::size_t i) {
            const std::size_t number = right_chunks(rank, ranks, cut)[i / (kBatch * kHeads * c.size)];
            const std::size_t head = i % (kBatch * kHeads * c.size) / c.size;
            return head * positions + number * c.size + i % c.size;
          }};
}

/// Attention over the whole, on one rank.
struct Serial {
  Values y, statistics, dq, dkv;
};
struct Inputs {
  HostMatrix qkv, dy;
  explicit Inputs(const Case& c)
      : qkv(eighths(61, kBatch * whole_shape(c).positions, 3 * kWidth)),
        dy(numbers(62, kBatch * whole_shape(c).positions, kWidth)) {
    for (float& value : qkv.values) value *= 4;  // halves: the softmax is far from even
  }
};

inline Serial serial_attention(const Case& c) {
  const auto program = [&](Rank me) {
    const Inputs inputs(c);
    const AttentionShape shape = whole_shape(c);
    Slice qkv = uploaded(me, inputs.qkv), dy = uploaded(me, inputs.dy), y = unwritten(me, dy.size());
    Slice statistics = unwritten(me, kBatch * kHeads * shape.positions), dqkv = unwritten(me, qkv.size());
    attention(me, y, statistics, qkv, shape);
    attention_backward(me, dqkv, dy, y, qkv, statistics, shape);
    Values seen;
    for (const Slice& slice : {y, statistics, dqkv}) append(seen, to_host(me, slice));
    return seen;
  };
  const Values seen = run({.ranks = 1}, Program(program)).check().values[0];
  const std::size_t rows = kBatch * whole_shape(c).positions;
  const auto from = seen.begin();
  Serial serial{{from, from + static_cast<std::ptrdiff_t>(rows * kWidth)}, {}, {}, {}};
  std::size_t at = rows * kWidth;
  for (std::size_t i = 0; i < rows * kHeads; ++i) serial.statistics.push_back(seen[at++]);
  for (std::size_t i = 0; i < rows * 3 * kWidth; ++i)
    (i % (3 * kWidth) < kWidth ? serial.dq : serial.dkv).push_back(seen[at++]);
  return serial;
}

/// Columns [first, first + count) of each row of `whole`.
inline Values columns_of(const std::vector<float>& whole, std::size_t columns, std::size_t first, std::size_t count) {
  Values cut;
  for (std::size_t i = 0; i < whole.size(); ++i)
    if (i % columns >= first && i % columns < first + count) cut.push_back(whole[i]);
  return cut;
}

/// y and the statistics of the forward pass, on the host and in double, from which a backward pass alone starts. Only
/// of this rank's chunks. The keys of position u are masked as if they were those of `taken_for(u)`.
inline Serial host_forward(
    const Case& c, SequenceCut cut, int rank,
    const std::function<std::size_t(std::size_t u)>& taken_for = [](std::size_t u) { return u; }) {
  const auto chunks = right_chunks(static_cast<std::size_t>(rank), c.ranks, cut);
  const HostMatrix qkv = Inputs(c).qkv;
  const std::size_t positions = whole_shape(c).positions;
  Serial serial{Values(kBatch * positions * kWidth), Values(kBatch * kHeads * positions), {}, {}};
  const auto row = [&](std::size_t sequence, std::size_t t, std::size_t part, std::size_t head) {
    return qkv.values.data() + ((sequence * positions + t) * 3 + part) * kWidth + head * kHeadSize;
  };
  for (std::size_t line = 0; line < serial.statistics.size(); ++line) {
    const std::size_t sequence = line / positions / kHeads, head = line / positions % kHeads, t = line % positions;
    if (t / c.size != chunks[0] && t / c.size != chunks[1]) continue;
    Values weights(positions);
    for (std::size_t u = 0; u < positions; ++u) {
      double score = 0;
      for (std::size_t i = 0; i < kHeadSize; ++i) score += row(sequence, t, 0, head)[i] * row(sequence, u, 1, head)[i];
      if (taken_for(u) <= t)
        weights[u] = std::exp(score / std::sqrt(static_cast<double>(kHeadSize)));  // of |scores| < 30
    }
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    serial.statistics[line] = std::log(sum);
    for (std::size_t u = 0; u < positions && sum > 0; ++u)
      for (std::size_t i = 0; i < kHeadSize; ++i)
        serial.y[(sequence * positions + t) * kWidth + head * kHeadSize + i] +=
            weights[u] / sum * row(sequence, u, 2, head)[i];
  }
  return serial;
}

/// The part of dkv that this rank's own queries contribute to its own keys.
inline Values host_own_dkv(const Case& c, SequenceCut cut, int rank, const Serial& serial) {
  const auto chunks = right_chunks(static_cast<std::size_t>(rank), c.ranks, cut);
  const Inputs inputs(c);
  const std::size_t positions = whole_shape(c).positions;
  const double root = std::sqrt(static_cast<double>(kHeadSize));
  Values dkv(kBatch * positions * 2 * kWidth);
  const auto own = [&](std::size_t t) { return t / c.size == chunks[0] || t / c.size == chunks[1]; };
  for (std::size_t line = 0; line < serial.statistics.size(); ++line) {
    const std::size_t sequence = line / positions / kHeads, head = line / positions % kHeads, t = line % positions;
    for (std::size_t u = 0; u <= t && own(t); ++u) {
      if (!own(u)) continue;
      const std::size_t query = sequence * positions + t, key = sequence * positions + u, first = head * kHeadSize;
      const auto in = [&](std::size_t row, std::size_t part) {
        return inputs.qkv.values.data() + (row * 3 + part) * kWidth + first;
      };
      double score = 0, slope = 0;
      for (std::size_t i = 0; i < kHeadSize; ++i) {
        const std::size_t at = query * kWidth + first + i;
        score += in(query, 0)[i] * in(key, 1)[i] / root;
        slope += inputs.dy.values[at] * (in(key, 2)[i] - serial.y[at]);
      }
      const double weight = std::exp(score - serial.statistics[line]);
      for (std::size_t i = 0; i < kHeadSize; ++i) {
        dkv[key * 2 * kWidth + first + i] += weight * slope * in(query, 0)[i] / root;
        dkv[(key * 2 + 1) * kWidth + first + i] += weight * inputs.dy.values[query * kWidth + first + i];
      }
    }
  }
  return dkv;
}

/// Is what each rank returned, from `at` on, what `expected(rank)` has in the rank's chunks?
inline bool all_ranks_have(const Outcome& outcome, std::size_t at, const Part& part,
                           const std::function<Values(int rank)>& expected) {
  for (std::size_t rank = 0; rank < outcome.values.size(); ++rank) {
    const Values whole = expected(static_cast<int>(rank));
    for (std::size_t i = 0; i < part.own; ++i)
      if (!(std::abs(outcome.values[rank].at(at + i) - whole[part.place(rank, i)]) <= 1e-4)) return false;
  }
  return true;
}

/// Why y of the forward pass is wrong, where that can be told.
inline std::string explain_y(const Case& c, const Outcome& outcome, SequenceCut cut, const Serial& serial) {
  const Part y = in_chunks("", c, cut, kWidth);
  Values one_more;  // with e^0 in each sum
  for (const double log_sum : serial.statistics) one_more.push_back(std::log1p(std::exp(log_sum)));
  if (all_ranks_have(outcome, y.own, statistics_in_chunks(c, cut), [&](int) { return one_more; }))
    return ". The statistics began at 0, as if each query had seen a key of score 0: of no keys they are −∞";
  const auto p = static_cast<std::size_t>(c.ranks);
  const auto of_others = [&](int r) {  // keys of rank r − k, taken for those of r + k
    return host_forward(c, cut, r,
                        [&](std::size_t u) {
                          for (std::size_t owner = 0; owner < p; ++owner)
                            for (std::size_t i = 0; i < 2; ++i)
                              if (right_chunks(owner, c.ranks, cut)[i] == u / c.size)
                                return right_chunks((2 * static_cast<std::size_t>(r) + p - owner) % p, c.ranks,
                                                    cut)[i] *
                                           c.size +
                                       u % c.size;
                          return u;
                        })
        .y;
  };
  if (p > 2 && all_ranks_have(outcome, 0, y, of_others))
    return ". Your mask is for keys of rank r + k: after k steps round the ring you hold those of rank r − k";
  return "";
}

/// This rank's chunks of a whole array.
inline Slice own_chunks(Rank me, const Part& part, const Values& whole) {
  HostMatrix own{1, part.own, {}};
  for (std::size_t i = 0; i < part.own; ++i)
    own.values.push_back(static_cast<float>(whole[part.place(static_cast<std::size_t>(me.rank()), i)]));
  return uploaded(me, own);
}

enum class Passes { none, forward, backward, both };

/// A rank's arrays. Before a backward pass alone, y and the statistics are there.
struct Arrays {
  Slice q, kv, y, statistics, dy, dq, dkv;
  Arrays(Rank me, const Case& c, SequenceCut cut, Passes passes) {
    const Inputs inputs(c);
    const Part narrow = in_chunks("", c, cut, kWidth), wide = in_chunks("", c, cut, 2 * kWidth);
    q = own_chunks(me, narrow, columns_of(inputs.qkv.values, 3 * kWidth, 0, kWidth));
    kv = own_chunks(me, wide, columns_of(inputs.qkv.values, 3 * kWidth, kWidth, 2 * kWidth));
    dy = own_chunks(me, narrow, {inputs.dy.values.begin(), inputs.dy.values.end()});
    const Serial before = passes == Passes::backward ? host_forward(c, cut, me.rank()) : Serial();
    y = before.y.empty() ? unwritten(me, q.size()) : own_chunks(me, narrow, before.y);
    statistics = before.y.empty() ? unwritten(me, q.size() / kHeadSize)
                                  : own_chunks(me, statistics_in_chunks(c, cut), before.statistics);
    dq = unwritten(me, q.size());
    dkv = unwritten(me, kv.size());
  }
};

/// Both passes, or one, or neither but as much memory as they may have: `blocks` as long as kv.
inline testing::CaseProgram ring_run(SequenceCut cut, Passes passes, int blocks = 0) {
  return [=](Rank me, const Case& c) {
    const RingAttention ring{me, whole_shape(c), cut};
    Arrays a(me, c, cut, passes);
    std::vector<Slice> held;
    for (int i = 0; i < blocks; ++i) held.push_back(me.allocate(a.kv.size(), DType::f32, Category::buffer));
    if (blocks > 0) return Values{};
    const bool forward = passes == Passes::forward || passes == Passes::both;
    if (forward) ring_attention_forward(ring, a.y, a.statistics, a.q, a.kv);
    Values seen;
    if (forward)
      for (const Slice& slice : {a.y, a.statistics}) append(seen, to_host(me, slice));
    if (passes != Passes::forward) {
      ring_attention_backward(ring, a.dq, a.dkv, a.dy, a.y, a.statistics, a.q, a.kv);
      for (const Slice& slice : {a.dq, a.dkv, a.dy}) append(seen, to_host(me, slice));
    }
    for (const Slice& slice : {a.q, a.kv}) append(seen, to_host(me, slice));
    return seen;
  };
}

/// Compares the results of a run of `passes` with attention over the whole on one rank.
inline std::string wrong_attention(const Case& c, const Outcome& outcome, SequenceCut cut, Passes passes) {
  const Serial serial = serial_attention(c);
  const Inputs inputs(c);
  std::vector<Part> parts;
  Values whole;
  const auto expect = [&](Part part, const Values& values) {
    parts.push_back(std::move(part));
    whole.insert(whole.end(), values.begin(), values.end());
  };
  if (passes != Passes::backward) {
    Part y = in_chunks("y", c, cut, kWidth);
    y.explain = [&] { return explain_y(c, outcome, cut, serial); };
    expect(y, serial.y);
    expect(statistics_in_chunks(c, cut), serial.statistics);
  }
  if (passes != Passes::forward) {
    expect(in_chunks("dq", c, cut, kWidth), serial.dq);
    Part dkv = in_chunks("dkv", c, cut, 2 * kWidth);
    std::size_t at = 0;
    for (const Part& part : parts) at += part.own;
    dkv.explain = [&, at, dkv]() -> std::string {
      const auto own = [&](int rank) { return host_own_dkv(c, cut, rank, serial); };
      if (c.ranks == 1 || !all_ranks_have(outcome, at, dkv, own)) return "";
      return ". It is what this rank's own queries contribute, and nothing else: after the last step the gradient of "
             "your keys comes home from the previous rank, and must be received into dkv";
    };
    expect(dkv, serial.dkv);
    expect(in_chunks("dy after the pass", c, cut, kWidth), {inputs.dy.values.begin(), inputs.dy.values.end()});
  }
  expect(in_chunks("q after the pass", c, cut, kWidth), columns_of(inputs.qkv.values, 3 * kWidth, 0, kWidth));
  expect(in_chunks("kv after the pass", c, cut, 2 * kWidth),
         columns_of(inputs.qkv.values, 3 * kWidth, kWidth, 2 * kWidth));
  // A score, the softmax of a row, y; and all of them again for a gradient, which sums over the sequence once more.
  return differs(outcome, parts, whole, 4 * (kHeadSize + whole_shape(c).positions) + 60);
}

/// "" where each rank sent what the contract allows: `blocks` times kv, in as many messages or fewer, to the next rank
/// alone.
inline std::string wrong_messages(const Case& c, const Outcome& outcome, std::uint64_t least, std::uint64_t most,
                                  const std::string& why) {
  const std::uint64_t block = 4 * 2 * kBatch * c.size * 2 * kWidth;
  for (int rank = 0; rank < c.ranks; ++rank) {
    const RankLedger& ledger = outcome.ledgers[static_cast<std::size_t>(rank)];
    const std::uint64_t sent = ledger.traffic.bytes_sent, next = ledger.sent_to((rank + 1) % c.ranks);
    if (sent < least * block || sent > most * block)
      return fmt::format("rank {} sent {} bytes, expected {}{} of {}: {}", rank, sent,
                         least == most ? "" : fmt::format("{} to ", least),
                         most == 1 ? "1 block" : fmt::format("{} blocks", most), block, why);
    if (sent != next)
      return fmt::format("rank {} sent {} of its {} bytes to ranks other than the next one, {}", rank, sent - next,
                         sent, (rank + 1) % c.ranks);
  }
  return "";
}

}  // namespace lockstep::week23::ring_attention_test
