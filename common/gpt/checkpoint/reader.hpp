// Reading a checkpoint into any layout of ranks.
#pragma once

#include <string>
#include <vector>

#include "common/gpt/checkpoint/writer.hpp"

namespace lockstep::checkpoint {

std::string manifest_path(const std::string& checkpoint);
/// Steps of the checkpoints in a directory, the last first.
std::vector<int> steps_in(Files& files, const std::string& directory);

/// Throws Error(usage) with one sentence where there is none, or it was altered.
Manifest read_manifest(Files& files, const std::string& checkpoint);

/// Fills the arrays of `share` (each `elements` long, zero where no piece lies) with what its pieces say, from as many
/// of the checkpoint's files as have some of it; of the first `arrays` arrays alone, 1: the values. Throws Error(usage)
/// with one sentence that names the file: it is missing, cut short or altered; or the checkpoint lacks something.
void read_share(Files& files, const std::string& checkpoint, const Manifest& manifest, std::size_t elements,
                Share& share, std::size_t arrays = kArrays);

}  // namespace lockstep::checkpoint
