// Writing a checkpoint, in steps that leave nothing half done wherever they end.
//
//   1. begin    makes DIR/step-00000040.tmp-ATTEMPT, which no reader looks at;
//   2. write_share   each rank writes its file there, then what it is, under a name that appears when both are on disk;
//   3. commit   when all are there: the manifest, then the directory takes the name DIR/step-00000040;
//   4. prune    older ones go, but the last `keep`.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "common/gpt/checkpoint/files.hpp"
#include "common/gpt/checkpoint/manifest.hpp"

namespace lockstep::checkpoint {

/// What one rank writes, or reads: arrays of equal length, and which elements of the model they are.
struct Share {
  std::vector<Piece> pieces;
  std::array<std::vector<float>, kArrays> arrays;
};

/// DIR/step-00000040.
std::string step_path(const std::string& directory, int step);
/// What earlier runs began and did not end is removed.
void remove_leftovers(Files& files, const std::string& directory);
/// Checkpoints after `step` no longer count, and get another name: a run that went back to `step` will come by again.
void set_aside_after(Files& files, const std::string& directory, int step);
/// Makes the directory of one attempt to save, by a number that no other attempt has, and returns its path.
std::string begin(Files& files, const std::string& directory, int step, unsigned attempt);
std::string attempt_path(const std::string& directory, int step, unsigned attempt);

inline constexpr const char* kNotFinite = "its parameters or their moments are not finite";
/// Throws Error(fail), kNotFinite, where a number is infinite or NaN: a run that has diverged must not replace what was
/// good.
void write_share(Files& files, const std::string& attempt, int rank, const Share& share);
int ranks_written(Files& files, const std::string& attempt, int ranks);
/// `head` has no shards yet. A checkpoint of this step that was there already is replaced.
void commit(Files& files, const std::string& directory, const std::string& attempt, Manifest head, int ranks);
/// Of checkpoints up to `step`, all but the last `keep`.
void prune(Files& files, const std::string& directory, int step, int keep);

}  // namespace lockstep::checkpoint
