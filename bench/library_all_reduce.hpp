// The all-reduce of the backend's library, as a reference to beat; never offered to lab code.
#pragma once

#include <functional>

#include "common/rank.hpp"

namespace lockstep::bench {

/// Sums an f32 slice in place over the world; empty where the backend has no such library.
std::function<void(Rank, Slice)> library_all_reduce();

}  // namespace lockstep::bench
