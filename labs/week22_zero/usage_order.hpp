// Given, for 22.3 and 22.4: when a unit of tensors is needed, which follows from the order in which the model uses its
// tensors.
//
// A model runs in pieces: the embedding, each block, the head. Forward goes through them in order, backward in reverse.
// Before each piece it calls a hook (BeforePiece), and a sharded model makes sure that the tensors of that piece are in
// memory.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "common/gpt/model/units.hpp"
#include "common/rank.hpp"

namespace lockstep::week22 {

enum class Pass { forward, backward };

/// When each unit is needed in one pass. Positions count the pieces in the order of the pass. A unit
/// that is used twice is needed from its first use to its last.
struct UnitTimes {
  std::vector<std::size_t> begin;  ///< by unit: the position of its first use
  std::vector<std::size_t> end;    ///< by unit: the position of its last
  std::vector<std::size_t> order;  ///< the units, in the order in which they are first used
};

/// The position of `piece` in a pass over `pieces` of them.
inline std::size_t position_of(Pass pass, std::size_t piece, std::size_t pieces) {
  return pass == Pass::forward ? piece : pieces - 1 - piece;
}

/// A USAGE error when no piece uses a unit: its gradient would never be reduced.
inline UnitTimes unit_times(const std::vector<Unit>& units, const UsageOrder& usage_order, Pass pass) {
  const std::size_t never = usage_order.size();
  UnitTimes times{std::vector<std::size_t>(units.size(), never), std::vector<std::size_t>(units.size(), 0), {}};
  for (std::size_t u = 0; u < units.size(); ++u) {
    for (std::size_t v = 0; v < usage_order.size(); ++v) {
      if (std::none_of(usage_order[v].begin(), usage_order[v].end(), [&](std::size_t t) { return units[u].holds(t); }))
        continue;
      const std::size_t position = position_of(pass, v, usage_order.size());
      times.begin[u] = std::min(times.begin[u], position);
      times.end[u] = std::max(times.end[u], position);
    }
    if (times.begin[u] == never) usage_error("no piece of the model uses the unit " + units[u].name);
    times.order.push_back(u);
  }
  std::stable_sort(times.order.begin(), times.order.end(),
                   [&](std::size_t a, std::size_t b) { return times.begin[a] < times.begin[b]; });
  return times;
}

/// The most elements of whole units at one time in a pass: those that a piece uses, `ahead` more in the order of their
/// use, and with `behind` the last one that was finished before.
inline std::size_t most_elements(const std::vector<Unit>& units, const UsageOrder& usage_order, Pass pass,
                                 std::size_t ahead, bool behind) {
  const UnitTimes times = unit_times(units, usage_order, pass);
  std::size_t most = 0;
  for (std::size_t now = 0; now < usage_order.size(); ++now) {
    std::size_t sum = 0, further = ahead, finished = 0;
    std::size_t finished_at = 0;
    for (std::size_t u : times.order) {
      if (times.begin[u] <= now && now <= times.end[u]) sum += units[u].size;
      if (times.begin[u] > now && further > 0) sum += units[u].size, --further;
      if (times.end[u] < now && times.end[u] >= finished_at) finished = units[u].size, finished_at = times.end[u];
    }
    most = std::max(most, sum + (behind ? finished : 0));
  }
  return most;
}

}  // namespace lockstep::week22
