// From an answer's text to an object that the tests may be linked with. Whatever reads the text, or what came of it,
// runs confined and limited: the compiler, the assembler, and the tools that look at the object.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tools/course/paths.hpp"

namespace lockstep::tools {

struct Compiled {
  std::string verdict;  ///< empty: the object is there
  std::string reason;   ///< else why not, in words
};

/// Checks that an answer goes through; all but `everything` only to test what comes after such a check.
enum class Look : std::uint8_t {
  nothing,
  beyond_language,  ///< includes and object
  everything        ///< and the language that answers are written in (tools/course/answer_language.hpp)
};

class AnswerCompiler {
 public:
  /// A compiler that takes more `seconds` of its processor is ended.
  AnswerCompiler(const Paths& paths, Look look, double seconds);

  /// Writes grade/objects/ID.o in the build tree: of its symbols only those that the reference offers are global, and
  /// its writable data is together (common/runtime/private_data.hpp). `scratch` is an empty folder. Throws Error(usage)
  /// where the computer lacks something.
  Compiled compile(const Exercise& exercise, const std::string& text, const std::filesystem::path& scratch) const;

  std::filesystem::path object(const Exercise& exercise) const;

 private:
  const Paths& paths_;
  Look look_;
  std::uint64_t seconds_;
  std::vector<std::filesystem::path> headers_;
};

}  // namespace lockstep::tools
