// One HTML file that plays runs: no network, no server, no other file.
#pragma once

#include <string>
#include <vector>

#include "tools/analyse/view/scene.hpp"

namespace lockstep::view {

struct NamedTrace {
  std::string title;  // of its file
  Trace trace;
};

struct PageOptions {
  bool together = false;  // two runs side by side on one time axis
  bool ghost = false;     // of two: the second one's work as a thin lane below each rank of the first
  std::string limit;      // as in SceneOptions
  std::string source;
  std::size_t most_events = SceneOptions{}.most_events;
};

/// At least one run; the page opens with the first that did not pass, else with the one that has the most events.
std::string page(const std::vector<NamedTrace>& runs, const PageOptions& options);

/// "outputs/view/trace-21.2-IsTheRing.json" → "21.2-IsTheRing".
std::string title_of(const std::string& path);

}  // namespace lockstep::view
