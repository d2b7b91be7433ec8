// Exercise 25.8: a rank dies, and the others continue. Read labs/week25_3d/survivors.hpp first.
#include "labs/week25_3d/survivors.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "common/arithmetic.hpp"
#include "labs/week25_3d/save_interval.hpp"

namespace lockstep::week25 {

int newest_whole(const std::vector<Remembered>& ranks, const std::vector<int>& dead) {
  const int p = static_cast<int>(ranks.size());
  const auto lives = [&dead](int rank) { return std::ranges::count(dead, rank) == 0; };
  // lab 25.8a begin: the largest step that for every shard is remembered by a living rank. Which two ranks may remember
  // a shard?
  std::map<int, int> shards;  // of each step, how many shards are remembered
  for (int r = 0; r < p; ++r) {
    const int next = (r + 1) % p;
    std::set<int> steps;
    if (lives(r)) steps.insert(ranks[r].own.begin(), ranks[r].own.end());
    if (lives(next)) steps.insert(ranks[next].previous.begin(), ranks[next].previous.end());
    for (int step : steps) ++shards[step];
  }
  int newest = -1;
  for (const auto& [step, count] : shards)
    if (count == p) newest = std::max(newest, step);
  return newest;
  // lab end
}

std::vector<Move> moves_of(std::size_t n, int p, const std::vector<int>& was) {
  std::vector<Move> moves;
  const int members = static_cast<int>(was.size());
  // Given: the member that was `rank` of the old p, modulo p; −1 if that rank is gone.
  const auto member = [&was, p](int rank) {
    const auto found = std::ranges::find(was, (rank + p) % p);
    return found == was.end() ? -1 : static_cast<int>(found - was.begin());
  };
  // lab 25.8b begin: where a new chunk and an old shard overlap, there is a move. Of the members that hold the old
  // shard, which one is it from?
  for (int to = 0; to < members; ++to)
    for (int old = 0; old < p; ++old) {
      const ChunkRange chunk = chunk_range(n, to, members), shard = chunk_range(n, old, p);
      const std::size_t first = std::max(chunk.offset, shard.offset);
      const std::size_t last = std::min(chunk.offset + chunk.size, shard.offset + shard.size);
      if (first >= last) continue;
      const int owner = member(old), neighbour = member(old + 1);
      const bool previous = owner != to && (neighbour == to || owner < 0);
      if (owner < 0 && neighbour < 0)
        throw Error(Verdict::fail, "shard " + std::to_string(old) + " is lost with both ranks that held it");
      moves.push_back({first, last - first, previous ? neighbour : owner, to, previous});
    }
  // lab end
  return moves;
}

Snapshot snapshot_of(Rank me, std::size_t n, const std::vector<Slice>& shard) {
  Snapshot snapshot;
  const int p = me.size(), r = me.rank();
  // lab 25.8c begin: copies of my own slices, and the neighbour's in new memory. How many elements has a slice of the
  // neighbour's?
  std::vector<Transfer> batch;
  for (const Slice& array : shard) {
    snapshot.own.push_back(me.allocate(array.size(), array.dtype(), Category::buffer));
    copy(me, snapshot.own.back(), array);
    snapshot.previous.push_back(me.allocate(chunk_range(n, r - 1, p).size, array.dtype(), Category::buffer));
    batch.push_back(send((r + 1) % p, array));
    batch.push_back(receive((r + p - 1) % p, snapshot.previous.back()));
  }
  me.exchange(batch);
  // lab end
  return snapshot;
}

void reshard(Rank group, std::size_t n, int p, const std::vector<int>& was, const Snapshot& held,
             const std::vector<Slice>& shard) {
  const int me = group.rank(), before = was[me];
  // Given: where in my snapshots, or in my new slices, the elements of a move begin.
  const auto in_held = [&](const Move& x) {
    return x.offset - chunk_range(n, before - (x.previous ? 1 : 0), p).offset;
  };
  const auto in_new = [&](const Move& x) { return x.offset - chunk_range(n, me, group.size()).offset; };
  // lab 25.8c begin: every move that concerns me is copied, sent or received, in each array
  std::vector<Transfer> batch;
  for (const Move& move : moves_of(n, p, was))
    for (std::size_t a = 0; a < shard.size(); ++a) {
      Slice give, take;
      if (move.from == me) give = (move.previous ? held.previous : held.own)[a].cut(in_held(move), move.size);
      if (move.to == me) take = shard[a].cut(in_new(move), move.size);
      if (move.from == me && move.to == me)
        copy(group, take, give);
      else if (move.from == me)
        batch.push_back(send(move.to, give));
      else if (move.to == me)
        batch.push_back(receive(move.from, take));
    }
  group.exchange(batch);
  // lab end
}

double goodput(const SurvivorCosts& costs) {
  // lab 25.8d begin: lasting work by 25.5a's formula, with the failures of all ranks; and the ranks that are there
  const double waste = expected_waste(
      {.save = costs.snapshot, .restart = costs.resume + costs.join, .mtbf = costs.mtbf / costs.ranks}, costs.interval);
  return (1 - waste) * costs.mtbf / (costs.mtbf + costs.repair);
  // lab end
}

double time_to_loss(const SurvivorCosts& costs, double window) {
  // lab 25.8d begin: how often one of p dies, and how likely one of its two neighbours dies within the window
  const double failures = costs.ranks / costs.mtbf, neighbour = 2 * window / costs.mtbf;
  return 1 / (failures * neighbour);
  // lab end
}

}  // namespace lockstep::week25
