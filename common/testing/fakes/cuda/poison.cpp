#include "common/testing/fakes/cuda/poison.hpp"

#include <cstring>

namespace lockstep::fake {

namespace {

unsigned char byte_of(Poison pattern, std::size_t i) {
  return static_cast<unsigned char>(static_cast<std::uint16_t>(pattern) >> (i % 2 * 8));
}

}  // namespace

void poison(void* memory, std::size_t bytes, Poison pattern) {
  auto* const p = static_cast<unsigned char*>(memory);
  const std::uint64_t words = 0x0001000100010001u * static_cast<std::uint16_t>(pattern);
  std::size_t i = 0;
  for (; i + sizeof words <= bytes; i += sizeof words) std::memcpy(p + i, &words, sizeof words);
  for (; i < bytes; ++i) p[i] = byte_of(pattern, i);
}

bool is_poison(const void* memory, std::size_t bytes, Poison pattern) {
  const auto* const p = static_cast<const unsigned char*>(memory);
  for (std::size_t i = 0; i < bytes; ++i) {
    if (p[i] != byte_of(pattern, i)) return false;
  }
  return true;
}

}  // namespace lockstep::fake
