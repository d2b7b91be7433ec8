// The traces of one run's ranks on one clock, and which of their collectives are the same one.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "tools/analyse/pytorch/trace.hpp"

namespace lockstep::pytorch {

/// One collective of a group, by rank.
struct Meeting {
  std::map<std::size_t, const Collective*> at;  // by index of the trace

  const Collective& any() const { return *at.begin()->second; }
  double first_arrival() const;  // seconds on the first rank's clock
  double last_arrival() const;
  double end() const;
};

struct Matched {
  std::vector<RankTrace> ranks;         // by rank; all times are on the first one's clock
  std::vector<Meeting> meetings;        // of two ranks or more, into `ranks`
  std::vector<std::string> mismatches;  // one sentence each

  Matched() = default;
  Matched(Matched&&) = default;  // the meetings' pointers stay valid, as in no copy
  Matched& operator=(Matched&&) = default;
};

/// Throws Error(usage) if two files are of the same rank, or cannot be of one run: its size, backend, steps or hours
/// differ.
Matched match(std::vector<RankTrace> traces);

}  // namespace lockstep::pytorch
