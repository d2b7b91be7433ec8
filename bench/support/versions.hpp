// Properties of a benchmark's libraries and hardware, reported by its backend.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lockstep::bench {

/// Versions of the arithmetic's libraries and the backend's.
std::vector<std::pair<std::string, std::string>> library_versions();

/// Other properties that affect its speed: fields for the context of results.
std::vector<std::pair<std::string, std::string>> surroundings();

/// Memory of this process's GPU in bytes; 0 if the backend computes on the host.
double gpu_memory_bytes();

}  // namespace lockstep::bench
