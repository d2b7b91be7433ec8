#include "common/cuda/pretend/kernel_name.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <memory>

namespace lockstep::pretend {

std::string kernel_name(const void* kernel) {
  Dl_info info{};
  if (dladdr(kernel, &info) == 0 || info.dli_sname == nullptr) return fmt::format("at {}", kernel);
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> plain(abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status),
                                                     std::free);
  return status == 0 ? plain.get() : info.dli_sname;
}

}  // namespace lockstep::pretend
