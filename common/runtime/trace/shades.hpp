// A Gantt chart whose arithmetic is of several kinds, told apart by pattern: forwards from backwards, say.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "common/runtime/trace/trace.hpp"

namespace lockstep {

/// Arithmetic whose name begins with `prefix`. The first shade is plain, others (at most 3 more) are striped, each in
/// its own direction and colour. The legend says `name` and which it is: "forward (plain)", "backward (level)".
struct Shade {
  std::string prefix;
  std::string name;
};

/// As write_gantt_svg of trace.hpp. Arithmetic of no shade looks like that of the first.
void write_gantt_svg(const Trace& trace, std::ostream& out, const std::string& title, const std::vector<Shade>& shades);

}  // namespace lockstep
