// A queue of one rank: main, or a named thread that runs main's closures in order.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <utility>

#include "common/backends/mpi/endpoint.hpp"
#include "common/backends/mpi/job.hpp"
#include "common/runtime/processes/closure_queue.hpp"

namespace lockstep::mpi {

/// What a queue's thread is at, for the wait table.
struct Doing {
  enum class Kind { nothing, own_code, computes, waits_for_batch, waits_for_closure, sets_up, finished };
  Kind kind = Kind::nothing;
  const char* operation = "";
  Location where{};
  const Endpoint* endpoint = nullptr;  // waits_for_batch
  std::uint64_t number = 0;            // of the batch or closure
  int queue = 0;                       // waits_for_closure: whose
  const char* region = nullptr;
};

struct Closure : processes::ClosureBase {
  double issued = 0;  // modelled seconds, while emulating
  double end = 0;
};

class Queue;
struct QueueTypes {
  using Queue = mpi::Queue;
  using Job = mpi::Job;
  using Closure = mpi::Closure;
  using Doing = mpi::Doing;
};

class Queue final : public processes::ClosureQueue<QueueTypes> {
 public:
  using ClosureQueue::ClosureQueue;
  ~Queue() { stop(); }

  /// Main's: the calling thread is the queue's. Others have one that lives until stop().
  void adopt_this_thread() { adopted_ = std::this_thread::get_id(); }
  bool is_mine() const { return (index == 0 ? adopted_ : thread()) == std::this_thread::get_id(); }

  std::uint64_t push(std::function<void(Rank)> f, Rank rank, Location where, double issued) {
    auto closure = make(std::move(f), rank, where);
    closure->issued = issued;
    return ClosureQueue::push(std::move(closure));
  }
  /// Forgets closures up to `number`, in order; returns the modelled end of the last.
  double release(std::uint64_t number) {
    double end = 0;
    ClosureQueue::release(number, [&](const Closure& closure) { end = closure.end; });
    return end;
  }

  std::atomic<Location> last_call{};  // of a verb, for the wait table
  double clock = 0;                   // modelled seconds, while emulating
  double last_end = 0;                // when its last verb returned

 private:
  friend class processes::ClosureQueue<QueueTypes>;
  static void thread_begins() { ask_for_exact_sleeps(); }
  void begins(const Closure& closure) {
    last_call.store(closure.where, std::memory_order_relaxed);
    clock = std::max(clock, closure.issued);
  }
  void call(const Closure& closure) {
    job_.record([&](Recorder& recorder) { recorder.closure_begins(index, job_.clock.now()); });
    closure.f(closure.rank);
    job_.record([&](Recorder& recorder) { recorder.closure_ends(index, job_.clock.now()); });
  }
  void ends(Closure& closure) const { closure.end = clock; }

  std::thread::id adopted_;
};

}  // namespace lockstep::mpi
