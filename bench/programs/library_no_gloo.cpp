// Used if Gloo is not installed: MPI's own all-reduce is the only library.
#include "bench/programs/library_collectives.hpp"

namespace lockstep::bench {

std::vector<OtherLibrary> other_libraries() { return {}; }

}  // namespace lockstep::bench
