#include "common/testing/fakes/cuda/kernel_name.hpp"

#include <cxxabi.h>
#include <fmt/format.h>

#include <cstdlib>
#include <memory>

#include "common/testing/fakes/cuda/symbols.hpp"

namespace lockstep::fake {

std::string kernel_name(const void* kernel) {
  const std::string name = function_at(kernel);
  if (name.empty()) return fmt::format("at {}", kernel);
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> plain(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                     std::free);
  return status == 0 ? plain.get() : name;
}

}  // namespace lockstep::fake
