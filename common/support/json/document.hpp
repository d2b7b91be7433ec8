// A JSON document to read or to write. Only document.cpp includes the JSON library, whose header costs 2.3 s per file
// (GCC 12, -O0): some twenty files read or write JSON, and would use half the budget of a clean build. This header is
// light, and uses the library's names.
#pragma once

#include <compare>
#include <concepts>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep {

/// An error in a text, "parse error at line 3, column 1: …", or in its use: a missing name, a list read as a number.
/// Duplicate members and nesting deeper than kMostNested are errors, too.
class JsonError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Json;

template <class T>
concept JsonNumber = std::is_arithmetic_v<T> && !std::same_as<T, char>;
template <class T>
concept JsonScalar = JsonNumber<T> || std::same_as<T, std::string>;
/// Types that a value can be read as: `double x = row.at("seconds")`.
template <class T>
concept JsonReadable =
    JsonScalar<T> || std::same_as<T, std::vector<std::string>> || std::same_as<T, std::vector<double>>;

class Json {
 public:
  struct Member;                                   // name, value
  static constexpr std::size_t kMostNested = 100;  // nested lists and objects

  Json() = default;
  /// Makes a value for writing. Replaces bytes that are not UTF-8, because a text may quote any source.
  static Json of(std::string_view text);
  template <JsonNumber T>
  static Json of(T value);
  static Json list(std::vector<Json> elements);
  static Json object(std::vector<Member> members);

  /// Throws JsonError.
  static Json parse(const std::string& text);
  /// The same; skips comments as in C++.
  static Json parse_with_comments(const std::string& text);
  /// The same; returns nothing if the text is not JSON.
  static std::optional<Json> parse_if_valid(const std::string& text);
  /// Passes every object at depth `depth` (within that many lists and objects) to `take` as soon as it is read, and
  /// keeps none of them, so that a large file does not become a large tree. Returns the rest.
  static Json parse(const std::string& text, int depth, const std::function<void(const Json&)>& take);

  bool is_null() const { return kind_ == Kind::null; }
  bool is_boolean() const { return kind_ == Kind::truth; }
  bool is_number() const { return kind_ == Kind::whole || kind_ == Kind::real; }
  bool is_number_integer() const { return kind_ == Kind::whole; }
  bool is_string() const { return kind_ == Kind::text; }
  bool is_array() const { return kind_ == Kind::list; }
  bool is_object() const { return kind_ == Kind::object; }

  /// For a list or an object. They throw JsonError if the value is neither, or has no such element.
  std::size_t size() const;
  bool empty() const { return size() == 0; }
  const Json& at(std::size_t index) const;
  const Json& at(std::string_view name) const;
  const Json& operator[](std::size_t index) const { return at(index); }
  const Json* begin() const;
  const Json* end() const;
  const std::vector<Member>& items() const;  // in the file's order

  /// Returns null if the value is not an object, or has no member of that name.
  const Json* find(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  /// Returns the member of that name, or `otherwise`.
  template <JsonReadable T>
  T value(std::string_view name, T otherwise) const {
    const Json* found = find(name);
    return found ? found->get<T>() : std::move(otherwise);
  }
  std::string value(std::string_view name, const char* otherwise) const { return value(name, std::string(otherwise)); }

  /// Converts the value. Throws JsonError if it has another type, or if T cannot hold the whole number.
  template <JsonReadable T>
  T get() const {
    if constexpr (std::same_as<T, std::string>)
      return text();
    else if constexpr (std::same_as<T, bool>)
      return truth();
    else if constexpr (std::integral<T>)
      return static_cast<T>(whole(std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
    else if constexpr (std::floating_point<T>)
      return static_cast<T>(number());
    else {
      T all;
      for (const Json& one : *this) all.push_back(one.get<typename T::value_type>());
      return all;
    }
  }
  template <JsonReadable T>
  operator T() const {  // NOLINT(google-explicit-constructor)
    return get<T>();
  }

  bool operator==(const Json& other) const;
  bool operator==(std::string_view other) const { return is_string() && text_ == other; }
  template <JsonNumber T>
  bool operator==(T other) const {
    if constexpr (std::same_as<T, bool>)
      return is_boolean() && truth() == other;
    else
      return is_number() && number() == static_cast<double>(other);
  }
  std::partial_ordering operator<=>(const Json& other) const { return number() <=> other.number(); }
  template <JsonNumber T>
  std::partial_ordering operator<=>(T other) const {
    return number() <=> static_cast<double>(other);
  }

  /// Returns the text, on one line, or with a line for each element and member, indented by `indent` blanks per level.
  std::string dump() const;
  std::string dump(int indent) const;
  /// Returns the text as messages quote it: on one line, and short enough for a sentence.
  std::string quote() const;

 private:
  friend class JsonBuilder;
  static Json of_truth(bool value);
  static Json of_whole(double value, std::uint64_t bits);  // a negative number as two's complement
  static Json of_real(double value);
  void write(std::string& out, int indent, int level) const;
  enum class Kind { null, truth, whole, real, text, list, object };

  const std::string& text() const;
  bool truth() const;
  double number() const;
  std::uint64_t whole(std::int64_t least, std::uint64_t most) const;  // a negative number as two's complement

  Kind kind_ = Kind::null;
  double number_ = 0;
  std::uint64_t whole_ = 0;  // also used for booleans
  std::string text_;
  std::vector<Json> list_;
  std::vector<Member> members_;
};

struct Json::Member {
  std::string name;
  Json value;
};

// Defined here, where Member is complete and a Json can be destroyed.
template <JsonNumber T>
Json Json::of(T value) {
  if constexpr (std::same_as<T, bool>)
    return of_truth(value);
  else if constexpr (std::integral<T>)
    return of_whole(static_cast<double>(value), static_cast<std::uint64_t>(value));
  else
    return of_real(value);
}

std::ostream& operator<<(std::ostream& out, const Json& json);

}  // namespace lockstep
