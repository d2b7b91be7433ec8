#include "common/devices/cpu/cpu_device.hpp"
#include "common/devices/tests/host_workplace.hpp"

namespace lockstep::testing {

std::unique_ptr<Workplace> make_workplace(int threads) {
  return std::make_unique<HostWorkplace>(make_cpu_device(threads));
}

}  // namespace lockstep::testing
