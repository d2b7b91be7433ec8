#include "common/error.hpp"
#include "tools/train/phantom.hpp"

namespace lockstep::train {

int report_phantom(const TrainPlan&) {
  throw Error(Verdict::usage, "--phantom is for the simulator: leave out --backend");
}

}  // namespace lockstep::train
