#include "common/testing/fakes/cuda/kernel_name.hpp"

#include <fmt/format.h>

#include "common/support/text/plain_name.hpp"
#include "common/testing/fakes/cuda/symbols.hpp"

namespace lockstep::fake {

std::string kernel_name(const void* kernel) {
  const std::string name = function_at(kernel);
  return name.empty() ? fmt::format("at {}", kernel) : plain_name(name);
}

}  // namespace lockstep::fake
