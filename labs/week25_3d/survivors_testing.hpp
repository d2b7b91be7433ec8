// What the tests of exercise 25.8 share: groups that change, and who holds what in them.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/testing/drawn.hpp"
#include "labs/week25_3d/survivors.hpp"

namespace lockstep::week25::survivors_test {

/// p ranks become was.size() members, as of moves_of.
struct Change {
  int ranks = 1;
  std::vector<int> was;
};

inline std::string words(const Change& change) {
  std::string members;
  for (int rank : change.was) members += (members.empty() ? "" : ", ") + std::to_string(rank);
  return fmt::format("from {} ranks to was = {{{}}}", change.ranks, members);
}

/// The ranks of p without those of `dead`, in order.
inline std::vector<int> without(int p, const std::vector<int>& dead) {
  std::vector<int> living;
  for (int r = 0; r < p; ++r)
    if (std::ranges::count(dead, r) == 0) living.push_back(r);
  return living;
}

/// No shard is lost in any of them; at most 6 ranks take part.
inline std::vector<Change> changes() {
  std::vector<Change> all{{4, {0, 2, 3}}, {2, {0}}, {2, {1}}};
  for (int p : {3, 5})
    for (int dead = 0; dead < p; ++dead) all.push_back({p, without(p, {dead})});
  all.push_back({6, {1, 3, 5}});      // each second one
  all.push_back({6, {0, 1, 3, 4}});   // two, which are no neighbours
  all.push_back({3, {0, 1, 2, -1}});  // one joins at the end,
  all.push_back({3, {-1, 0, 1, 2}});  // at the beginning,
  all.push_back({3, {0, -1, 2}});     // in a dead one's place,
  all.push_back({1, {0, -1, -1}});    // or where there was one
  all.push_back({4, {3, 0, 2}});      // another order
  all.push_back({5, {2, 0, 4, 3, 1}});
  all.push_back({4, {0, 1, 2, 3}});  // nothing changes
  const auto drawn = static_cast<int>(testing::drawn({25, 8}, 6));
  all.push_back({6, without(6, {drawn, (drawn + 2) % 6})});
  return all;
}

/// Whether member `member` holds shard `shard`, in its own snapshot or in that of the rank before it.
inline bool holds(const Change& change, int member, int shard, bool previous) {
  const int was = change.was[static_cast<std::size_t>(member)];
  return was >= 0 && (previous ? (was + change.ranks - 1) % change.ranks : was) == shard;
}

/// Which member gives shard `shard` to member `to`, and whether from the snapshot of its neighbour's; −1: nobody can.
struct Giver {
  int member = -1;
  bool previous = false;
};
inline Giver giver_of(const Change& change, int shard, int to) {
  for (const bool previous : {false, true})
    if (holds(change, to, shard, previous)) return {to, previous};
  for (const bool previous : {false, true})
    for (int m = 0; m < static_cast<int>(change.was.size()); ++m)
      if (holds(change, m, shard, previous)) return {m, previous};
  return {};
}

/// The elements that member `member` sends, in one array of n.
inline std::size_t sent_by(const Change& change, std::size_t n, int member) {
  std::size_t sent = 0;
  for (std::size_t e = 0; e < n; ++e) {
    const int to = chunk_of(n, e, static_cast<int>(change.was.size()));
    sent += to != member && giver_of(change, chunk_of(n, e, change.ranks), to).member == member;
  }
  return sent;
}

}  // namespace lockstep::week25::survivors_test
