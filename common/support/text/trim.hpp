// Removes the blanks around a text, and its capital letters.
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

/// Returns `text` with small letters.
inline std::string lower(std::string text) {
  for (char& letter : text) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return text;
}

}  // namespace lockstep
