// What ThreadSanitizer is told: each stream, and each thread of a block, is a context with a history of its own,
// ordered with others by nothing but before(token) … after(token). Does nothing in other builds. The pretend GPU's own
// files are not instrumented: its inner workings are no part of what CUDA promises.
#pragma once

#include <cstddef>

namespace lockstep::pretend::order {

#if LOCKSTEP_PRETEND_TSAN

void* make_context();
void drop_context(void* context);
void* current();
void enter(void* context);
void before(void* token);  ///< what this context has done so far comes before …
void after(void* token);   ///< … what a context does after this
void reads(const void* memory, std::size_t bytes);
void writes(void* memory, std::size_t bytes);
constexpr bool kWatched = true;

#else

inline void* make_context() { return nullptr; }
inline void drop_context(void*) {}
inline void* current() { return nullptr; }
inline void enter(void*) {}
inline void before(void*) {}
inline void after(void*) {}
inline void reads(const void*, std::size_t) {}
inline void writes(void*, std::size_t) {}
constexpr bool kWatched = false;

#endif

/// Within it, this thread of the host is `context`.
class Inside {
 public:
  explicit Inside(void* context) : outside_(current()) { enter(context); }
  Inside(const Inside&) = delete;
  ~Inside() { enter(outside_); }

 private:
  void* outside_;
};

}  // namespace lockstep::pretend::order
