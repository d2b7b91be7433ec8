// The element types a Slice may have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep {

enum class DType : std::uint8_t { f32, bf16, f16, i32, i8 };

/// Bytes of one element.
constexpr std::size_t bytes_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::i32: return 4;
    case DType::bf16:
    case DType::f16: return 2;
    case DType::i8: return 1;
  }
  return 0;
}

/// "fp32", "bf16", "fp16", "int32", "int8".
std::string_view to_string(DType dtype);

}  // namespace lockstep
