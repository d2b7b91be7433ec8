// The computer that a program runs on: its processor, and how many cores the program may really use.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

struct Host {
  std::string processor;        // "Intel(R) Xeon(R) Platinum 8480C", or "unknown"
  int hardware_threads = 1;     // allowed by the affinity mask
  int cores_in_affinity = 1;    // distinct cores among them: two threads of one core count once
  double quota_cores = 0;       // limit of the cgroup, in processors; 0: no limit
  int usable_cores = 1;         // cores_in_affinity, or the quota if that is less (rounded down, at least 1)
  double last_cache_bytes = 0;  // outermost cache of the first allowed hardware thread; 0: unknown
  double memory_bytes = 0;      // installed memory, or the cgroup's limit if that is less; 0: unknown
};

/// Returns the numbers of the hardware threads in the affinity mask.
std::vector<int> allowed_threads();

/// Reads /proc and /sys (Linux); a missing file means no limit. `root` is prepended to every path, for tests.
/// `threads`: numbers of the allowed hardware threads, by default those of the affinity mask.
Host read_host(const std::string& root = "", std::vector<int> threads = {});

/// Returns the machine file that ./lab calibrate writes for this computer: SOURCE/outputs/machines/HOST.json, where
/// HOST is the computer's name, plus the backend's unless it is "mpi". LOCKSTEP_MACHINES names another folder.
std::string machine_file_of_host(const std::string& source, const std::string& backend);

/// Ends this process when its parent ends, so that no orphans remain.
void die_with_parent();

}  // namespace lockstep
