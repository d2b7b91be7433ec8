#include "tools/course/cpp_tokens.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

namespace lockstep::tools {
namespace {

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || (c & 0x80); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::string_view kBetween("\0 \t\f\v\r", 6);

void as_sign(Token& token) {
  using Pair = std::pair<const char*, const char*>;
  for (const auto& [name, sign] : {Pair{"bitand", "&"}, Pair{"and", "&&"}, Pair{"and_eq", "&="}, Pair{"not_eq", "!="}})
    if (token.word(name)) token.kind = Token::Kind::sign, token.text = sign;
}

}  // namespace

Scanner::Scanner(std::string_view text, std::size_t at, int line) : text_(text), at_(at), line_(line) {
  if (at == 0 && text.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  join();
}

Token Scanner::next() {
  while (at_ < text_.size()) {
    const char c = now();
    if (c == '\n')
      begins_ = true, after_hash_ = false, step();
    else if (std::isspace(static_cast<unsigned char>(c)) || c == '\0')
      step();
    else if (c == '/' && after() == '/')
      while (at_ < text_.size() && now() != '\n') step();
    else if (c == '/' && after() == '*')
      skip_comment();
    else
      return take();
  }
  Token end;
  end.line = line_;
  return end;
}

std::string Scanner::header_name() {
  while (now() == ' ' || now() == '\t') step();
  const char open = now(), close = open == '<' ? '>' : '"';
  if (open != '<' && open != '"') return "";
  std::string name;
  do name += now(), step();
  while (at_ < text_.size() && now() != close && now() != '\n');
  if (now() != close) return "";
  step();
  return name + close;
}

char Scanner::after() const {
  Scanner next = *this;
  next.step();
  return next.now();
}

void Scanner::step() {
  line_ += now() == '\n';
  ++at_;
  join();
}

/// Past every backslash that ends a line. What compilers let stand between the two is white space, and NUL.
void Scanner::join() {
  while (at_ < text_.size() && text_[at_] == '\\') {
    std::size_t end = at_ + 1;
    while (end < text_.size() && kBetween.find(text_[end]) != kBetween.npos) ++end;
    if (end >= text_.size() || text_[end] != '\n') return;
    at_ = end + 1, ++line_;
  }
}

void Scanner::skip_comment() {
  step(), step();
  while (at_ < text_.size() && !(now() == '*' && after() == '/')) step();
  step(), step();
}

Token Scanner::take() {
  Token token;
  token.line = line_;
  token.directive = after_hash_;
  const char c = now();
  if (c == '"' || c == '\'') {
    token.kind = Token::Kind::literal, token.text = c;
    skip_literal(c), skip_suffix();
  } else if (is_digit(c) || (c == '.' && is_digit(after()))) {
    token.kind = Token::Kind::number;
    take_number(token);
  } else if (in_word(c)) {
    token.kind = Token::Kind::word;
    for (; in_word(now()); step()) token.text += now();
    constexpr std::string_view raw = " R LR uR UR u8R ";
    if (now() == '"' && listed_in(raw, token.text)) skip_raw(), skip_suffix(), token.kind = Token::Kind::literal;
    as_sign(token);
  } else {
    token.kind = Token::Kind::sign;
    take_sign(token);
  }
  after_hash_ = begins_ && token.is("#");
  begins_ = false;
  return token;
}

void Scanner::take_number(Token& token) {
  for (char before = '0';; step()) {
    const bool separates = now() == '\'' && in_word(after());
    const bool sign = (now() == '+' || now() == '-') && std::string_view("eEpP").find(before) != std::string_view::npos;
    if (!in_word(now()) && now() != '.' && !separates && !sign) return;
    token.text += before = now();
  }
}

void Scanner::skip_literal(char quote) {
  step();
  while (at_ < text_.size() && now() != quote && now() != '\n') {
    if (now() == '\\') step();
    step();
  }
  if (now() == quote) step();
}

/// Skips a literal's suffix, which belongs to it: `""R"(x"` are two strings of one line, and no raw string.
void Scanner::skip_suffix() {
  while (in_word(now())) step();
}

/// Lines are not joined in it.
void Scanner::skip_raw() {
  const std::size_t open = text_.find('(', at_);
  if (open == text_.npos) return skip_literal('"');
  const std::string close = ")" + std::string(text_.substr(at_ + 1, open - at_ - 1)) + "\"";
  const std::size_t end = std::min(text_.find(close, open), text_.size() - close.size()) + close.size();
  line_ += static_cast<int>(
      std::count(text_.begin() + static_cast<long>(at_), text_.begin() + static_cast<long>(end), '\n'));
  at_ = end;
  join();
}

void Scanner::take_sign(Token& token) {
  using Pair = std::pair<const char*, const char*>;
  for (const auto& [written, meant] :
       {Pair{"%:", "#"}, Pair{"<:", "["}, Pair{":>", "]"}, Pair{"<%", "{"}, Pair{"%>", "}"}, Pair{"::", "::"},
        Pair{"->", "->"}, Pair{"&&", "&&"}, Pair{"*=", "*="}, Pair{"&=", "&="}, Pair{"==", "=="}, Pair{"!=", "!="},
        Pair{"<=", "<="}, Pair{">=", ">="}, Pair{"##", "##"}}) {
    if (now() != written[0] || after() != written[1] || (meant[0] == '[' && third_is_colon())) continue;
    token.text = meant;
    step(), step();
    return;
  }
  token.text = now();
  step();
}

/// `<::` opens a template's arguments.
bool Scanner::third_is_colon() const {
  Scanner next = *this;
  next.step(), next.step();
  return next.now() == ':' && next.after() != ':' && next.after() != '>';
}

}  // namespace lockstep::tools
