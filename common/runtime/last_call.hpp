// The last request of the rank of this process that runs, or ran last, to the runtime, for a signal handler: only it
// may look while a rank computes.
#pragma once

#include "common/error.hpp"

namespace lockstep {

struct LastCall {
  int rank = -1;
  Location where{};  ///< line 0: it has made none
};

/// The last call of the rank that runs or, between ranks, ran last; null outside of a run. Set by backends whose ranks
/// share a process.
inline const LastCall* volatile running_call = nullptr;

}  // namespace lockstep
