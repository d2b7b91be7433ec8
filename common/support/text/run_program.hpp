// The end of every program: an exit code, and one sentence if it failed.
#pragma once

#include <functional>
#include <string>

namespace lockstep {

/// Returns the value for `main`: the result of `body`. If it throws, writes `prefix` ("lab why: ") and the error's
/// sentence to standard error and returns 2 for Error(usage), NoDevice's code, else 1. An error in writing standard
/// output (a full disk) counts, too. `speaks`, if given, returns true in the process that prints.
int run_program(const std::string& prefix, const std::function<int()>& body, const std::function<bool()>& speaks = {});

/// Flushes standard output. Throws Error(usage) if it cannot be written.
void flush_output();

}  // namespace lockstep
