// Tells AddressSanitizer which stack runs. It must know the end of the stack on which an exception is thrown, and would
// report unknown stacks. Without AddressSanitizer these functions do nothing.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace lockstep::fake {

/// The location of a stack, and AddressSanitizer's state for it.
struct WatchedStack {
  const void* bottom = nullptr;
  std::size_t bytes = 0;
  void* kept = nullptr;
};

#if defined(__SANITIZE_ADDRESS__)

/// Makes this memory accessible for its next owner: a stack or, after it is freed, a thread.
inline void clear_stack(const WatchedStack& stack) { ASAN_UNPOISON_MEMORY_REGION(stack.bottom, stack.bytes); }

inline void leave_stack(WatchedStack& from, const WatchedStack& to) {
  __sanitizer_start_switch_fiber(&from.kept, to.bottom, to.bytes);
}
/// Called on the stack that now runs; fills in the location of `from`.
inline void enter_stack(const WatchedStack& stack, WatchedStack& from) {
  __sanitizer_finish_switch_fiber(stack.kept, &from.bottom, &from.bytes);
}

#else

inline void clear_stack(const WatchedStack&) {}
inline void leave_stack(WatchedStack&, const WatchedStack&) {}
inline void enter_stack(const WatchedStack&, WatchedStack&) {}

#endif

}  // namespace lockstep::fake
