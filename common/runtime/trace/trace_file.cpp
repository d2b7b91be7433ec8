#include <sstream>

#include "common/runtime/trace/trace.hpp"
#include "common/support/json/results.hpp"

namespace lockstep {

void write_trace(const Trace& trace, const std::string& path, const std::string& title) {
  std::ostringstream text;
  write_chrome_trace(trace, text, title);
  write_atomically(path, text.str());
}

}  // namespace lockstep
