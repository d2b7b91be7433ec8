// A queue of one rank where every rank is a process: main, or a thread that runs main's closures in order.
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

namespace lockstep::processes {

struct ClosureBase {
  std::uint64_t number = 0;
  std::function<void(Rank)> f;
  Rank rank;
  Location where{};
};

/// `Types` names the backend's Queue (derived from this), Job, Closure (from ClosureBase) and Doing, which says what a
/// queue's host code is at. Queue supplies
///
///   thread_begins()               on the thread, before its first closure
///   begins(closure), ends(closure)  around its call, whatever comes of it
///   call(closure)                 f and what belongs to it; may throw
template <class Types>
class ClosureQueue {
 public:
  using Job = typename Types::Job;
  using Closure = typename Types::Closure;
  using Doing = typename Types::Doing;

  ClosureQueue(Job& job, int index, std::string name) : index(index), name(std::move(name)), job_(job) {}
  ClosureQueue(const ClosureQueue&) = delete;

  void begin_thread() {
    std::lock_guard lock(mutex_);
    thread_ = std::thread([this] { serve(); });
    pthread_setname_np(thread_.native_handle(), name.substr(0, 15).c_str());
  }
  /// Ends the thread once the closure it is in has ended; the rest is dropped if the run has failed.
  void stop() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  std::thread::id thread() const { return thread_.get_id(); }

  /// Blocks until closure `number` has ended; false if the run has failed.
  bool wait_for(std::uint64_t number) {
    std::unique_lock lock(mutex_);
    while (ended_ < number) {
      if (job_.failed) return false;
      changed_.wait_for(lock, std::chrono::milliseconds(5));
    }
    return !job_.failed;
  }
  /// Whether closure `number` has ended: who waits for it goes on.
  bool has_ended(std::uint64_t number) const {
    std::lock_guard lock(mutex_);
    return ended_ >= number;
  }
  std::uint64_t pushed() const { return pushed_; }  // main only, as is the next
  std::uint64_t released() const { return released_; }
  const Closure* unwaited() const { return closures_.empty() ? nullptr : closures_.front().get(); }
  /// Drops all closures; the thread has stopped.
  void clear() { closures_.clear(); }
  /// Of the closure that runs: where main called run; line 0 when none does.
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

 protected:
  ~ClosureQueue() = default;

  static std::unique_ptr<Closure> make(std::function<void(Rank)> f, Rank rank, Location where) {
    auto closure = std::make_unique<Closure>();
    closure->f = std::move(f);
    closure->rank = rank;
    closure->where = where;
    return closure;
  }
  /// Its number. A thread runs it; without one, whoever called does.
  std::uint64_t push(std::unique_ptr<Closure> fresh) {
    Closure& closure = *fresh;
    std::unique_lock lock(mutex_);
    closure.number = ++pushed_;
    closures_.push_back(std::move(fresh));
    if (thread_.joinable()) {
      if (pushed_ == ended_ + 1) job_.working.fetch_add(1);
      changed_.notify_all();
      return pushed_;
    }
    lock.unlock();
    play(closure);
    lock.lock();
    return ++ended_;
  }
  /// Forgets closures up to `number`, in order; leave(closure) sees each first. Slices go home without the lock.
  template <class Leave>
  void release(std::uint64_t number, Leave leave) {
    while (true) {
      std::unique_ptr<Closure> closure;  // declared before the lock
      std::lock_guard lock(mutex_);
      if (released_ >= number || closures_.empty()) return;
      closure = std::move(closures_.front());
      closures_.pop_front();
      ++released_;
      leave(*closure);
    }
  }
  const Closure& numbered(std::uint64_t number) const {
    std::lock_guard lock(mutex_);
    return *closures_[number - released_ - 1];
  }

  Job& job_;

 private:
  auto& self() { return static_cast<typename Types::Queue&>(*this); }

  void serve() {
    self().thread_begins();
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
    set_doing({.kind = Doing::Kind::own_code, .where = closure.where});
    self().begins(closure);
    try {
      self().call(closure);
      const auto scratch = job_.record([&](auto& recorder) { return recorder.scratch(index); });
      if (scratch != 0) usage_error(scratch_left(scratch), closure.where);
    } catch (const Unwind&) {
    } catch (...) {
      const Caught error = caught();
      job_.fail(error.verdict, thrower(job_.rank, name, &closure.where) + error.what);
    }
    self().ends(closure);
    set_doing({});
  }

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

}  // namespace lockstep::processes
