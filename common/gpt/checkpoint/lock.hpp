// Lets one run at a time save to a folder. The lock is the system's (flock) on DIR/lock, a file that names its holder.
// The system releases it when the process ends, even if it is killed.
#pragma once

#include <memory>
#include <string>

#include "common/gpt/checkpoint/files.hpp"

namespace lockstep::checkpoint {

/// Throws Error(usage) with one sentence if another run holds the lock: which process, on which host, and since when.
/// On a file system without locks the file itself is the lock; a killed run leaves it behind, and the sentence says so.
std::unique_ptr<Lock> lock_folder(const std::string& directory);

}  // namespace lockstep::checkpoint
