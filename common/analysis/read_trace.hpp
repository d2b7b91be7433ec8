// Reads traces from files.
#pragma once

#include <string>

#include "common/runtime/trace/trace.hpp"

namespace lockstep {

/// Reads a file of write_chrome_trace. Throws Error(usage) with one sentence that names `path` if there is no such
/// file, it is not such a trace, it is empty, or a number is impossible.
Trace read_chrome_trace(const std::string& path);
/// The same for a file's text; `path` names it in messages.
Trace parse_chrome_trace(const std::string& text, const std::string& path);

}  // namespace lockstep
