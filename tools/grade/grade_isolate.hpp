// Takes an answer's object apart from the program that judges it. However an answer names its functions, what the tests
// call is their own: only the names that the reference offers stay global, and no other definition is merged with one
// of the tests' or the runtime's. Its writable data and its static initialisers are together, so that each rank has its
// own.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::tools {

/// The output of the assembler's tools about an object, confined and limited. Throws Error(usage) if one fails.
std::string said_of(std::vector<std::string> arguments, const std::filesystem::path& object);

/// The global definitions of a trusted object.
struct Offered {
  std::vector<std::string> names;     ///< all of them but the weak ones
  std::vector<std::string> required;  ///< functions and variables; the rest comes with classes
};
Offered offered_by(const std::filesystem::path& reference);

struct Isolated {
  std::filesystem::path object;  ///< next to the one it was made of
  std::string missing;           ///< the first function that it should define and does not, as a person writes it
  std::string refused;           ///< why it cannot be taken apart
};
/// Throws Error(usage) where a tool is missing.
Isolated isolate(const std::filesystem::path& object, const Offered& offered);

/// True if an answer may have a section of this name.
bool may_have_section(std::string_view name);

}  // namespace lockstep::tools
