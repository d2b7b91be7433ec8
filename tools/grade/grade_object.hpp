// A look at a student's compiled object before it runs: what it includes, calls and defines.
#pragma once

#include <string>
#include <string_view>

#include "tools/course/paths.hpp"

namespace lockstep::tools {

/// Why an answer's object is not run, in a sentence; "" where it is fine. It may include headers of labs/ and common/
/// (without their tests) and of the system; call lockstep::, the C++ library without its files, and the few functions
/// of the C library that compute or print; define what is its own. It may not hold instructions that call the kernel,
/// or code that runs before the program's own.
std::string object_refused(const Paths& paths, const Exercise& exercise, const std::filesystem::path& object);

/// The same for one undefined symbol, as the linker spells it. In the header for its test.
bool may_call(std::string_view symbol);
/// For one global symbol that it defines, of the type that nm(1) says ("T", "W", …).
bool may_define(std::string_view symbol, char type);
/// For one file that its compilation read.
bool may_include(const Paths& paths, const std::filesystem::path& file);

}  // namespace lockstep::tools
