// For programs with ThreadSanitizer. Uses its interface for languages that manage memory, to say that memory is reused.
#include <sanitizer/tsan_interface.h>

#include "common/testing/fakes/cuda/order.hpp"

extern "C" {
void __tsan_write_range(void* memory, unsigned long bytes);
void __tsan_java_alloc(unsigned long address, unsigned long bytes);
void __tsan_java_free(unsigned long address, unsigned long bytes);
}

namespace lockstep::fake::order {

bool watched() { return true; }
void* make_context() { return __tsan_create_fiber(0); }
void drop_context(void* context) { __tsan_destroy_fiber(context); }
void* current() { return __tsan_get_current_fiber(); }
void enter(void* context) { __tsan_switch_to_fiber(context, __tsan_switch_to_fiber_no_sync); }
void before(void* token) { __tsan_release(token); }
void after(void* token) { __tsan_acquire(token); }
void writes(void* memory, std::size_t bytes) { __tsan_write_range(memory, bytes); }
void begins_anew(void* memory, std::size_t multiple_of_8) {
  if (multiple_of_8 == 0) return;
  __tsan_java_alloc(reinterpret_cast<unsigned long>(memory), multiple_of_8);
  __tsan_java_free(reinterpret_cast<unsigned long>(memory), multiple_of_8);
}

}  // namespace lockstep::fake::order
