// Conversions between fp32 and bf16 or fp16, rounded to nearest even, bit-identical to GPUs.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "common/dtype.hpp"

namespace lockstep {

// Branch-free, so that loops over them vectorise.

inline std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x0040u;  // keep NaN a NaN
  return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}
inline float from_bf16(std::uint16_t value) { return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16); }

inline std::uint16_t to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  const std::uint32_t normal = (magnitude - 0x38000000u + 0x0fffu + ((magnitude >> 13) & 1u)) >> 13;
  // Subnormal: adding 0.5 leaves value · 2^24, rounded, in the lowest bits.
  const std::uint32_t small = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  std::uint32_t result = magnitude < 0x38800000u ? small : normal;
  result = magnitude >= 0x477ff000u ? 0x7c00u : result;  // rounds to 65536 or more
  result = magnitude > 0x7f800000u ? 0x7e00u : result;
  return static_cast<std::uint16_t>(sign | result);
}
inline float from_f16(std::uint16_t value) {
  const std::uint32_t sign = static_cast<std::uint32_t>(value & 0x8000u) << 16, magnitude = value & 0x7fffu;
  const std::uint32_t normal = (magnitude << 13) + 0x38000000u, special = (magnitude << 13) | 0x7f800000u;
  const float small = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f;
  std::uint32_t result = magnitude < 0x0400u ? std::bit_cast<std::uint32_t>(small) : normal;
  result = magnitude >= 0x7c00u ? special : result;
  return std::bit_cast<float>(sign | result);
}

/// Element i of an array of `dtype`, as a float.
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
