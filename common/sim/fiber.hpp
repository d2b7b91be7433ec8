// A stack of its own for each queue of each virtual rank. Two implementations, chosen by CMake (LOCKSTEP_FIBERS):
// fiber_context.cpp switches stacks in nanoseconds; fiber_threads.cpp passes a baton between ordinary threads, which
// sanitizers and debuggers understand. Exactly one side runs at any time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

namespace lockstep {

class Fiber {
 public:
  /// `body` must catch everything. It starts at the first resume().
  Fiber(std::size_t stack_bytes, std::function<void()> body);
  ~Fiber();  // the body has ended, or never started
  Fiber(const Fiber&) = delete;

  void resume();   ///< from the scheduler: runs the body until it suspends or ends
  void suspend();  ///< from the body: back to the scheduler
  bool started() const;
  bool ended() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
