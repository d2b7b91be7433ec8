// The collectives of the backend's library, as baselines; not available to lab code.
#pragma once

#include <optional>

#include "bench/programs/collective_kinds.hpp"

namespace lockstep::bench {

/// Empty if the backend has no such library.
std::optional<CollectiveAlgorithm> library_collective(Collective collective);

}  // namespace lockstep::bench
