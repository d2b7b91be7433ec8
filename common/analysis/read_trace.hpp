// Traces, read back from their files.
#pragma once

#include <string>

#include "common/trace/trace.hpp"

namespace lockstep {

/// Reads what write_chrome_trace wrote. Throws Error(usage) with one sentence that names `path`: no such file, not a
/// trace of ours, an empty one.
Trace read_chrome_trace(const std::string& path);

}  // namespace lockstep
