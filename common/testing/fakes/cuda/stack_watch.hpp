// Tells AddressSanitizer which stack runs: it must know where the stack ends on which an exception is thrown, and would
// report what it does not know. Without it these do nothing.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace lockstep::fake {

/// Where a stack is, and what AddressSanitizer keeps of it.
struct WatchedStack {
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  void* kept = nullptr;
};

#if defined(__SANITIZE_ADDRESS__)

/// What was forbidden in this memory does not matter to its next owner: a stack, or when that is gone a thread.
inline void clear_stack(const WatchedStack& stack) { ASAN_UNPOISON_MEMORY_REGION(stack.bottom, stack.bytes); }

inline void leave_stack(WatchedStack& from, const WatchedStack& to) {
  __sanitizer_start_switch_fiber(&from.kept, to.bottom, to.bytes);
}
/// On the stack that now runs; where `from` is becomes known.
inline void enter_stack(const WatchedStack& stack, WatchedStack& from) {
  __sanitizer_finish_switch_fiber(stack.kept, &from.bottom, &from.bytes);
}

#else

inline void clear_stack(const WatchedStack&) {}
inline void leave_stack(WatchedStack&, const WatchedStack&) {}
inline void enter_stack(const WatchedStack&, WatchedStack&) {}

#endif

}  // namespace lockstep::fake
