// Saves while training continues; each rank writes its file on its own threads. All ranks save to one directory, which
// all can see. They coordinate through files, so the threads send no messages.
//
//   saver.start(attempt, share, head);         // returns at once
//   …                                          // steps
//   bool mine = saver.wait_for_share().empty();
//   saver.settle(everybody's mine);            // rank 0: the checkpoint is complete, or abandoned
#pragma once

#include <atomic>
#include <chrono>
#include <future>
#include <string>

#include "common/gpt/checkpoint/writer.hpp"

namespace lockstep::checkpoint {

class Saver {
 public:
  /// `keep`: number of checkpoints that remain, this one included. `limit`: a save is abandoned when no rank's file
  /// arrives for this long.
  Saver(Files& files, std::string directory, int rank, int ranks, int keep = 2,
        std::chrono::milliseconds limit = std::chrono::minutes(10));
  /// Waits for this rank's file. Rank 0 abandons a checkpoint that is still incomplete.
  ~Saver();
  Saver(const Saver&) = delete;

  /// Starts writing to the directory that `begin` made. Rank 0 commits the checkpoint as soon as all ranks have
  /// written. No other save may be under way.
  void start(std::string attempt, Share share, Manifest head);
  bool under_way() const { return share_.valid(); }

  /// Returns the reason why this rank's file could not be written, if it has failed so far; otherwise "".
  std::string failure() const;
  /// Waits for this rank's file, at most for the limit. Returns "", or the reason why it could not be written.
  std::string wait_for_share() const;
  /// Ends the save that is under way. `all_written`: wait_for_share() returned "" on every rank. If true, rank 0 waits
  /// until the checkpoint is complete; otherwise it removes the partial one. Returns "", or the reason for a failure.
  std::string settle(bool all_written);
  /// On rank 0, after settle(): seconds from start() until the checkpoint was complete; 0 if it was not completed.
  double seconds_to_complete() const { return seconds_to_complete_; }

 private:
  std::string commit_when_complete(const Manifest& head);
  bool wait_for_all();

  Files& files_;
  std::string directory_;
  int rank_, ranks_, keep_;
  std::chrono::milliseconds limit_;
  std::string attempt_;
  std::atomic<bool> given_up_ = false;
  std::shared_future<std::string> share_;
  std::future<std::string> commit_;  // on rank 0
  double seconds_to_complete_ = 0;   // written by the commit until it is waited for
};

}  // namespace lockstep::checkpoint
