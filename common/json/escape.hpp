// Strings as JSON wants them.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

/// `text` (UTF-8) in quotes, with quotes, backslashes and control characters escaped.
std::string quoted(std::string_view text);

}  // namespace lockstep
