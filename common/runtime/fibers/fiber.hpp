// Gives each queue of each virtual rank a stack of its own. CMake chooses one of two implementations (LOCKSTEP_FIBERS):
// fiber_context.cpp switches stacks in nanoseconds; fiber_threads.cpp passes a baton between ordinary threads, which
// sanitizers and debuggers understand. Exactly one fiber, or the scheduler, runs at any time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "common/runtime/fibers/arena.hpp"

namespace lockstep {

class Fiber {
 public:
  virtual ~Fiber() = default;  // requires that the body has ended, or never started
  virtual void resume() = 0;   ///< from the scheduler: runs the body until it suspends or ends
  virtual void suspend() = 0;  ///< from the body: back to the scheduler
  virtual bool started() const = 0;
  virtual bool unwinding() const = 0;  ///< within the body: std::uncaught_exceptions() > 0, but faster
};

/// Makes fibers and keeps their stacks, many of which may share a mapping. Must outlive the fibers.
class Fibers {
 public:
  virtual ~Fibers() = default;
  /// Makes a fiber. `body` must catch every exception; it starts at the first resume(). Stacks of different `color`
  /// begin at different offsets within a page, so that a thousand of them do not compete for the same cache lines.
  virtual InArena<Fiber> make(int color, std::function<void()> body) = 0;
};

/// Fibers with stacks of `stack_bytes`; about `expected` of them will be made, in `arena`.
std::unique_ptr<Fibers> make_fibers(std::size_t stack_bytes, int expected, Arena& arena);

}  // namespace lockstep
