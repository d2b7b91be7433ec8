// The simulator computes on the CPU.
#include "bench/support/versions.hpp"
#include "common/devices/cpu/cpu_device.hpp"

namespace lockstep::bench {

std::vector<std::pair<std::string, std::string>> library_versions() { return {{"blas", cpu_blas_name()}}; }

std::vector<std::pair<std::string, std::string>> surroundings() { return {}; }

double gpu_memory_bytes() { return 0; }

}  // namespace lockstep::bench
