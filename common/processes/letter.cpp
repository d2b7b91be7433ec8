#include <cstddef>
#include <cstring>

#include "common/processes/watch.hpp"

namespace lockstep::processes {

std::string Letter::bytes() const {
  return std::string(reinterpret_cast<const char*>(this), offsetof(Letter, text)) + text;
}

Letter Letter::parse(const std::string& bytes) {
  Letter letter;
  std::memcpy(static_cast<void*>(&letter), bytes.data(), offsetof(Letter, text));
  letter.text = bytes.substr(offsetof(Letter, text));
  return letter;
}

}  // namespace lockstep::processes
