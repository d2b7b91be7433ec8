// Shared by the tests of exercise 25.8: groups that change, and who holds what in them.
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

/// True if member `member` holds shard `shard`, in its own snapshot or in that of the rank before it.
inline bool holds(const Change& change, int member, int shard, bool previous) {
  const int was = change.was[static_cast<std::size_t>(member)];
  return was >= 0 && (previous ? (was + change.ranks - 1) % change.ranks : was) == shard;
}

/// The member that gives shard `shard` to member `to`; −1: nobody can.
inline int giver_of(const Change& change, int shard, int to) {
  for (const bool previous : {false, true})
    if (holds(change, to, shard, previous)) return to;
  for (const bool previous : {false, true})
    for (int m = 0; m < static_cast<int>(change.was.size()); ++m)
      if (holds(change, m, shard, previous)) return m;
  return -1;
}

/// The elements that member `member` sends, in one array of n.
inline std::size_t sent_by(const Change& change, std::size_t n, int member) {
  std::size_t sent = 0;
  for (std::size_t e = 0; e < n; ++e) {
    const int to = chunk_of(n, e, static_cast<int>(change.was.size()));
    sent += to != member && giver_of(change, chunk_of(n, e, change.ranks), to) == member;
  }
  return sent;
}

inline std::string words(const Move& x) {
  return fmt::format("elements {} to {} for member {} from member {}{}", x.offset,
                     static_cast<std::int64_t>(x.offset + x.size) - 1, x.to, x.from,
                     x.previous ? "'s copy of its neighbour's shard" : "");
}

/// Describes the error in a move that begins where it should.
inline std::string wrong_move(const Change& change, std::size_t n, const Move& x) {
  const int members = static_cast<int>(change.was.size());
  if (x.size == 0 || x.offset + x.size > n) return "it is empty, or reaches beyond the array";
  if (x.to < 0 || x.to >= members || x.from < 0 || x.from >= members)
    return fmt::format("members are 0 to {}", members - 1);
  for (std::size_t e = x.offset; e < x.offset + x.size; ++e) {
    const int to = chunk_of(n, e, members), shard = chunk_of(n, e, change.ranks);
    if (to != x.to) return fmt::format("element {} is in member {}'s new chunk", e, to);
    if (!holds(change, x.from, shard, x.previous))
      return fmt::format("element {} is of shard {}, and member {} was rank {}", e, shard, x.from,
                         change.was[static_cast<std::size_t>(x.from)]);
    const int giver = giver_of(change, shard, to);
    if (x.from == to || x.from == giver) continue;
    if (giver == to) return fmt::format("member {} holds shard {} itself, so that nothing need be sent", to, shard);
    return fmt::format("shard {} comes from its own rank before it comes from a copy", shard);
  }
  return "";
}

inline std::string wrong_moves(const Change& change, std::size_t n, const std::vector<Move>& moves) {
  std::size_t at = 0;
  for (const Move& move : moves) {
    if (move.offset != at && at == 0)
      return fmt::format("the first move has {}, expected to begin with element 0", words(move));
    if (move.offset != at)
      return fmt::format("the moves before contain elements 0 to {}, and then come {}: each element once, in order",
                         static_cast<std::int64_t>(at) - 1, words(move));
    const std::string wrong = wrong_move(change, n, move);
    if (!wrong.empty()) return words(move) + ": " + wrong;
    at += move.size;
  }
  if (at == n) return "";
  return fmt::format("nobody gives element {}, which was on rank {}", at, chunk_of(n, at, change.ranks));
}

/// Lengths of the whole array.
constexpr std::size_t kLengths[] = {12, 2, 31, 0};

/// An error of part b, which part c depends on: "25.8b first: …"; "" also where there is no answer to ask.
inline std::string wrong_part_b() try {
  for (const Change& change : changes())
    for (const std::size_t n : kLengths)
      if (const std::string wrong = wrong_moves(change, n, moves_of(n, change.ranks, change.was)); !wrong.empty())
        return fmt::format("25.8b first: {}, {} elements: {}.", words(change), n, wrong);
  return "";
} catch (const Error&) {
  return "";
}

}  // namespace lockstep::week25::survivors_test
