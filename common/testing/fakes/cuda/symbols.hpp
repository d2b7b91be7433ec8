// The names in this program's file for its functions and thread-local variables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::fake {

/// Returns the mangled name of the function at an address; empty if the file has no names (it was stripped).
std::string function_at(const void* address);

/// A thread-local variable.
struct ThreadLocal {
  std::string name;  // mangled
  std::uintptr_t offset;
  std::size_t bytes;
};

/// Returns those that are local to functions.
const std::vector<ThreadLocal>& thread_locals_of_functions();

/// Returns the calling thread's copy of the variable.
void* of_this_thread(const ThreadLocal& variable);

}  // namespace lockstep::fake
