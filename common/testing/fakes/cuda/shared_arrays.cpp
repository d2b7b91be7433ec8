#include "common/testing/fakes/cuda/shared_arrays.hpp"

#include <cstring>

#include "common/testing/fakes/cuda/symbols.hpp"

namespace lockstep::fake {

namespace {

constexpr std::size_t kSmall = 4096;  // bytes; poisoning larger ones of other kernels would cost more than it finds

bool begins_with(const std::string& text, const std::string& begin) { return text.rfind(begin, 0) == 0; }

}  // namespace

std::vector<SharedArray> shared_arrays_of(const void* kernel) {
  const std::string function = function_at(kernel);
  if (function.size() < 2) return {};
  const std::string own = "_ZZ" + function.substr(2) + "E";  // Itanium C++ ABI, 5.1.7: local names
  std::vector<SharedArray> result;
  for (const ThreadLocal& variable : thread_locals_of_functions()) {
    const bool called = variable.bytes <= kSmall && begins_with(variable.name, "_ZZN8lockstep7kernels");
    if (called || begins_with(variable.name, own)) result.push_back({of_this_thread(variable), variable.bytes});
  }
  return result;
}

}  // namespace lockstep::fake
