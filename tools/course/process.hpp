// Running another program: its output, its end, and a limit on its time.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"

namespace lockstep::tools {

/// Slowdown of `processes` that want a core each, compared to running alone, where `runnable` ones want the computer's
/// `cores`: 1 while all of them have one, and at most 10, so that a program that never ends is ended.
double slowdown(double runnable, int cores, int processes);

/// Seconds as they would pass on a computer that has nothing else to do, for limits: a right answer must not fail
/// because others use the cores.
class WorkClock {
 public:
  explicit WorkClock(int processes);
  /// Since it was made. To be called often: the load is that of the time since the last call.
  double seconds();

 private:
  using Clock = std::chrono::steady_clock;
  int processes_, cores_;
  Clock::time_point last_ = Clock::now();
  double passed_ = 0;
};

struct Command {
  std::vector<std::string> arguments;  ///< the program first; looked up in PATH where it has no slash
  std::filesystem::path folder;        ///< where it runs; empty: here
  double timeout_seconds = 0;          ///< by WorkClock; 0: as long as it likes
  int processes = 1;                   ///< that want a core each
  std::uint64_t memory_bytes = 0;      ///< of address space that it may have; 0: as much as it likes
  /// Gets each line of its standard output and error, as it comes. Empty: both go where ours go.
  std::function<void(std::string_view)> on_line;
  std::function<void()> on_silence{};  ///< with on_line: called many times a second while no line comes; may be empty
};

/// Limit on address space, for tests and the code they call: a list that grows without end must not take all of a
/// laptop's. Under a sanitizer, which needs far more, 0 (none).
std::uint64_t memory_of_tests();

/// Ctrl-C has ended a command's process, so the command ends as well, without its further steps.
class Interrupted : public Error {
 public:
  explicit Interrupted(const std::string& message) : Error(Verdict::usage, message) {}
};

struct Ended {
  int exit_code = 0;  ///< 128 + signal where it was killed
  int signal = 0;
  bool timed_out = false;
  double seconds = 0;

  bool ok() const { return exit_code == 0 && !timed_out; }
  /// True if Ctrl-C ended it, or its own child, as launchers report it.
  bool interrupted() const;
};

/// Runs to the end. After the time limit the program gets SIGTERM, and SIGKILL two seconds later. It shares our process
/// group, so Ctrl-C reaches it directly; we outlive it, so that it can clean up. Throws Error(usage) where it cannot be
/// started.
Ended run_command(const Command& command);
/// The same; throws Interrupted ("interrupted: WHAT did not finish.") where Ctrl-C has ended it.
Ended run_uninterrupted(const Command& command, std::string_view what);
/// The same; returns what it prints. If it fails, throws Error(usage): `failed`, and then that.
std::string printed_by(Command command, std::string_view what, std::string_view failed);

/// Becomes the program; returns only by throwing Error(usage).
[[noreturn]] void become(const std::vector<std::string>& arguments);

/// The whole path of `program` as PATH finds it; empty where it is not there.
std::string find_program(std::string_view program);

}  // namespace lockstep::tools
