// Strings as JSON wants them.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// `text` (UTF-8) in quotes, with quotes, backslashes and control characters escaped.
std::string quoted(std::string_view text);

/// `text` with bytes that are not UTF-8 replaced by U+FFFD: of what others wrote, whose bytes may be any.
std::string utf8(std::string_view text);

}  // namespace lockstep
