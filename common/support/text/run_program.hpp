// How every program ends: an exit code, and one sentence where it failed.
#pragma once

#include <functional>
#include <string>

namespace lockstep {

/// What `main` returns: what `body` returns; or where it throws, after the error's sentence on standard error behind
/// `prefix` ("lab why: "): 2 for Error(usage), NoDevice's code, else 1. Standard output that cannot be written, a full
/// disk's say, is an error too. `speaks`, where it is given: whether this process is the one that prints.
int run_program(const std::string& prefix, const std::function<int()>& body, const std::function<bool()>& speaks = {});

/// What was printed is written now. Throws Error(usage) where standard output cannot be.
void flush_output();

}  // namespace lockstep
