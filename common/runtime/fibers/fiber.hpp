// A stack of its own for each queue of each virtual rank. Two implementations, chosen by CMake (LOCKSTEP_FIBERS):
// fiber_context.cpp switches stacks in nanoseconds; fiber_threads.cpp passes a baton between ordinary threads, which
// sanitizers and debuggers understand. Exactly one side runs at any time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "common/runtime/fibers/arena.hpp"

namespace lockstep {

class Fiber {
 public:
  virtual ~Fiber() = default;  // the body has ended, or never started
  virtual void resume() = 0;   ///< from the scheduler: runs the body until it suspends or ends
  virtual void suspend() = 0;  ///< from the body: back to the scheduler
  virtual bool started() const = 0;
  virtual bool unwinding() const = 0;  ///< within the body: std::uncaught_exceptions() > 0, which is slower to ask for
  virtual void fetch() const = 0;      ///< brings the suspended body's stack into the cache, where that can be done
};

/// Makes fibers and keeps their stacks, which may lie side by side in few mappings. Outlives the fibers.
class Fibers {
 public:
  virtual ~Fibers() = default;
  /// `body` must catch everything; it starts at the first resume(). Stacks of different `color` begin at different
  /// offsets within a page, so that a thousand of them do not compete for the same lines of the cache.
  virtual InArena<Fiber> make(int color, std::function<void()> body) = 0;
};

/// With stacks of so many bytes; about `expected` of them will be made, in `arena`.
std::unique_ptr<Fibers> make_fibers(std::size_t stack_bytes, int expected, Arena& arena);

}  // namespace lockstep
