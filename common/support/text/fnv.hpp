// FNV-1a, 64 bits: the same number for the same bytes in every process, on every computer.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

class Fnv1a {
 public:
  explicit Fnv1a(std::string_view bytes = {}) { add(bytes); }
  void add(unsigned char byte) { value_ = (value_ ^ byte) * 1099511628211u; }
  void add(std::string_view bytes) {  // one loop, because ./lab reads megabytes with it and is not optimised
    for (const char byte : bytes) value_ = (value_ ^ static_cast<unsigned char>(byte)) * 1099511628211u;
  }
  std::uint64_t value() const { return value_; }
  std::uint32_t folded() const { return static_cast<std::uint32_t>(value_ ^ (value_ >> 32)); }

 private:
  std::uint64_t value_ = 14695981039346656037u;
};

}  // namespace lockstep
