#include "common/support/json/escape.hpp"

#include <fmt/format.h>

namespace lockstep {
namespace {

/// Returns the length of the code point at the beginning of `text`, following table 3-7 of the Unicode standard:
/// shortest form, no surrogates, nothing above U+10FFFF. 0 if it is malformed.
std::size_t code_point_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t bytes = first >= 0xC2 && first <= 0xDF   ? 2
                            : first >> 4 == 14               ? 3
                            : first >= 0xF0 && first <= 0xF4 ? 4
                                                             : 0;
  if (bytes == 0 || text.size() < bytes) return 0;
  for (std::size_t i = 1; i < bytes; ++i)
    if (byte(i) >> 6 != 2) return 0;
  const bool too_long = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool too_high = (first == 0xED && byte(1) > 0x9F) || (first == 0xF4 && byte(1) > 0x8F);
  return too_long || too_high ? 0 : bytes;
}

}  // namespace

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (char letter : text) {
    switch (letter) {
      case '"': result += "\\\""; break;
      case '\\': result += "\\\\"; break;
      case '\n': result += "\\n"; break;
      case '\t': result += "\\t"; break;
      case '\r': result += "\\r"; break;
      default:
        if (static_cast<unsigned char>(letter) < 0x20)
          result += fmt::format("\\u{:04x}", static_cast<unsigned>(letter));
        else
          result += letter;
    }
  }
  return result + "\"";
}

std::string utf8(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t bytes = code_point_bytes(text);
    result += bytes == 0 ? "\uFFFD" : text.substr(0, bytes);
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return result;
}

}  // namespace lockstep
