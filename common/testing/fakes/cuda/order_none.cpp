#include "common/testing/fakes/cuda/order.hpp"

namespace lockstep::fake::order {

bool watched() { return false; }
void* make_context() { return nullptr; }
void drop_context(void*) {}
void* current() { return nullptr; }
void enter(void*) {}
void before(void*) {}
void after(void*) {}
void writes(void*, std::size_t) {}
void begins_anew(void*, std::size_t) {}

}  // namespace lockstep::fake::order
