// The simulator has no library of its own to compare with.
#include "bench/programs/library_all_reduce.hpp"
#include "bench/support/versions.hpp"
#include "common/devices/cpu/cpu_device.hpp"

namespace lockstep::bench {

std::function<void(Rank, Slice)> library_all_reduce() { return {}; }

std::vector<OtherLibrary> other_libraries() { return {}; }

std::vector<std::pair<std::string, std::string>> library_versions() { return {{"blas", cpu_blas_name()}}; }

std::vector<std::pair<std::string, std::string>> surroundings() { return {}; }

double gpu_memory_bytes() { return 0; }

}  // namespace lockstep::bench
