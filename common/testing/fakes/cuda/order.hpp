// What ThreadSanitizer is told: each stream, and each thread of a block, is a context with a history of its own,
// ordered with others by nothing but before(token) … after(token). Does nothing in other builds. The fake GPU's own
// files are not instrumented: its inner workings are no part of what CUDA promises.
#pragma once

#include <cstddef>

namespace lockstep::fake::order {

bool watched();  ///< ThreadSanitizer is there
void* make_context();
void drop_context(void* context);
void* current();
void enter(void* context);
void before(void* token);                      ///< what this context has done so far comes before …
void after(void* token);                       ///< … what a context does after this
void writes(void* memory, std::size_t bytes);  ///< this context does
void begins_anew(void* memory,
                 std::size_t multiple_of_8);  ///< what was done to it before has nothing to do with what comes

/// Within it, this thread of the host is `context`.
class Inside {
 public:
  explicit Inside(void* context) : outside_(current()) { enter(context); }
  Inside(const Inside&) = delete;
  ~Inside() { enter(outside_); }

 private:
  void* outside_;
};

}  // namespace lockstep::fake::order
