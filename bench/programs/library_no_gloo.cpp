// Where Gloo is not installed: no library stands beside MPI's own all-reduce.
#include "bench/programs/library_all_reduce.hpp"

namespace lockstep::bench {

std::vector<OtherLibrary> other_libraries() { return {}; }

}  // namespace lockstep::bench
