// What a machine file says a rank's arithmetic takes, without doing it: predictions on backends whose time is real.
#pragma once

#include <functional>

#include "common/runtime/run.hpp"

namespace lockstep::bench {

/// Seconds of the work that `prepare` returns, all operations one after the other as the machine prices them; what
/// `prepare` itself does is not counted. One rank, no memory, no messages: a group of one.
double priced_seconds(const Machine& machine, const std::function<std::function<void()>(Rank)>& prepare);

}  // namespace lockstep::bench
