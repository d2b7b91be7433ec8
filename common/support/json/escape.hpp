// Strings in JSON's syntax.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// Returns `text` (UTF-8) in quotes, with quotes, backslashes and control characters escaped.
std::string quoted(std::string_view text);

/// Returns `text` with bytes that are not UTF-8 replaced by U+FFFD, for texts from other sources, which may contain any
/// bytes.
std::string utf8(std::string_view text);

}  // namespace lockstep
