// An ordered queue of one rank, in backends whose ranks share a process: a fiber, the reason why it is blocked, and its
// closures. Backends add their notion of time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/rank.hpp"
#include "common/runtime/fibers/fiber.hpp"
#include "common/runtime/last_call.hpp"

namespace lockstep {

/// The reason why a fiber does not run.
struct Blocked {
  enum class On : std::uint8_t { nothing, batch, closure, setup, work, sync };  // sync: until a GPU has passed an event
  On on = On::nothing;
  int which = 0;             // group whose batch or set-up call it is, or queue whose closure it is
  std::uint64_t number = 0;  // number of the batch, closure or set-up call
  Location where{};
};

/// A closure that main launched on a queue.
struct ClosureBase {
  std::uint64_t number = 0;
  std::function<void(Rank)> f;
  Rank as;
  Location where{};
};

/// First in, first out. Unlike std::deque it allocates nothing until used: most queues of a large run get no closure.
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
  std::size_t gone_ = 0;  // elements already taken
};

/// A queue's closures that main has not waited for, in order. The first `ended` of them have run.
template <class Closure>
struct Closures {
  Fifo<std::unique_ptr<Closure>> list;
  std::size_t ended = 0;
  std::uint64_t issued = 0;  // in total
  std::uint64_t waited = 0;
  Closure* current = nullptr;  // running now

  Closure& numbered(std::uint64_t number) { return *list[number - waited - 1]; }
  bool has_ended(std::uint64_t number) const { return number <= waited + ended; }
};

/// `Types` names the backend's World, BackendRank, Queue, Closure and Endpoint. Hot members come first.
template <class Types>
struct QueueBase {
  typename Types::BackendRank* owner = nullptr;
  int index = 0;  // 0: main
  bool ended = false;
  Blocked blocked;
  InArena<Fiber> fiber;
  LastCall last_call;
};

}  // namespace lockstep
