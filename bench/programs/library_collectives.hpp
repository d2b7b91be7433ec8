// The collectives of libraries, as baselines; not available to lab code.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/programs/collective_kinds.hpp"

namespace lockstep::bench {

/// The backend's own; empty if it has no such library.
std::optional<CollectiveAlgorithm> library_collective(Collective collective);

/// A library with an all-reduce that is installed in addition to the backend's own.
struct OtherLibrary {
  std::string name;   // name of the contender
  std::string about;  // for the context of results: version, algorithm, and transport
  /// Its all-reduce of so many f32 in its own processes, on all ranks at once (Contender::apart).
  std::function<Apart(Rank, std::size_t elements, const Plan& plan)> measure;
};
std::vector<OtherLibrary> other_libraries();

}  // namespace lockstep::bench
