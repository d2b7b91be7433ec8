// A name that the compiler made, as C++ writes it.
#pragma once

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string>

namespace lockstep {

/// "std::out_of_range" for "St12out_of_range"; `name` itself where it is no such name.
inline std::string plain_name(const std::string& name) {
  const std::unique_ptr<char, void (*)(void*)> plain(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, nullptr),
                                                     std::free);
  return plain ? plain.get() : name;
}

}  // namespace lockstep
