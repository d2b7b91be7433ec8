// One run at a time saves to a folder. The lock is a file in it, DIR/lock, that says who holds it. Where the file
// system has locks of its own (flock), the system releases it with its process. Where it has none, or they may be known
// to one host only, the holder writes to the file every few seconds: a lock that nobody writes to is stale, and is
// taken over.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "common/gpt/checkpoint/files.hpp"

namespace lockstep::checkpoint {

struct LockOptions {
  std::string host, boot;  // names of this computer, and of its time since it was started; empty: ask the system
  std::chrono::milliseconds beat{5'000};      // between two signs of life
  std::chrono::milliseconds silence{20'000};  // after which the lock of another computer is stale
};

/// Throws Error(usage) in one sentence where another run holds the lock: which process, on which host, and since when.
/// Takes at most `silence`, and that long only where a run on another computer left its lock behind.
std::unique_ptr<Lock> lock_folder(const std::string& directory, const LockOptions& options = {});

}  // namespace lockstep::checkpoint
