// One run at a time saves to a folder. The lock is the system's (flock) on DIR/lock, a file that says who holds it; the
// system releases it with its process, also where that is killed.
#pragma once

#include <memory>
#include <string>

#include "common/gpt/checkpoint/files.hpp"

namespace lockstep::checkpoint {

/// Throws Error(usage) in one sentence where another run holds the lock: which process, on which host, and since when.
/// On a file system without locks the file itself is the lock; a killed run leaves it, and the sentence says so.
std::unique_ptr<Lock> lock_folder(const std::string& directory);

}  // namespace lockstep::checkpoint
