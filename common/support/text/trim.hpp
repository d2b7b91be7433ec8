// Removes the blanks around a text.
#pragma once

#include <algorithm>
#include <cctype>
#include <string>

namespace lockstep {

/// Returns `text` without white space at both ends.
inline std::string trimmed(std::string text) {
  const auto blank = [](unsigned char c) { return std::isspace(c) != 0; };
  text.erase(text.begin(), std::find_if_not(text.begin(), text.end(), blank));
  text.erase(std::find_if_not(text.rbegin(), text.rend(), blank).base(), text.end());
  return text;
}

}  // namespace lockstep
