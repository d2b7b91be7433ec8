// What a student's process may not do: limits that it inherits and cannot lift.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace lockstep::tools {

/// Limits of one process (setrlimit), beside its time by the clock, which its parent watches.
struct Limits {
  double wall_seconds = 60;
  std::uint64_t cpu_seconds = 60;
  std::uint64_t memory_bytes = std::uint64_t{4} << 30;  ///< of address space
  std::uint64_t file_bytes = std::uint64_t{64} << 20;   ///< of each file it writes
  std::uint64_t output_bytes = std::uint64_t{8} << 20;  ///< of what it prints; checked by its parent
};

/// In a child, between fork and exec: sets the limits. Throws std::runtime_error where the kernel refuses.
void limit(const Limits& limits);

/// In a child, between fork and exec, for a program that holds a student's code: it can write, make and remove files
/// below `scratch` only (Landlock), start no process, open no socket, and signal, trace or write into no other process
/// (seccomp). What this kernel lacks is left out: see missing_confinement. Throws std::runtime_error where what it has
/// does not work.
void confine(const std::filesystem::path& scratch);

/// What this kernel cannot forbid, in words: "" on Linux 5.13 or newer with Landlock and seccomp, on x86-64 or AArch64.
std::string missing_confinement();

}  // namespace lockstep::tools
