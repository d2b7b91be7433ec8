// A queue of one rank: main, or a named thread that runs main's closures in order.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "common/mpi/job.hpp"
#include "common/mpi/lane.hpp"

namespace lockstep::mpi {

/// What a queue's thread is at, for the wait table.
struct Doing {
  enum class Kind { nothing, own_code, computes, waits_for_batch, waits_for_closure, sets_up, finished };
  Kind kind = Kind::nothing;
  const char* operation = "";
  Location where{};
  const Lane* lane = nullptr;  // waits_for_batch
  std::uint64_t number = 0;    // of the batch or closure
  int queue = 0;               // waits_for_closure: whose
  const char* region = nullptr;
};

struct Closure {
  std::uint64_t number = 0;
  std::function<void(Rank)> f;
  Rank rank;
  Location where{};
  double issued = 0;  // modelled seconds, while emulating
  double end = 0;
};

class Queue {
 public:
  Queue(Job& job, int index, std::string name);
  ~Queue();
  Queue(const Queue&) = delete;

  /// Main's: the calling thread is the queue's. Others: a thread is started, which lives until stop().
  void adopt_this_thread() { owner_ = std::this_thread::get_id(); }
  void begin_thread();
  /// Ends the thread once the closure it is in has ended; the rest is dropped if the run has failed.
  void stop();
  bool is_mine() const { return owner_ == std::this_thread::get_id(); }

  std::uint64_t push(std::function<void(Rank)> f, Rank rank, Location where, double issued);
  /// Blocks until closure `number` has ended; false if the run has failed.
  bool wait_for(std::uint64_t number);
  /// Forgets closures up to `number`, in order; returns the modelled end of the last.
  double release(std::uint64_t number);
  std::uint64_t pushed() const { return pushed_; }  // main only, as is the next
  std::uint64_t released() const { return released_; }
  const Closure* unwaited() const { return closures_.empty() ? nullptr : closures_.front().get(); }
  /// Drops all closures; the thread has stopped.
  void clear() { closures_.clear(); }
  /// Of the closure that runs: where main called run; line 0 when none does.
  Location running() const;

  void set_doing(Doing doing);
  Doing doing() const;

  const int index;
  const std::string name;
  double clock = 0;     // modelled seconds, while emulating
  double last_end = 0;  // when its last verb returned

 private:
  void serve();
  void call(Closure& closure);

  Job& job_;
  std::thread::id owner_;
  std::thread thread_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Closure>> closures_;  // pushed and not released
  std::uint64_t pushed_ = 0;
  std::uint64_t ended_ = 0;
  std::uint64_t released_ = 0;
  bool stop_ = false;
  mutable std::mutex doing_mutex_;
  Doing doing_;
};

}  // namespace lockstep::mpi
