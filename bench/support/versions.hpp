// What a benchmark is linked with and runs on, as its backend knows it.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lockstep::bench {

/// Of the arithmetic's libraries and the backend's.
std::vector<std::pair<std::string, std::string>> library_versions();

/// What else decides its speed: fields for the context of results.
std::vector<std::pair<std::string, std::string>> surroundings();

/// Of this process's GPU; 0 where the backend computes on the host.
double gpu_memory_bytes();

}  // namespace lockstep::bench
