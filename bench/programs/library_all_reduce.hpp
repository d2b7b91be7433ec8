// All-reduces of libraries, as references to beat; never offered to lab code.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/rank.hpp"

namespace lockstep::bench {

/// Sums an f32 slice in place over the world; empty where the backend has no such library.
std::function<void(Rank, Slice)> library_all_reduce();

/// Of a library that is installed beside the backend's own.
struct OtherLibrary {
  std::string name;   // of the contender
  std::string about;  // for the context of results: version, algorithm, and by what way its messages go
  /// Connects this run's ranks, on all of them at once; what it returns sums an f32 slice in place over the world.
  std::function<std::function<void(Rank, Slice)>(Rank)> connect;
};
std::vector<OtherLibrary> other_libraries();

}  // namespace lockstep::bench
