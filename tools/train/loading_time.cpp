#include "common/backends/sim/host_time.hpp"
#include "tools/train/plan.hpp"

namespace lockstep::train {

void pass_loading_time(Rank me, double seconds) { pass_host_time(me, seconds); }

}  // namespace lockstep::train
