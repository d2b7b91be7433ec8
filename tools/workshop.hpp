// What every command works with: where things are, how to build, how to write to a terminal.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tools/course.hpp"

namespace lockstep::tools {

struct Workshop {
  std::filesystem::path source;  ///< the repository
  std::filesystem::path build;   ///< the build tree that this program belongs to
  std::filesystem::path labs;    ///< LOCKSTEP_LABS_DIR: the student's answers
  Course course;

  std::filesystem::path mine() const { return build / "mine"; }
  std::filesystem::path program(std::string_view name) const { return build / "programs" / name; }
  std::filesystem::path answer(const Exercise& e) const { return labs / e.folder / (e.name + ".cpp"); }
  std::filesystem::path solution(const Exercise& e) const {
    return source / "solutions" / e.folder / (e.name + ".cpp");
  }
  /// False for an exercise that the course lists and the suite does not have yet.
  bool has(const Exercise& e) const;
};

struct Built {
  bool ok = false;
  std::string log;  ///< of the build system and the compiler
};

/// Brings targets up to date, one build at a time in this tree. `what` ("21.2") is shown on a terminal while it takes.
Built build_targets(const Workshop& shop, const std::vector<std::string>& targets, std::string_view what);

/// The command line that runs `program` on `backend`, arguments to follow. For MPI: with `processes`, and ended by the
/// launcher after `timeout_seconds` (0: never), which leaves no process behind.
std::vector<std::string> launch(const Workshop& shop, const std::filesystem::path& program, std::string_view backend,
                                int processes, double timeout_seconds = 0);

/// Throws Error(usage) for a backend that does not exist, or that this build lacks.
void check_backend(const Workshop& shop, const std::string& backend);

/// Colours for standard output; all empty where it is no terminal, or NO_COLOR is set.
struct Style {
  std::string good, bad, open, faint, off;
};
Style style();
/// `text` filled up with blanks to `columns` characters (UTF-8), or as it is where it is longer.
std::string padded(std::string_view text, std::size_t columns);
/// Each line of `text` with `indent` before it.
std::string indented(std::string_view text, std::string_view indent);

}  // namespace lockstep::tools
