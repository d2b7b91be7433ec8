// Charts of a pipeline. Rank r is stage r, and patterns tell kinds of work apart, such as forwards and backwards.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "common/runtime/trace/trace.hpp"

namespace lockstep {

/// Events whose name begins with `prefix`. In an SVG chart, the first arithmetic shade is plain; others (at most 3
/// more) are striped, each in its own direction and colour, and the legend explains them: "forward F (plain)",
/// "backward B (level)". In text, a step is drawn as its name, padded with `fill`.
struct Shade {
  std::string prefix;
  std::string name;
  std::string fill;
  bool arithmetic = true;  // false: messages, which an SVG chart draws all the same way
};

/// Like those of trace.hpp. Arithmetic that matches no shade is drawn like the first.
void write_gantt_svg(const Trace& trace, std::ostream& out, const std::string& title, const std::vector<Shade>& shades);
/// Below the line of each stage with timed messages, shows the messages in flight from it.
void write_gantt_text(const Trace& trace, std::ostream& out, int columns, const std::vector<Shade>& shades);

}  // namespace lockstep
