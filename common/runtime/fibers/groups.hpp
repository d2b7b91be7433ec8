// Groups of ranks and the collective calls that make them, `split` and `stream`. The k-th set-up call on a group must
// be the same on all members. Groups with equal members are one group.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/error.hpp"

namespace lockstep {

/// Seconds of a collective of `bytes` (the whole array) in which each rank sends `sent`.
using CollectiveSeconds = std::function<double(double bytes, double sent)>;

class Groups {
 public:
  /// Group 0 is the world: all ranks.
  explicit Groups(int ranks);

  int count() const { return static_cast<int>(groups_.size()); }
  const std::vector<int>& members(int group) const { return groups_[group]->members; }  ///< world ranks

  /// One rank's set-up call. `name` is the stream's; colour and key are the split's.
  struct Call {
    bool is_split = false;
    std::string name;
    int color = 0, key = 0;
    Location where{};
  };
  struct Arrival {
    std::uint64_t number = 0;  // number of the call on this group, from 0
    bool complete = false;     // true once all members have made it
    std::vector<int> waiting;  // when complete: members (world ranks) that made it earlier
  };
  /// `member` (a rank of the group) makes its next set-up call; messages use its `world_rank`. Throws Error(mismatch)
  /// if another member's call differs.
  Arrival arrive(int group, int member, int world_rank, const Call& call);

  /// For a complete call: the group that `member` belongs to, or −1 if its split passed a negative colour.
  int result(int group, std::uint64_t number, int member) const;

  /// A new group of `size` ranks of which the run contains only this one, as rank 0: see sim/symmetry.hpp.
  int symmetric_group(int world_rank, int size, int level, double share, CollectiveSeconds library);
  bool is_symmetric(int group) const { return groups_[group]->level >= 0; }
  int symmetry_level(int group) const { return groups_[group]->level; }
  double symmetry_share(int group) const { return groups_[group]->share; }
  const CollectiveSeconds& library(int group) const { return groups_[group]->library; }

  /// A member that has not made call `number`, and a description of what the others wait for.
  struct Missing {
    int world_rank = -1;
    std::string reason;
  };
  Missing missing(int group, std::uint64_t number) const;

 private:
  struct SetUp {
    Call first;  // as its first caller made it
    int first_rank = 0;
    std::vector<int> colors, keys;  // by member
    std::vector<int> waiting;
    int arrived = 0;
    std::vector<int> result;  // group by member
  };
  struct Group {
    std::vector<int> members;
    std::deque<SetUp> setups;
    std::vector<std::uint64_t> calls;  // by member
    int callers = 0;                   // members that make a set-up call: all, or the one rank of a symmetric group
    int level = -1;                    // symmetric group: the link between its ranks
    double share = 1;                  // symmetric group: fraction of its bytes for which it holds ports
    CollectiveSeconds library;         // symmetric group: empty, or the price of its collectives
  };
  int make(const std::vector<int>& members);
  void split(int group, SetUp& setup);

  std::vector<std::unique_ptr<Group>> groups_;
  std::map<std::vector<int>, int> known_;
};

}  // namespace lockstep
