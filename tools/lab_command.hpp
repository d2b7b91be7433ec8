// The command line of ./lab, read apart from what it asks for. A new command is one function in
// tools/course/commands.hpp and one paragraph in lab_command.cpp.
#pragma once

#include <functional>

#include "tools/course/commands.hpp"

namespace lockstep::tools {

/// What the words after ./lab ask for: a function that does it and returns the exit code; `paths` outlives it. Throws
/// Error(usage) where they ask for nothing that there is.
std::function<int()> read_command(const Paths& paths, int argc, const char* const* argv);

}  // namespace lockstep::tools
