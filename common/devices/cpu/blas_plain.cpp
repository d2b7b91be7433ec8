// Any BLAS with a C interface: there is nothing to choose.
#include "common/devices/cpu/sgemm.hpp"

namespace lockstep::cpu {

void use_one_thread() {}
const char* sgemm_name() { return "BLAS"; }

}  // namespace lockstep::cpu
