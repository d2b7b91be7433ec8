// A number in a text of which nothing else is.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace lockstep {

/// `text` as a number, the same in every locale; nothing where the text is not wholly one, or the type cannot hold it.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace lockstep
