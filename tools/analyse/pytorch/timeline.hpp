// A run of PyTorch as the trace that ./lab view draws and common/analysis replays.
#pragma once

#include <vector>

#include "common/runtime/trace/trace.hpp"
#include "tools/analyse/pytorch/match.hpp"

namespace lockstep::pytorch {

/// The place where a rank needs the result of a collective behind which it computed to the end. A profiler does not
/// record it.
enum class Needed {
  late,    // where it next waits for a collective, or in the step's last turn: it stays hidden as far as it can
  at_once  // in what it computes next
};

struct Timeline {
  Trace trace;
  std::vector<const Collective*> of_event;  // for each event the collective of the ranks whose transfer it is, or null
  std::vector<int> members;                 // for each event, and the size of its group; 0: unknown
};

/// Main computes, and each process group is a queue of its own, to which main gives collectives. `matched` must outlive
/// the result. In a collective that all ranks of a group have, each sends to the one that arrives last, and is answered
/// by it: so nobody continues before all have arrived. How the bytes move is not known, so these messages have none.
Timeline timeline(const Matched& matched, Needed needed = Needed::late);

}  // namespace lockstep::pytorch
