// Running another program: its output, its end, and a limit on its time.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::tools {

struct Command {
  std::vector<std::string> arguments;  ///< the program first; looked up in PATH where it has no slash
  std::filesystem::path folder;        ///< where it runs; empty: here
  double timeout_seconds = 0;          ///< 0: as long as it likes
  /// Gets each line of its standard output and error, as it comes. Empty: both go where ours go.
  std::function<void(std::string_view)> on_line;
};

struct Ended {
  int exit_code = 0;  ///< 128 + signal where it was killed
  int signal = 0;
  bool timed_out = false;
  double seconds = 0;

  bool ok() const { return exit_code == 0 && !timed_out; }
};

/// Runs to the end. After the time limit the program gets SIGTERM, and SIGKILL two seconds later. It shares our process
/// group, so Ctrl-C reaches it directly; we outlive it, so that it can clean up. Throws Error(usage) where it cannot be
/// started.
Ended run_command(const Command& command);

/// Becomes the program; returns only by throwing Error(usage).
[[noreturn]] void become(const std::vector<std::string>& arguments);

/// The whole path of `program` as PATH finds it; empty where it is not there.
std::string find_program(std::string_view program);

}  // namespace lockstep::tools
