// A JSON document: what a file says, and what is to stand in one. The one place that knows the JSON library is
// document.cpp: its header costs 2.3 s a file (GCC 12, -O0), and some twenty files read or write JSON, half of what a
// clean build may take. This header is light, and calls things as that library does.
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

/// What is wrong with a text, "parse error at line 3, column 1: …", or with what was asked of a document: a name that
/// is not there, a number of what is a list. A member that is there twice is wrong, and so is nesting deeper than
/// kMostNested.
class JsonError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Json;

template <class T>
concept JsonNumber = std::is_arithmetic_v<T> && !std::same_as<T, char>;
template <class T>
concept JsonScalar = JsonNumber<T> || std::same_as<T, std::string>;
/// What a value can be read as, `double x = row.at("seconds")`.
template <class T>
concept JsonReadable =
    JsonScalar<T> || std::same_as<T, std::vector<std::string>> || std::same_as<T, std::vector<double>>;

class Json {
 public:
  struct Member;                                   // name, value
  static constexpr std::size_t kMostNested = 100;  // lists and objects, one in the other

  Json() = default;
  /// To be written. Bytes of a text that are not UTF-8 are replaced: it may quote anybody.
  static Json of(std::string_view text);
  template <JsonNumber T>
  static Json of(T value);
  static Json list(std::vector<Json> elements);
  static Json object(std::vector<Member> members);

  /// Throws JsonError.
  static Json parse(const std::string& text);
  /// The same; comments as in C++ are skipped.
  static Json parse_with_comments(const std::string& text);
  /// The same; nothing where it is no JSON otherwise.
  static std::optional<Json> parse_if_valid(const std::string& text);
  /// Hands over every object that is inside `depth` lists and objects as soon as it is read, and keeps none of them: a
  /// large file never becomes a large tree. The rest is returned.
  static Json parse(const std::string& text, int depth, const std::function<void(const Json&)>& take);

  bool is_null() const { return kind_ == Kind::null; }
  bool is_boolean() const { return kind_ == Kind::truth; }
  bool is_number() const { return kind_ == Kind::whole || kind_ == Kind::real; }
  bool is_number_integer() const { return kind_ == Kind::whole; }
  bool is_string() const { return kind_ == Kind::text; }
  bool is_array() const { return kind_ == Kind::list; }
  bool is_object() const { return kind_ == Kind::object; }

  /// Of a list or an object; they throw JsonError where it is neither, or has no such thing.
  std::size_t size() const;
  bool empty() const { return size() == 0; }
  const Json& at(std::size_t index) const;
  const Json& at(std::string_view name) const;
  const Json& operator[](std::size_t index) const { return at(index); }
  const Json* begin() const;
  const Json* end() const;
  const std::vector<Member>& items() const;  // in the file's order

  /// Null where it is no object, or has no member of that name.
  const Json* find(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  /// The member of that name, or `otherwise`.
  template <JsonReadable T>
  T value(std::string_view name, T otherwise) const {
    const Json* found = find(name);
    return found ? found->get<T>() : std::move(otherwise);
  }
  std::string value(std::string_view name, const char* otherwise) const { return value(name, std::string(otherwise)); }

  /// Throws JsonError where it is something else; a whole number, too, where T does not hold it.
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

  /// As it would stand in a file, on one line; or with a line for each element and member, `indent` blanks deeper than
  /// what it is in.
  std::string dump() const;
  std::string dump(int indent) const;
  /// As messages quote it: on one line, and no longer than a sentence bears.
  std::string quote() const;

 private:
  friend class JsonBuilder;
  static Json of_truth(bool value);
  static Json of_whole(double value, std::uint64_t bits);  // a negative one as two's complement
  static Json of_real(double value);
  void write(std::string& out, int indent, int level) const;
  enum class Kind { null, truth, whole, real, text, list, object };

  const std::string& text() const;
  bool truth() const;
  double number() const;
  std::uint64_t whole(std::int64_t least, std::uint64_t most) const;  // a negative one as two's complement

  Kind kind_ = Kind::null;
  double number_ = 0;
  std::uint64_t whole_ = 0;  // and a truth
  std::string text_;
  std::vector<Json> list_;
  std::vector<Member> members_;
};

struct Json::Member {
  std::string name;
  Json value;
};

// Here, where a Json can be destroyed: Member is complete.
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
