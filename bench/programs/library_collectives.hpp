// The backend's library's own collectives beside ours, as references to beat; never offered to lab code.
#pragma once

#include <optional>

#include "bench/programs/collective_kinds.hpp"

namespace lockstep::bench {

/// Empty where the backend has no such library.
std::optional<CollectiveAlgorithm> library_collective(Collective collective);

}  // namespace lockstep::bench
