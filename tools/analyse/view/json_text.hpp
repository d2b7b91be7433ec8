// JSON for a page: short, and never the end of the element that it stands in.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <string_view>

#include "common/support/json/escape.hpp"

namespace lockstep::view {

/// In quotes, without "<": no text closes the page's script.
inline std::string text(std::string_view value) {
  std::string escaped;
  for (char c : lockstep::quoted(utf8(value))) c == '<' ? escaped += "\\u003c" : escaped += c;
  return escaped;
}

/// Nanoseconds: what the page counts in.
inline long long ns(double seconds) { return std::llround(seconds * 1e9); }

/// "a,b,c" of what `write` makes of each.
template <class List, class Write>
std::string joined(const List& all, const Write& write) {
  std::string out;
  for (const auto& each : all) {
    if (!out.empty()) out += ',';
    out += write(each);
  }
  return out;
}

/// "[a,b,c]" likewise.
template <class List, class Write>
std::string list(const List& all, const Write& write) {
  return "[" + joined(all, write) + "]";
}

}  // namespace lockstep::view
