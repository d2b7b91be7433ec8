// The members of a small aggregate one after the other, without a list of them, and values in words.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

namespace lockstep {

/// Stands for a member of any type while members are counted. Never made.
struct AnyMember {
  template <class T>
  operator T() const;
};

/// The number of members that an aggregate has; 7 of one with more than 6.
template <class T, class... Known>
constexpr std::size_t members_of() {
  if constexpr (sizeof...(Known) < 7 && requires { T{Known{}..., AnyMember{}}; })
    return members_of<T, Known..., AnyMember>();
  else
    return sizeof...(Known);
}

/// An aggregate of 1 to 6 members.
template <class T>
concept Small = std::is_aggregate_v<T> && !std::is_array_v<T> && members_of<std::remove_const_t<T>>() >= 1 &&
                members_of<std::remove_const_t<T>>() <= 6;

/// Calls f(member, member, …).
template <Small T, class F>
void with_members(T& t, const F& f) {
  constexpr std::size_t n = members_of<std::remove_const_t<T>>();
  if constexpr (n == 1) {
    auto& [a] = t;
    f(a);
  } else if constexpr (n == 2) {
    auto& [a, b] = t;
    f(a, b);
  } else if constexpr (n == 3) {
    auto& [a, b, c] = t;
    f(a, b, c);
  } else if constexpr (n == 4) {
    auto& [a, b, c, d] = t;
    f(a, b, c, d);
  } else if constexpr (n == 5) {
    auto& [a, b, c, d, e] = t;
    f(a, b, c, d, e);
  } else {
    auto& [a, b, c, d, e, g] = t;
    f(a, b, c, d, e, g);
  }
}

template <class T>
std::string words_of_value(const T& value);

template <class... T>
std::string words_of_values(const T&... values) {
  std::string words;
  ((words += (words.empty() ? "" : ", ") + words_of_value(values)), ...);
  return words;
}

/// "{4, 8, 1, 0}", "[0.5, 2]"; "…" for other types than numbers, texts, lists and small aggregates of these.
template <class T>
std::string words_of_value(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return fmt::format("{}", static_cast<long long>(value));
  } else if constexpr (std::is_arithmetic_v<T> || std::is_convertible_v<T, std::string>) {
    return fmt::format("{}", value);
  } else if constexpr (requires { [](const std::vector<typename T::value_type>&) {}(value); }) {
    std::string words;
    for (const auto& item : value) words += (words.empty() ? "" : ", ") + words_of_value(item);
    return "[" + words + "]";
  } else if constexpr (Small<T>) {
    std::string words;
    with_members(value, [&words](const auto&... all) { words = words_of_values(all...); });
    return "{" + words + "}";
  } else {
    return "…";
  }
}

}  // namespace lockstep
