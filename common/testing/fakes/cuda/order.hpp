// Annotations for ThreadSanitizer: each stream, and each thread of a block, is a context with its own history, ordered
// with others only by before(token) … after(token). Does nothing in other builds. The fake GPU's own files are not
// instrumented: its inner workings are not part of CUDA's guarantees.
#pragma once

#include <cstddef>

namespace lockstep::fake::order {

bool watched();  ///< true if ThreadSanitizer is active
void* make_context();
void drop_context(void* context);
void* current();
void enter(void* context);
void before(void* token);                      ///< orders everything that this context has done so far before …
void after(void* token);                       ///< … everything that a context does after this call
void writes(void* memory, std::size_t bytes);  ///< records a write by this context
void begins_anew(void* memory,
                 std::size_t multiple_of_8);  ///< forgets earlier accesses: they are unrelated to later ones

/// While it lives, this host thread acts as `context`.
class Inside {
 public:
  explicit Inside(void* context) : outside_(current()) { enter(context); }
  Inside(const Inside&) = delete;
  ~Inside() { enter(outside_); }

 private:
  void* outside_;
};

}  // namespace lockstep::fake::order
