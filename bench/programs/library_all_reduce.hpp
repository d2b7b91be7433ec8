// All-reduces of libraries, as references to beat; never offered to lab code.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/support/measure.hpp"
#include "common/rank.hpp"

namespace lockstep::bench {

/// Sums an f32 slice in place over the world; empty where the backend has no such library.
std::function<void(Rank, Slice)> library_all_reduce();

/// Of a library that is installed beside the backend's own.
struct OtherLibrary {
  std::string name;   // of the contender
  std::string about;  // for the context of results: version, algorithm, and by what way its messages go
  /// Its all-reduce of so many f32 in processes of its own, on all ranks at once (Contender::apart).
  std::function<Apart(Rank, std::size_t elements, const Plan& plan)> measure;
};
std::vector<OtherLibrary> other_libraries();

}  // namespace lockstep::bench
