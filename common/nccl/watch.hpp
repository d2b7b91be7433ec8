// Letters of the runtime to itself: "I have failed", "nothing moves here", "what are you all doing?".
//
// When nothing has moved in a process for options.patience_seconds, it tells rank 0, which asks all ranks what they
// are doing. If every rank waits or has finished, nobody can go on: DEADLOCK. If a rank has been busy with one thing
// since it was last asked: TIMEOUT. Else all is well, and everyone's patience begins anew.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "common/nccl/job.hpp"

namespace lockstep::nccl {

using processes::Row;

class Watch {
 public:
  /// `end_job` ends every process of the job at once, with a message.
  Watch(Job& job, std::function<Row()> describe_me, std::function<void(const std::string&)> end_job);

  /// Takes in and sends what there is, and looks at the clock: has nothing moved for too long? On one thread.
  void look();
  /// Tells the others if this rank has failed; so that nobody is left behind when it looks no more.
  void tell_failure();

 private:
  struct Letter;
  using Clock = std::chrono::steady_clock;
  void send(int to, const Letter& letter);
  void send_all(const Letter& letter);
  void receive(const Letter& letter);
  void collect();
  void answer();
  void judge();

  Job& job_;
  std::function<Row()> describe_me_;
  std::function<void(const std::string&)> end_job_;
  bool told_ = false;
  Clock::time_point calm_since_ = Clock::now();
  Clock::time_point failed_since_;
  // Rank 0 only.
  bool collecting_ = false;
  Clock::time_point asked_;
  std::vector<Row> rows_;
  std::vector<std::uint64_t> last_activity_;
};

}  // namespace lockstep::nccl
