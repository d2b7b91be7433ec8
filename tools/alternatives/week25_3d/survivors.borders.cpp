// Exercise 25.8 in another way: steps are tried from the newest on, moves lie between neighbouring borders of both
// splits, batches are collected in two passes, and the formulas are written out.
#include "labs/week25_3d/survivors.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "common/arithmetic.hpp"

namespace lockstep::week25 {
namespace {

bool has(const std::vector<int>& numbers, int number) { return std::ranges::find(numbers, number) != numbers.end(); }

bool whole(const std::vector<Remembered>& ranks, const std::vector<int>& dead, int step) {
  for (std::size_t shard = 0; shard < ranks.size(); ++shard) {
    const std::size_t next = (shard + 1) % ranks.size();
    const bool owner = !has(dead, static_cast<int>(shard)) && has(ranks[shard].own, step);
    const bool copy = !has(dead, static_cast<int>(next)) && has(ranks[next].previous, step);
    if (!owner && !copy) return false;
  }
  return true;
}

/// The member that was `rank`; the number of members if it is gone.
int find_member(const std::vector<int>& was, int rank) {
  int m = 0;
  while (m < static_cast<int>(was.size()) && was[static_cast<std::size_t>(m)] != rank) ++m;
  return m;
}

}  // namespace

int newest_whole(const std::vector<Remembered>& ranks, const std::vector<int>& dead) {
  std::vector<int> steps;
  for (const Remembered& rank : ranks)
    for (const std::vector<int>* list : {&rank.own, &rank.previous})
      steps.insert(steps.end(), list->begin(), list->end());
  std::ranges::sort(steps, std::greater<>());
  for (const int step : steps)
    if (whole(ranks, dead, step)) return step;
  return -1;
}

std::vector<Move> moves_of(std::size_t n, int p, const std::vector<int>& was) {
  const int members = static_cast<int>(was.size());
  std::vector<std::size_t> borders{n};
  for (int old = 0; old < p; ++old) borders.push_back(chunk_range(n, old, p).offset);
  for (int m = 0; m < members; ++m) borders.push_back(chunk_range(n, m, members).offset);
  std::ranges::sort(borders);
  std::vector<Move> moves;
  for (std::size_t i = 1; i < borders.size(); ++i) {
    if (borders[i] == borders[i - 1]) continue;
    Move move{.offset = borders[i - 1], .size = borders[i] - borders[i - 1]};
    const int shard = chunk_of(n, move.offset, p), next = (shard + 1) % p;
    move.to = chunk_of(n, move.offset, members);
    const int holder = find_member(was, shard), copier = find_member(was, next);
    if (holder == members && copier == members)
      throw Error(Verdict::fail, "nobody holds shard " + std::to_string(shard) + " any more");
    move.from = holder == members ? copier : holder;
    if (copier == move.to && holder != move.to) move.from = copier;
    move.previous = move.from != holder;
    moves.push_back(move);
  }
  return moves;
}

Snapshot snapshot_of(Rank me, std::size_t n, const std::vector<Slice>& shard) {
  Snapshot snapshot;
  const int p = me.size(), before = (me.rank() + p - 1) % p;
  std::vector<Transfer> batch;
  for (const Slice& array : shard) {
    snapshot.previous.push_back(me.allocate(chunk_range(n, before, p).size, array.dtype(), Category::buffer));
    batch.push_back(receive(before, snapshot.previous.back()));
  }
  for (const Slice& array : shard) batch.push_back(send((me.rank() + 1) % p, array));
  const Ticket ticket = me.start(batch);
  for (const Slice& array : shard) {
    snapshot.own.push_back(me.allocate(array.size(), array.dtype(), Category::buffer));
    copy(me, snapshot.own.back(), array);
  }
  me.wait(ticket);
  return snapshot;
}

void reshard(Rank group, std::size_t n, int p, const std::vector<int>& was, const Snapshot& held,
             const std::vector<Slice>& shard) {
  const int me = group.rank(), before = was[static_cast<std::size_t>(me)];
  const std::vector<Move> moves = moves_of(n, p, was);
  const auto given = [&](const Move& x, std::size_t a) {
    const Slice& from = x.previous ? held.previous[a] : held.own[a];
    return from.cut(x.offset - chunk_range(n, x.previous ? before - 1 : before, p).offset, x.size);
  };
  const auto taken = [&](const Move& x, std::size_t a) {
    return shard[a].cut(x.offset - chunk_range(n, me, group.size()).offset, x.size);
  };
  std::vector<Transfer> batch;
  for (std::size_t a = 0; a < shard.size(); ++a)
    for (const Move& x : moves)
      if (x.to == me && x.from != me) batch.push_back(receive(x.from, taken(x, a)));
  for (std::size_t a = 0; a < shard.size(); ++a)
    for (const Move& x : moves)
      if (x.from == me && x.to != me) batch.push_back(send(x.to, given(x, a)));
  const Ticket ticket = group.start(batch);
  for (std::size_t a = 0; a < shard.size(); ++a)
    for (const Move& x : moves)
      if (x.from == me && x.to == me) copy(group, taken(x, a), given(x, a));
  group.wait(ticket);
}

double goodput(const SurvivorCosts& costs) {
  const double m = costs.mtbf / costs.ranks;
  const double taken =
      m * std::exp((costs.resume + costs.join) / m) * std::expm1((costs.interval + costs.snapshot) / m);
  return costs.interval / taken / (1 + costs.repair / costs.mtbf);
}

double time_to_loss(const SurvivorCosts& costs, double window) {
  return costs.mtbf * costs.mtbf / (2 * costs.ranks * window);
}

}  // namespace lockstep::week25
