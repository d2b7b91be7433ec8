// Ranks of one process have no library that moves what they hold.
#include "bench/programs/library_collectives.hpp"

namespace lockstep::bench {

std::optional<CollectiveAlgorithm> library_collective(Collective) { return {}; }

}  // namespace lockstep::bench
