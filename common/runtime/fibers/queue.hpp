// An ordered queue of one rank, where all ranks share a process: a fiber, why it does not run, and the closures given
// to it. Backends add what they know of time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/rank.hpp"
#include "common/runtime/fibers/fiber.hpp"

namespace lockstep {

/// Why a fiber does not run.
struct Blocked {
  enum class On : std::uint8_t { nothing, batch, closure, setup, work, sync };  // sync: until a GPU has passed an event
  On on = On::nothing;
  int which = 0;             // the group whose batch or set-up call it is, or the queue whose closure
  std::uint64_t number = 0;  // of the batch, the closure or the set-up call
  Location where{};
};

/// What main gave to a queue.
struct ClosureBase {
  std::uint64_t number = 0;
  std::function<void(Rank)> f;
  Rank as;
  Location where{};
};

/// First in, first out. Unlike std::deque it takes no memory before anything is in it: most queues of a large run never
/// get a closure.
template <class T>
class Fifo {
 public:
  std::size_t size() const { return items_.size() - gone_; }
  T& operator[](std::size_t index) { return items_[gone_ + index]; }
  T& front() { return items_[gone_]; }
  void push_back(T item) { items_.push_back(std::move(item)); }
  void pop_front() {
    items_[gone_++] = T{};
    if (2 * gone_ < items_.size()) return;
    items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(gone_));
    gone_ = 0;
  }
  void clear() {
    items_.clear();
    gone_ = 0;
  }

 private:
  std::vector<T> items_;
  std::size_t gone_ = 0;  // of them
};

/// A queue's closures that main has not waited for, in order. The first `ended` of them have run.
template <class Closure>
struct Closures {
  Fifo<std::unique_ptr<Closure>> list;
  std::size_t ended = 0;
  std::uint64_t issued = 0;  // ever
  std::uint64_t waited = 0;
  Closure* current = nullptr;  // runs now

  Closure& numbered(std::uint64_t number) { return *list[number - waited - 1]; }
  bool has_ended(std::uint64_t number) const { return number <= waited + ended; }
};

/// `Types` names the backend's own World, BackendRank, Queue, Closure and Endpoint. What every step needs comes first.
template <class Types>
struct QueueBase {
  typename Types::BackendRank* owner = nullptr;
  int index = 0;  // 0: main
  bool ended = false;
  Blocked blocked;
  InArena<Fiber> fiber;
};

}  // namespace lockstep
