// Runs a program that holds a student's code, apart: confined, limited, killed as a whole, its verdict sealed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tools/grade/grade_confine.hpp"

namespace lockstep::tools {

/// The rules that a program runs under, apart from its limits.
enum class Rules : std::uint8_t {
  limits_only,  ///< our own build, which holds nothing that was not looked at
  reader,       ///< reads what a student wrote: confined to `folder`, with a small environment
  compiler,     ///< the same, and may start processes
  sealed        ///< holds a student's code: like a reader, and its verdict is sealed
};

struct Confined {
  std::vector<std::string> arguments;  ///< the program first; looked up in PATH where it has no slash
  std::filesystem::path folder;        ///< where it runs, and the only one it can write to; empty: here
  Limits limits;
  Rules rules = Rules::sealed;
  std::vector<std::filesystem::path> may_read;  ///< in addition to `folder` and system_files()
  const char* locale = "C.UTF-8";
  std::size_t kept_bytes = 16 * 1024;  ///< of what it prints
};

struct ConfinedEnd {
  int exit_code = 0;  ///< 128 + signal where it was killed
  bool timed_out = false, printed_too_much = false, wrote_too_much = false;
  std::string output;        ///< what it printed, its beginning
  bool sealed = false;       ///< it wrote one line, and the line began with this run's secret
  std::string under_seal;    ///< the rest of that line
  std::string without_seal;  ///< why it is not sealed, in words
};

/// The size of a file that its process may take away meanwhile, which then counts 0.
std::uint64_t bytes_of(const std::filesystem::directory_entry& file);

/// A folder that is gone when we are.
class Scratch {
 public:
  Scratch();  ///< throws Error(usage) where none can be made
  ~Scratch();
  Scratch(const Scratch&) = delete;
  const std::filesystem::path& path() const { return path_; }

  /// The beginning of all their paths; so many characters that are drawn follow.
  static std::string prefix();
  static constexpr std::size_t kDrawn = 6;

 private:
  std::filesystem::path path_;
};

/// While it lives, Ctrl-C (and SIGTERM, and a terminal that is closed) does not end us at once: what run_confined()
/// runs is killed, and it throws Interrupted, so that no folder stays. A second one ends us.
class Interruptible {
 public:
  Interruptible();
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
};

/// Runs to the end, then kills what is left of its process group. A sealed program reads a secret of 32 characters from
/// descriptor 3 before any other code of it runs, and writes "SECRET WORDS\n" to descriptor 4 when its tests are over
/// (tools/grade/grade_seal.cpp). Throws Error(usage) where it cannot be started or confined, and Interrupted.
ConfinedEnd run_confined(const Confined& command);

}  // namespace lockstep::tools
