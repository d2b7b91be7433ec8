// The chart of a pipeline in text. Rank r is stage r, and its steps have names.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "common/runtime/trace/trace.hpp"

namespace lockstep {

/// Events whose name begins with `prefix`: a step is drawn as its name, padded with `fill`, and the legend explains it.
struct Shade {
  std::string prefix;
  std::string name;
  std::string fill;
  bool arithmetic = true;  // false: messages
};

/// Like that of trace.hpp. Below the line of each stage with timed messages, shows the messages in flight from it.
void write_gantt_text(const Trace& trace, std::ostream& out, int columns, const std::vector<Shade>& shades);

}  // namespace lockstep
