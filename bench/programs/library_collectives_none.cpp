// For ranks in one process: no library has collectives for them.
#include "bench/programs/library_collectives.hpp"

namespace lockstep::bench {

std::optional<CollectiveAlgorithm> library_collective(Collective) { return {}; }

std::vector<OtherLibrary> other_libraries() { return {}; }

}  // namespace lockstep::bench
