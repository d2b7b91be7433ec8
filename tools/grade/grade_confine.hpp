// Confines a student's process: limits that it inherits and cannot lift.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tools/course/process.hpp"

namespace lockstep::tools {

/// Limits of one process (setrlimit), in addition to its time by the clock, which its parent watches.
struct Limits {
  double wall_seconds = 60;
  std::uint64_t cpu_seconds = 60;
  std::uint64_t memory_bytes = memory_of_tests();       ///< of address space; 0: as much as it likes
  std::uint64_t file_bytes = std::uint64_t{64} << 20;   ///< of each file it writes
  std::uint64_t output_bytes = std::uint64_t{8} << 20;  ///< of what it prints; checked by its parent
  /// Bytes of all files below the folder that it writes to, of which there may be kMostFiles; checked by its parent.
  std::uint64_t folder_bytes = std::uint64_t{256} << 20;
  static constexpr int kMostFiles = 1000;
};

/// In a child, between fork and exec: sets the limits. Throws std::runtime_error where the kernel refuses.
void limit(const Limits& limits);

/// Permissions of a process that is confined.
struct Confinement {
  std::filesystem::path scratch;  ///< it writes, makes and removes files below this folder only
  /// Files and folders that it can read, in addition to `scratch` and system_files().
  std::vector<std::filesystem::path> may_read;
  bool may_start_processes = false;  ///< a compiler starts its parts; they are confined like itself
};

/// In a child, between fork and exec, for a program that holds a student's code or reads what a student wrote: files as
/// `what` says (Landlock), no other process but where that says so, no socket, and nothing that signals, traces or
/// writes into another process (seccomp). What this kernel lacks is left out: see missing_confinement. Throws
/// std::runtime_error where what it has does not work.
void confine(const Confinement& what);

/// Programs, libraries and their data, as the system installed them: what there is of them.
std::vector<std::filesystem::path> system_files();

/// Names what this kernel cannot forbid: "" on Linux 5.13 or newer with Landlock and seccomp, on x86-64 or AArch64.
std::string missing_confinement();

}  // namespace lockstep::tools
