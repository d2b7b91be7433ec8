// Versions of the libraries that a benchmark is linked with: the arithmetic's, and the backend's.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace lockstep::bench {

std::vector<std::pair<std::string, std::string>> library_versions();

}  // namespace lockstep::bench
