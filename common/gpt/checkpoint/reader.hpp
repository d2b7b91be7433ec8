// Reads a checkpoint into any layout of ranks.
#pragma once

#include <string>
#include <vector>

#include "common/gpt/checkpoint/writer.hpp"

namespace lockstep::checkpoint {

std::string manifest_path(const std::string& checkpoint);
/// Returns the steps of the checkpoints in a directory, the latest first.
std::vector<int> steps_in(Files& files, const std::string& directory);

/// Throws Error(usage) with one sentence if there is none, or if it was altered.
Manifest read_manifest(Files& files, const std::string& checkpoint);

/// Fills the arrays of `share` (each `elements` long; zero where no piece lies) with the elements that its pieces name,
/// from all files of the checkpoint that hold any. Fills only the first `arrays` arrays; with 1, only the master
/// values. Throws Error(usage) with one sentence that names the file if one is missing, truncated or altered, or if the
/// checkpoint lacks elements.
void read_share(Files& files, const std::string& checkpoint, const Manifest& manifest, std::size_t elements,
                Share& share, std::size_t arrays = kArrays);

}  // namespace lockstep::checkpoint
