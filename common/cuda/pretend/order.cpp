#include "common/cuda/pretend/order.hpp"

#if LOCKSTEP_PRETEND_TSAN

#include <sanitizer/tsan_interface.h>

extern "C" {
void __tsan_read_range(void* memory, unsigned long bytes);
void __tsan_write_range(void* memory, unsigned long bytes);
}

namespace lockstep::pretend::order {

void* make_context() { return __tsan_create_fiber(0); }
void drop_context(void* context) { __tsan_destroy_fiber(context); }
void* current() { return __tsan_get_current_fiber(); }
void enter(void* context) { __tsan_switch_to_fiber(context, __tsan_switch_to_fiber_no_sync); }
void before(void* token) { __tsan_release(token); }
void after(void* token) { __tsan_acquire(token); }
void reads(const void* memory, std::size_t bytes) { __tsan_read_range(const_cast<void*>(memory), bytes); }
void writes(void* memory, std::size_t bytes) { __tsan_write_range(memory, bytes); }

}  // namespace lockstep::pretend::order

#endif
