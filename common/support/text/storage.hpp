// Dtypes for a model's tensors, by the names that options use.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "common/dtype.hpp"
#include "common/error.hpp"
#include "common/support/text/nearest.hpp"

namespace lockstep {

/// Parses "fp32", "bf16" or "fp16". Throws Error(usage) that calls the option `what` and lists the names.
inline DType parse_storage(std::string_view name, std::string_view what = "dtype") {
  const std::array<DType, 3> types{DType::f32, DType::bf16, DType::f16};
  std::vector<std::string> known;
  for (DType type : types) {
    known.emplace_back(to_string(type));
    if (known.back() == name) return type;
  }
  throw Error(Verdict::usage, unknown_name(what, name, known));
}

}  // namespace lockstep
