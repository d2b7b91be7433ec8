// Charts of a pipeline: rank r is stage r, and its work is of several kinds, told apart by pattern: forwards from
// backwards, say.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "common/runtime/trace/trace.hpp"

namespace lockstep {

/// Events whose name begins with `prefix`. In an SVG chart the first arithmetic is plain, others (at most 3 more) are
/// striped, each in its own direction and colour, and the legend says which: "forward F (plain)", "backward B (level)".
/// In text a step is its name, and the rest of it `fill`.
struct Shade {
  std::string prefix;
  std::string name;
  std::string fill;
  bool arithmetic = true;  // else messages, which an SVG chart does not tell apart
};

/// As those of trace.hpp. Arithmetic of no shade looks like that of the first.
void write_gantt_svg(const Trace& trace, std::ostream& out, const std::string& title, const std::vector<Shade>& shades);
/// Below each stage's line, where messages take time, those on their way from it.
void write_gantt_text(const Trace& trace, std::ostream& out, int columns, const std::vector<Shade>& shades);

}  // namespace lockstep
