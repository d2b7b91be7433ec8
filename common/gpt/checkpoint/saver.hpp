// Saving while training goes on: one rank's threads for the files. All ranks save to one directory, which all can see;
// what they must tell each other goes by files, so that the threads send no messages.
//
//   saver.start(attempt, share, head);         // returns at once
//   …                                          // steps
//   bool mine = saver.wait_for_share().empty();
//   saver.settle(everybody's mine);            // rank 0: the checkpoint is there, or it is given up
#pragma once

#include <atomic>
#include <chrono>
#include <future>
#include <string>

#include "common/gpt/checkpoint/writer.hpp"

namespace lockstep::checkpoint {

class Saver {
 public:
  /// `keep`: checkpoints that stay, this one included. `limit`: a save is given up when no rank's file comes for so
  /// long.
  Saver(Files& files, std::string directory, int rank, int ranks, int keep = 2,
        std::chrono::milliseconds limit = std::chrono::minutes(10));
  /// Waits for its own file; rank 0 gives up a checkpoint of which something is missing still.
  ~Saver();
  Saver(const Saver&) = delete;

  /// Begins to write to the directory that `begin` made. Rank 0 commits the checkpoint as soon as all have written.
  /// Nothing may be under way.
  void start(std::string attempt, Share share, Manifest head);
  bool under_way() const { return share_.valid(); }

  /// Why this rank's file could not be written, as far as is known now; else "".
  std::string failure() const;
  /// Waits for this rank's file, at most as long as the limit: "", or why it could not be written.
  std::string wait_for_share() const;
  /// Ends what is under way. `all_written`: on every rank wait_for_share() gave "". Rank 0 then waits until the
  /// checkpoint is complete, and otherwise removes what there is of it: "", or why it could not.
  std::string settle(bool all_written);
  /// Rank 0, after settle(): seconds from start() until the checkpoint was complete; 0 where it did not become so.
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
  std::future<std::string> commit_;  // of rank 0
  double seconds_to_complete_ = 0;   // the commit's until it is waited for
};

}  // namespace lockstep::checkpoint
