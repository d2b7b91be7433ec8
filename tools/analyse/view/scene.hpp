// A run as the page draws it: lanes, what happens on them, messages between them, and the sums of the legend, as JSON.
#pragma once

#include <cstddef>
#include <string>

#include "common/runtime/trace/trace.hpp"

namespace lockstep::view {

struct SceneOptions {
  std::string title;
  std::string limit;   // a sentence: what limits the run, where ./lab why finds it in another way; "": as in any trace
  std::string source;  // root of the source tree; "": no code is shown
  // Beyond either the first ranks alone are drawn event by event; sums are of all.
  std::size_t most_events = 150'000;
  std::size_t most_bytes = 2'600'000;
};

/// The object that tools/analyse/view/*.js reads.
std::string scene(const Trace& trace, const SceneOptions& options);

}  // namespace lockstep::view
