#include "common/slice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "common/runtime/errors.hpp"
#include "common/runtime/new_block.hpp"
#include "common/support/text/counted.hpp"

namespace lockstep {

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::f32: return "fp32";
    case DType::bf16: return "bf16";
    case DType::f16: return "fp16";
    case DType::i32: return "int32";
    case DType::i8: return "int8";
  }
  return "?";
}

std::string_view to_string(Category category) {
  switch (category) {
    case Category::parameter: return "parameters";
    case Category::gradient: return "gradients";
    case Category::optimizer: return "optimizer";
    case Category::activation: return "activations";
    case Category::buffer: return "buffers";
  }
  return "?";
}

std::uint64_t mark_of(const Block& block) {
  static const std::uint64_t drawn = [] {
    std::random_device random;
    return (std::uint64_t{random()} << 32) | random();
  }();
  return drawn ^ reinterpret_cast<std::uintptr_t>(&block);
}

void Slice::reaches_outside(std::size_t offset, std::size_t count, Location where) const {
  usage_error(fmt::format("cut({}, {}) reaches outside a slice of {}{}", offset, count, counted(size_, "element"),
                          below_zero(std::max(offset, count))),
              where);
}

}  // namespace lockstep
