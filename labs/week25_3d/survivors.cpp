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
  todo("25.8a",
       "the largest step that for every shard is remembered by a living rank. Which two ranks may remember a shard?");
}

std::vector<Move> moves_of(std::size_t n, int p, const std::vector<int>& was) {
  std::vector<Move> moves;
  const int members = static_cast<int>(was.size());
  // Given: the member that was `rank` of the old p, modulo p; −1 if that rank is gone.
  const auto member = [&was, p](int rank) {
    const auto found = std::ranges::find(was, (rank + p) % p);
    return found == was.end() ? -1 : static_cast<int>(found - was.begin());
  };
  todo("25.8b",
       "where a new chunk and an old shard overlap, there is a move. Of the members that hold the old shard, which "
       "one is it from?");
  return moves;
}

Snapshot snapshot_of(Rank me, std::size_t n, const std::vector<Slice>& shard) {
  Snapshot snapshot;
  const int p = me.size(), r = me.rank();
  todo("25.8c",
       "copies of my own slices, and the neighbour's in new memory. How many elements has a slice of the "
       "neighbour's?");
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
  todo("25.8c", "every move that concerns me is copied, sent or received, in each array");
}

double goodput(const SurvivorCosts& costs) {
  todo("25.8d", "lasting work by 25.5a's formula, with the failures of all ranks; and the ranks that are there");
}

double time_to_loss(const SurvivorCosts& costs, double window) {
  todo("25.8d", "how often one of p dies, and how likely one of its two neighbours dies within the window");
}

}  // namespace lockstep::week25
