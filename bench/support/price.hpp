// Prices a rank's arithmetic by a machine file without running it: for predictions on backends with real time.
#pragma once

#include <functional>

#include "common/runtime/run.hpp"

namespace lockstep::bench {

/// Seconds of the work that `prepare` returns: all operations one after the other, with the machine's prices. The work
/// of `prepare` itself does not count. One rank, no memory, no messages: a group of one.
double priced_seconds(const Machine& machine, const std::function<std::function<void()>(Rank)>& prepare);

}  // namespace lockstep::bench
