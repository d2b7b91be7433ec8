// Messages of a test program while it runs, and when it dies of a signal, for ./lab check.
#pragma once

#include <cstddef>
#include <string_view>

namespace lockstep::testing {

/// Begins a line, "lockstep-still: SECONDS RANK FILE:LINE FUNCTION CASE OPTIONS" with tabs between them, every few
/// seconds: which rank computes, or did last, and where it last called the runtime. A rank of −1: none has run.
inline constexpr std::string_view kStill = "lockstep-still: ";
/// Begins a line, "lockstep-died: CAUSE CASE OPTIONS" likewise, of which each may be empty; the lines that follow are
/// the frames of the call that died, "PROGRAM(+0xADDRESS)[…]".
inline constexpr std::string_view kDied = "lockstep-died: ";
/// The first frames are the signal handler's.
inline constexpr std::size_t kFramesOfHandler = 2;

/// From now on both are said, on standard error.
void say_what_runs();

/// The case that runs while this exists: "with 3 ranks and 7 elements per rank", and the options that ask for it alone,
/// "--ranks 3 --size 7".
class CaseThatRuns {
 public:
  CaseThatRuns(std::string_view words, std::string_view options);
  ~CaseThatRuns();
  CaseThatRuns(const CaseThatRuns&) = delete;
};

}  // namespace lockstep::testing
