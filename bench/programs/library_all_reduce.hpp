// All-reduces of libraries, as baselines; not available to lab code.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/support/measure.hpp"
#include "common/rank.hpp"

namespace lockstep::bench {

/// Sums an f32 slice in place over the world; empty if the backend has no such library.
std::function<void(Rank, Slice)> library_all_reduce();

/// A library that is installed in addition to the backend's own.
struct OtherLibrary {
  std::string name;   // name of the contender
  std::string about;  // for the context of results: version, algorithm, and transport
  /// Its all-reduce of so many f32 in its own processes, on all ranks at once (Contender::apart).
  std::function<Apart(Rank, std::size_t elements, const Plan& plan)> measure;
};
std::vector<OtherLibrary> other_libraries();

}  // namespace lockstep::bench
