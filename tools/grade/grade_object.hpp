// A look at a student's compiled object before it runs: what it includes and calls.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "tools/course/paths.hpp"

namespace lockstep::tools {

/// Words that the headers of an answer have, and declare what they declare with.
using Declared = std::set<std::string, std::less<>>;

/// Why an answer's object is not run, in a sentence; "" where it is fine. It may call what the headers that it includes
/// declare in lockstep::, the C++ library without its files and what ranks would share there, and the few functions of
/// the C library that compute or print. It may not hold instructions that call the kernel, or code that runs before the
/// program's own. The sentence has the line on which `answer`, its text, first names what is refused, if any does.
std::string object_refused(const std::filesystem::path& object, const Declared& declared, std::string_view answer);

/// The same for what its compilation read, by the list that the compiler wrote for Make: headers of labs/ and common/
/// (without their tests) and of the system, and `source` itself. Fails closed: an answer without a list is refused.
std::string include_refused(const Paths& paths, const std::filesystem::path& list, const std::filesystem::path& source);

/// The name by which a student is told of a file that the text of `answer` has led to: its path below the repository's
/// top, or as the answer itself names it, else its name alone. Paths on the grader's computer are not disclosed.
std::string told_file(const Paths& paths, const std::filesystem::path& file, std::string_view answer);

/// " (line 12)": where the text of `answer` first names "std::random_device::_M_getval()", or else what that is in;
/// "" where it names neither.
std::string named_at(std::string_view answer, std::string name);

/// The function by which a symbol opens files, as C++ names it: "std::filesystem"; "" if it opens none.
std::string_view opened_with(std::string_view symbol);
/// True if the object may call this undefined symbol, spelled as the linker does. In the header for its test.
bool may_call(std::string_view symbol);
/// True if a symbol of lockstep:: is declared by a header, and not by the answer itself: each part of its name is a
/// word there. True for all other symbols.
bool is_declared(std::string_view symbol, const Declared& declared);
/// For one file that its compilation read.
bool may_include(const Paths& paths, const std::filesystem::path& file);

}  // namespace lockstep::tools
