// The names that this program's file has for its functions and for what its threads own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::fake {

/// The mangled name of the function at an address; empty where the file has no names (it was stripped).
std::string function_at(const void* address);

/// A variable of which each thread of the host has its own.
struct ThreadLocal {
  std::string name;  // mangled
  std::uintptr_t offset;
  std::size_t bytes;
};

/// Those that are local to functions.
const std::vector<ThreadLocal>& thread_locals_of_functions();

/// The calling thread's variable.
void* of_this_thread(const ThreadLocal& variable);

}  // namespace lockstep::fake
