// Writes a checkpoint in steps that leave nothing half done, wherever they end.
//
//   1. begin         creates DIR/step-00000040.tmp-ATTEMPT, which readers ignore;
//   2. write_share   each rank writes its file there, then its entry, under a name that appears when both are on disk;
//   3. commit        when all are there: writes the manifest, then renames the directory to DIR/step-00000040;
//   4. prune         removes older checkpoints except the last `keep`.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "common/gpt/checkpoint/files.hpp"
#include "common/gpt/checkpoint/manifest.hpp"

namespace lockstep::checkpoint {

/// The data that one rank writes or reads: arrays of equal length, and the elements of the model that they hold.
struct Share {
  std::vector<Piece> pieces;
  std::array<std::vector<float>, kArrays> arrays;
};

/// Returns DIR/step-00000040.
std::string step_path(const std::string& directory, int step);
/// Removes the attempts that earlier runs began and did not finish.
void remove_leftovers(Files& files, const std::string& directory);
/// Renames the checkpoints after `step`, which are no longer valid: a run that resumed from `step` will write them
/// again.
void set_aside_after(Files& files, const std::string& directory, int step);
/// Creates the directory of one attempt to save, with a number that no other attempt has, and returns its path.
std::string begin(Files& files, const std::string& directory, int step, unsigned attempt);
std::string attempt_path(const std::string& directory, int step, unsigned attempt);

inline constexpr const char* kNotFinite = "its parameters or their moments are not finite";
/// Throws Error(fail), kNotFinite, if a number is infinite or NaN: a run that has diverged must not replace a good
/// checkpoint.
void write_share(Files& files, const std::string& attempt, int rank, const Share& share);
int ranks_written(Files& files, const std::string& attempt, int ranks);
/// `head` has no shards yet. Replaces an existing checkpoint of this step.
void commit(Files& files, const std::string& directory, const std::string& attempt, Manifest head, int ranks);
/// Removes all checkpoints up to `step` except the last `keep`.
void prune(Files& files, const std::string& directory, int step, int keep);

}  // namespace lockstep::checkpoint
