#include <sstream>

#include "common/runtime/trace/trace.hpp"
#include "common/support/json/results.hpp"

namespace lockstep {

void write_trace(const Trace& trace, const std::string& path, const std::string& title) {
  std::ostringstream text;
  if (path.ends_with(".svg"))
    write_gantt_svg(trace, text, title);
  else
    write_chrome_trace(trace, text);
  write_atomically(path, text.str());
}

}  // namespace lockstep
