// Numbers on a command line: parsed whole, or rejected in one sentence that names the option.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "common/support/text/command_line.hpp"
#include "common/support/text/parse_number.hpp"

namespace lockstep {

/// Limits for the counts of a step: larger ones are typos.
inline constexpr Whole kSequences{1, 1 << 20}, kTokens{0, 1 << 24}, kMicrobatches{1, 1 << 16};

/// Parses `text` as a number from `least` to `most`; throws Error(usage) otherwise.
inline double number_in(const std::string& option, const std::string& text, double least, double most) {
  const std::optional<double> value = parse_number<double>(text);
  if (!value || !(*value >= least) || !(*value <= most))
    throw Error(Verdict::usage, fmt::format("{} needs numbers from {:g} to {:g}, not '{}'", option, least, most, text));
  return *value;
}

/// Parses `text` as a whole number from `least` to `most`.
inline int whole_in(const std::string& option, const std::string& text, int least, int most) {
  const double value = number_in(option, text, least, most);
  if (value != std::floor(value)) throw Error(Verdict::usage, fmt::format("{} counts: not '{}'", option, text));
  return static_cast<int>(value);
}
inline int count_in(const std::string& option, const std::string& text, int most) {
  return whole_in(option, text, 1, most);
}
inline int count_in(const std::string& option, std::string_view text) {
  const int value = parse_number<int>(text).value_or(0);
  if (value >= 1) return value;
  throw Error(Verdict::usage, fmt::format("{} needs whole numbers of at least 1, not '{}'", option, text));
}

inline std::vector<int> counts_in(const std::string& option, const std::vector<std::string>& texts, int most) {
  std::vector<int> counts;
  for (const std::string& text : texts) counts.push_back(count_in(option, text, most));
  return counts;
}

/// Returns the number of f32 elements in so many bytes of --bytes, at least one; throws Error(usage) otherwise.
inline std::size_t f32_elements(std::uint64_t bytes) {
  if (bytes == 0 || bytes % 4 != 0)
    throw Error(Verdict::usage,
                fmt::format("--bytes {}: a sum is of fp32 elements, of 4 bytes each and at least one", bytes));
  return static_cast<std::size_t>(bytes / 4);
}

}  // namespace lockstep
