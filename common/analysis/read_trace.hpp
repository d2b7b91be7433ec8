// Traces, read back from their files.
#pragma once

#include <string>

#include "common/runtime/trace/trace.hpp"

namespace lockstep {

/// Reads what write_chrome_trace wrote. Throws Error(usage) with one sentence that names `path`: no such file, not a
/// trace of ours, an empty one, a number that no run has.
Trace read_chrome_trace(const std::string& path);
/// The same of a file's text; `path` is what messages call it.
Trace parse_chrome_trace(const std::string& text, const std::string& path);

}  // namespace lockstep
