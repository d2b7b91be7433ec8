// What a test program says while it runs, and when it dies of a signal, for ./lab check.
#pragma once

#include <cstddef>
#include <string_view>

namespace lockstep::testing {

/// Begins a line, "lockstep-still: SECONDS RANK FILE:LINE FUNCTION" with tabs between them, every few seconds: which
/// rank computes, and where it last called the runtime. A rank of −1: none runs.
inline constexpr std::string_view kStill = "lockstep-still: ";
/// Ends a line; those that follow are the frames of the call that died, "PROGRAM(+0xADDRESS)[…]".
inline constexpr std::string_view kDied = "lockstep-died:";
/// The first frames are the signal handler's.
inline constexpr std::size_t kFramesOfHandler = 2;

/// From now on both are said, on standard error.
void say_what_runs();

}  // namespace lockstep::testing
