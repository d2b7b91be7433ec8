// Exercise 25.8 in another way: who gives an element is asked for each element, and neighbours of the same kind become
// one move. Of each step, it is counted for which shards it is missing.
#include "labs/week25_3d/survivors.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "common/arithmetic.hpp"
#include "labs/week25_3d/save_interval.hpp"

namespace lockstep::week25 {

int newest_whole(const std::vector<Remembered>& ranks, const std::vector<int>& dead) {
  const std::size_t p = ranks.size();
  std::vector<std::set<int>> shards(p);
  for (std::size_t r = 0; r < p; ++r) {
    if (std::ranges::count(dead, static_cast<int>(r)) > 0) continue;
    shards[r].insert(ranks[r].own.begin(), ranks[r].own.end());
    shards[(r + p - 1) % p].insert(ranks[r].previous.begin(), ranks[r].previous.end());
  }
  std::set<int> common = shards[0];
  for (const std::set<int>& steps : shards) std::erase_if(common, [&](int step) { return !steps.contains(step); });
  return common.empty() ? -1 : *common.rbegin();
}

std::vector<Move> moves_of(std::size_t n, int p, const std::vector<int>& was) {
  const int members = static_cast<int>(was.size());
  std::vector<Move> moves;
  for (std::size_t e = 0; e < n; ++e) {
    Move move{.offset = e, .size = 1, .from = -1, .to = chunk_of(n, e, members)};
    const int shard = chunk_of(n, e, p);
    int best = 4;  // of 0 and 1: at home; 2: the shard's own rank; 3: its neighbour
    for (int m = 0; m < members; ++m) {
      const int rank = was[static_cast<std::size_t>(m)];
      const bool own = rank == shard, copy = rank >= 0 && (rank + p - 1) % p == shard;
      if (!own && !copy) continue;
      const int price = m == move.to ? (own ? 0 : 1) : (own ? 2 : 3);
      if (price < best) best = price, move.from = m, move.previous = !own;
    }
    if (best == 4) throw Error(Verdict::fail, "lost: shard " + std::to_string(shard));
    const bool continues = !moves.empty() && moves.back().from == move.from && moves.back().to == move.to &&
                           moves.back().previous == move.previous && chunk_of(n, moves.back().offset, p) == shard;
    if (continues)
      ++moves.back().size;
    else
      moves.push_back(move);
  }
  return moves;
}

Snapshot snapshot_of(Rank me, std::size_t n, const std::vector<Slice>& shard) {
  const int p = me.size(), next = (me.rank() + 1) % p, before = (me.rank() + p - 1) % p;
  Snapshot snapshot;
  std::vector<Transfer> batch;
  for (const Slice& array : shard) {
    const Slice own = me.allocate(array.size(), array.dtype(), Category::buffer);
    const Slice previous = me.allocate(chunk_range(n, before, p).size, array.dtype(), Category::buffer);
    copy(me, own, array);
    batch.push_back(send(next, own));
    batch.push_back(receive(before, previous));
    snapshot.own.push_back(own);
    snapshot.previous.push_back(previous);
  }
  me.exchange(batch);
  return snapshot;
}

void reshard(Rank group, std::size_t n, int p, const std::vector<int>& was, const Snapshot& held,
             const std::vector<Slice>& shard) {
  const int me = group.rank();
  const std::size_t begin = chunk_range(n, me, group.size()).offset;
  std::vector<Transfer> batch;
  for (std::size_t a = 0; a < shard.size(); ++a)
    for (const Move& x : moves_of(n, p, was)) {
      if (x.from != me && x.to != me) continue;
      if (x.from != me) {
        batch.push_back(receive(x.from, shard[a].cut(x.offset - begin, x.size)));
        continue;
      }
      const int rank = was[static_cast<std::size_t>(me)];
      const std::size_t old = chunk_range(n, x.previous ? (rank + p - 1) % p : rank, p).offset;
      const Slice give = (x.previous ? held.previous : held.own)[a].cut(x.offset - old, x.size);
      if (x.to == me)
        copy(group, shard[a].cut(x.offset - begin, x.size), give);
      else
        batch.push_back(send(x.to, give));
    }
  if (!batch.empty()) group.exchange(batch);
}

double goodput(const SurvivorCosts& costs) {
  const SavingCosts saving{costs.snapshot, costs.resume + costs.join, costs.mtbf / costs.ranks};
  const double there = costs.mtbf / (costs.mtbf + costs.repair);
  return there - there * expected_waste(saving, costs.interval);
}

double time_to_loss(const SurvivorCosts& costs, double window) {
  const double pairs = costs.ranks, per_pair = 2 * window / costs.mtbf / costs.mtbf;
  return 1 / pairs / per_pair;
}

}  // namespace lockstep::week25
