// fp32 to and from bf16 and fp16, to nearest even, the same bits as GPUs give.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "common/dtype.hpp"

namespace lockstep {

inline std::uint16_t to_bf16(float value) {
  auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x0040u);  // keep NaN a NaN
  bits += 0x7fffu + ((bits >> 16) & 1u);
  return static_cast<std::uint16_t>(bits >> 16);
}
inline float from_bf16(std::uint16_t value) { return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16); }

inline std::uint16_t to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // rounds to 65536 or more
  if (magnitude < 0x38800000u) {  // subnormal: adding 0.5 leaves value · 2^24 rounded in the lowest bits
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  }
  const std::uint32_t rounded = magnitude - 0x38000000u + 0x0fffu + ((magnitude >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | (rounded >> 13));
}
inline float from_f16(std::uint16_t value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value & 0x8000u) << 16;
  const std::uint32_t magnitude = value & 0x7fffu;
  if (magnitude >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  if (magnitude < 0x0400u) {
    const float small = std::ldexp(static_cast<float>(magnitude), -24);
    return sign ? -small : small;
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000u));
}

/// Element i of an array of `dtype`, whatever that is.
inline float load_as_float(const void* data, std::size_t i, DType dtype) {
  const char* at = static_cast<const char*>(data) + i * bytes_of(dtype);
  std::uint16_t half = 0;
  switch (dtype) {
    case DType::f32: {
      float value = 0;
      std::memcpy(&value, at, 4);
      return value;
    }
    case DType::i32: {
      std::int32_t value = 0;
      std::memcpy(&value, at, 4);
      return static_cast<float>(value);
    }
    case DType::bf16: std::memcpy(&half, at, 2); return from_bf16(half);
    case DType::f16: std::memcpy(&half, at, 2); return from_f16(half);
    case DType::i8: return static_cast<float>(*reinterpret_cast<const std::int8_t*>(at));
  }
  return 0;
}

}  // namespace lockstep
