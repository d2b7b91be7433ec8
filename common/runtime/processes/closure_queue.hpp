// A queue of a rank that is a process: main, or main's closures in order, if possible on their own thread.
#pragma once

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "common/rank.hpp"
#include "common/runtime/errors.hpp"
#include "common/runtime/processes/job.hpp"

namespace lockstep::processes {

/// Current activity of a queue's host code, for the wait table.
struct Doing {
  enum class Kind {
    nothing,
    own_code,
    computes,
    waits_for_batch,
    waits_for_closure,
    waits_for_gpu,
    waits_for_memory,
    sets_up,
    finished
  };
  Kind kind = Kind::nothing;
  const char* operation = "";
  Location where{};
  int group = 0;             // waits_for_batch: the batch's group; its queue is this one
  int queue = 0;             // waits_for_closure: the closure's queue
  std::uint64_t number = 0;  // number of the batch or closure
  std::size_t bytes = 0;     // waits_for_memory
  Category category = Category::buffer;
};

/// BackendMoment is a point in the order of a queue's work: modelled seconds, or an event of a GPU stream.
template <class BackendMoment>
class ClosureQueue {
 public:
  using Moment = BackendMoment;
  ClosureQueue(Job& job, int index, std::string name) : index(index), name(std::move(name)), job_(job) {}
  ClosureQueue(const ClosureQueue&) = delete;

  virtual Moment here() const = 0;             ///< end of the work given to the queue so far
  virtual void after(const Moment& then) = 0;  ///< orders the queue's later work after `then`, of another queue
  /// Host time for the closures in traces; 0 if their work runs later, on a GPU.
  virtual double time_of_closures() const = 0;

  void begin_thread() {
    thread_ = std::thread([this] { serve(); });
    pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
  }
  /// Ends the thread after its current closure; if the run has failed, drops the remaining ones.
  void stop() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  bool has_thread() const { return thread_.joinable(); }  ///< main only
  /// True on the queue's own thread.
  bool is_mine() const { return thread_id_.load(std::memory_order_relaxed) == std::this_thread::get_id(); }

  /// Adds a closure that main launched at `issued`; returns its number. Without a thread, runs it on the caller.
  std::uint64_t push(std::function<void(Rank)> f, Rank rank, Location where, Moment issued) {
    std::unique_lock lock(mutex_);
    closures_.push_back(std::make_unique<Closure>(Closure{std::move(f), rank, where, std::move(issued), Moment{}}));
    Closure& closure = *closures_.back();
    const std::uint64_t number = ++pushed_;
    if (has_thread()) {
      if (pushed_ == ended_ + 1) job_.working.fetch_add(1);
      changed_.notify_all();
      return number;
    }
    lock.unlock();
    play(closure);
    lock.lock();
    ++ended_;
    return number;
  }
  /// Blocks until closure `number` has ended; false if the run has failed.
  bool wait_for(std::uint64_t number) {
    std::unique_lock lock(mutex_);
    while (ended_ < number) {
      if (job_.failed) return false;
      changed_.wait_for(lock, std::chrono::milliseconds(5));
    }
    return !job_.failed;
  }
  /// True if closure `number` has ended, so that waits for it return.
  bool has_ended(std::uint64_t number) const {
    std::lock_guard lock(mutex_);
    return ended_ >= number;
  }
  /// End of closure `number`, which has ended and was not released.
  Moment end_of(std::uint64_t number) const {
    std::lock_guard lock(mutex_);
    return closures_[number - released_ - 1]->end;
  }
  /// Forgets closures up to `number`, in order, which releases the memory they hold.
  void release(std::uint64_t number) {
    while (true) {
      std::unique_ptr<Closure> closure;  // declared before the lock, so that its slices are released without it
      std::lock_guard lock(mutex_);
      if (released_ >= number || closures_.empty()) return;
      closure = std::move(closures_.front());
      closures_.pop_front();
      ++released_;
    }
  }
  std::uint64_t pushed() const { return pushed_; }  // main only, like the next two
  std::uint64_t released() const { return released_; }
  /// Place where main launched the first closure never waited for; line 0 if there is none.
  Location unwaited() const { return closures_.empty() ? Location{} : closures_.front()->where; }
  /// Drops all closures; the thread must have stopped.
  void clear() { closures_.clear(); }
  /// Place where main launched the running closure; line 0 if none runs.
  Location running() const {
    std::lock_guard lock(mutex_);
    return ended_ < pushed_ ? closures_[ended_ - released_]->where : Location{};
  }

  void set_doing(Doing doing) {
    std::lock_guard lock(doing_mutex_);
    doing_ = doing;
  }
  Doing doing() const {
    std::lock_guard lock(doing_mutex_);
    return doing_;
  }

  const int index;
  const std::string name;
  std::atomic<Location> last_call{};  // last verb called, for the wait table

 protected:
  virtual ~ClosureQueue() = default;

  virtual void thread_begins() = 0;  ///< on the thread, before its first closure
  virtual void closure_ended() {}    ///< normally or by an exception

 private:
  struct Closure {
    std::function<void(Rank)> f;
    Rank rank;
    Location where;
    Moment issued;
    Moment end;
  };

  void serve() {
    thread_id_ = std::this_thread::get_id();
    thread_begins();
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stop_ || ended_ < pushed_; });
      if (ended_ == pushed_) return;
      Closure& closure = *closures_[ended_ - released_];
      lock.unlock();
      play(closure);
      lock.lock();
      ++ended_;
      if (ended_ == pushed_) job_.working.fetch_sub(1);
      job_.note_activity();
      changed_.notify_all();
    }
  }

  void play(Closure& closure) {
    if (job_.failed) return;
    last_call.store(closure.where, std::memory_order_relaxed);
    set_doing({.kind = Doing::Kind::own_code, .where = closure.where});
    try {
      after(closure.issued);
      job_.record([&](Recorder& recorder) { recorder.closure_begins(index, time_of_closures()); });
      closure.f(closure.rank);
      job_.record([&](Recorder& recorder) { recorder.closure_ends(index, time_of_closures()); });
      closure.end = here();
      const auto scratch = job_.record([&](Recorder& recorder) { return recorder.scratch(index); });
      if (scratch != 0) usage_error(scratch_left(scratch), closure.where);
    } catch (const Unwind&) {
    } catch (...) {
      const Caught error = caught(last_call.load(std::memory_order_relaxed));
      job_.fail(error.verdict, thrower(job_.rank, name, &closure.where) + error.what);
    }
    closure_ended();
    set_doing({});
  }

  Job& job_;
  std::thread thread_;
  std::atomic<std::thread::id> thread_id_;
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

}  // namespace lockstep::processes
