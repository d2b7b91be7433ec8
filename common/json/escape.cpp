#include "common/json/escape.hpp"

#include <fmt/format.h>

namespace lockstep {

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

}  // namespace lockstep
