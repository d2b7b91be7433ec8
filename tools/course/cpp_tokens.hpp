// A C++ text in tokens, as far as those who look at answers need them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::tools {

struct Token {
  enum class Kind : std::uint8_t { word, number, literal, sign, end };
  Kind kind = Kind::end;
  std::string text;  ///< of a literal: its quote
  int line = 0;
  bool directive = false;  ///< what stands behind its #
  bool is(std::string_view sign) const { return kind == Kind::sign && text == sign; }
  bool word(std::string_view name) const { return kind == Kind::word && text == name; }
};

/// `names` has a blank before and behind each.
inline bool listed_in(std::string_view names, std::string_view name) {
  return names.find(" " + std::string(name) + " ") != names.npos;
}

/// A C++ text, token by token (C++20, [lex]): a backslash at a line's end joins lines, but in raw strings; digraphs and
/// words such as `bitand` are the signs that they mean.
class Scanner {
 public:
  explicit Scanner(std::string_view text, std::size_t at = 0, int line = 1);

  /// The next one; of the kind `end` where there is none.
  Token next();
  std::size_t at() const { return at_; }
  /// Behind #include: `"a.hpp"` or `<vector>`, which is read then; "" where there is neither.
  std::string header_name();

 private:
  char now() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  char after() const;
  void step();
  void join();
  void skip_comment();
  Token take();
  void take_number(Token& token);
  void take_sign(Token& token);
  void skip_literal(char quote);
  void skip_suffix();
  void skip_raw();
  bool third_is_colon() const;

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool begins_ = true, after_hash_ = false;
};

/// The tokens around one, of which those before the first and behind the last are of no kind, and those that are far
/// away, so that no text takes long.
class Around {
 public:
  Around(const std::vector<Token>& tokens, std::size_t at) : tokens_(tokens), at_(at) {}
  const Token& operator[](int by) const {
    static const Token kNone;
    constexpr int far = 200;
    const auto index = static_cast<long>(at_) + by;
    const bool none = by < -far || by > far || index < 0 || index >= static_cast<long>(tokens_.size());
    return none ? kNone : tokens_[static_cast<std::size_t>(index)];
  }
  Around at(int by) const { return {tokens_, static_cast<std::size_t>(static_cast<long>(at_) + by)}; }

 private:
  const std::vector<Token>& tokens_;
  std::size_t at_;
};

}  // namespace lockstep::tools
