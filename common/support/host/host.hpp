// The computer that a program runs on: its processor, and how many cores the program may really use.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

struct Host {
  std::string processor;        // "Intel(R) Xeon(R) Platinum 8480C", or "unknown"
  int hardware_threads = 1;     // that the affinity mask allows
  int cores_in_affinity = 1;    // distinct cores among them: two threads of one core count once
  double quota_cores = 0;       // of the cgroup, in processors' worth of time; 0: no limit
  int usable_cores = 1;         // cores_in_affinity, or the quota where it is less (rounded down, at least 1)
  double last_cache_bytes = 0;  // of the outermost cache that the first allowed hardware thread has; 0: unknown
  double memory_bytes = 0;      // installed, or the cgroup's limit where it is less; 0: unknown
};

/// The numbers of the hardware threads that the affinity mask allows.
std::vector<int> allowed_threads();

/// Reads /proc and /sys (Linux); a file that is missing means no limit. `root` is put before every path, for tests;
/// `threads` are the numbers of the allowed hardware threads, by default those of the affinity mask.
Host read_host(const std::string& root = "", std::vector<int> threads = {});

/// What ./lab calibrate calls this computer's machine file: its name, and the backend's where that is not "mpi".
std::string machine_file_of_host(const std::string& backend);

/// From now on this process ends when the one that launched it does: no orphans.
void die_with_parent();

}  // namespace lockstep
