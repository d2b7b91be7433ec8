// Parses a text that consists of one number.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace lockstep {

/// Returns `text` as a number, independently of the locale; nothing if the text is not entirely a number, or the type
/// cannot hold it.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace lockstep
