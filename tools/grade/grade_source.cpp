#include "tools/grade/grade_source.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace lockstep::tools {
namespace {

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || (c & 0x80); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The words of a C++ text, one after the other: no comments, no literals.
class Words {
 public:
  explicit Words(std::string_view text) : text_(text) {}

  /// False at the end. `directive()` then says whether it is the name of one.
  bool next() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n')
        line_begins_ = true, after_hash_ = false, ++at_;
      else if (std::isspace(static_cast<unsigned char>(c)))
        ++at_;
      else if (rest().starts_with("//"))
        at_ = std::min(text_.find('\n', at_), text_.size());
      else if (rest().starts_with("/*"))
        skip_past("*/", 2);
      else if (c == '"' || c == '\'')
        skip_literal(c);
      else if (line_begins_ && (c == '#' || rest().starts_with("%:")))
        at_ += c == '#' ? 1 : 2, line_begins_ = false, after_hash_ = true;
      else if (in_word(c) || (c == '.' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1])))
        return take_word();
      else
        ++at_, line_begins_ = after_hash_ = false;
    }
    return false;
  }
  std::string_view word() const { return word_; }
  bool directive() const { return directive_; }
  /// What is left of the line.
  std::string_view line() const { return text_.substr(at_, text_.find('\n', at_) - at_); }

 private:
  std::string_view rest() const { return text_.substr(at_); }

  void skip_past(std::string_view end, std::size_t begin) {
    const std::size_t found = text_.find(end, std::min(at_ + begin, text_.size()));
    at_ = found == text_.npos ? text_.size() : found + end.size();
  }
  void skip_literal(char quote) {
    for (++at_; at_ < text_.size() && text_[at_] != quote && text_[at_] != '\n'; ++at_)
      if (text_[at_] == '\\') ++at_;
    if (at_ < text_.size() && text_[at_] == quote) ++at_;
    line_begins_ = after_hash_ = false;
  }
  bool take_word() {
    const std::size_t begin = at_;
    const bool number = !std::isalpha(static_cast<unsigned char>(text_[at_])) && text_[at_] != '_';
    while (at_ < text_.size() && (in_word(text_[at_]) || (number && goes_on(begin)))) ++at_;
    word_ = text_.substr(begin, at_ - begin);
    directive_ = after_hash_;
    line_begins_ = after_hash_ = false;
    constexpr std::array raw{"R", "LR", "uR", "UR", "u8R"};
    if (at_ < text_.size() && text_[at_] == '"' && std::find(raw.begin(), raw.end(), word_) != raw.end()) skip_raw();
    return true;
  }
  /// 1'000, 1.5 and 1e-3 are each one number.
  bool goes_on(std::size_t begin) const {
    const char c = text_[at_], before = text_[at_ > begin ? at_ - 1 : at_];
    const bool separates = c == '\'' && at_ + 1 < text_.size() && in_word(text_[at_ + 1]);
    const bool sign = (c == '+' || c == '-') && std::string_view("eEpP").find(before) != std::string_view::npos;
    return c == '.' || separates || sign;
  }
  void skip_raw() {
    const std::size_t open = text_.find('(', at_);
    if (open == text_.npos) return skip_literal('"');
    const std::string end = ")" + std::string(text_.substr(at_ + 1, open - at_ - 1)) + "\"";
    skip_past(end, open - at_ + 1);
  }

  std::string_view text_, word_;
  std::size_t at_ = 0;
  bool line_begins_ = true, after_hash_ = false, directive_ = false;
};

bool is_assembler(std::string_view word) {
  constexpr std::array names{"asm", "__asm", "__asm__"};
  return std::find(names.begin(), names.end(), word) != names.end();
}
constexpr const char* kAssembler = "it has an asm statement or label, which no answer needs";

/// Backslashes at the ends of lines join them before anything else is read.
std::string joined(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r') continue;
    std::size_t end = i + 1;
    while (end < text.size() && text[i] == '\\' && (text[end] == ' ' || text[end] == '\t' || text[end] == '\r')) ++end;
    if (text[i] == '\\' && end < text.size() && text[end] == '\n')
      i = end;
    else
      result += text[i];
  }
  return result;
}

}  // namespace

std::string source_refused(std::string_view text) {
  const std::string lines = joined(text);
  Words words(lines);
  while (words.next()) {
    if (is_assembler(words.word())) return kAssembler;
    if (!words.directive()) continue;
    if (words.word() == "line" || is_digit(words.word()[0]))
      return "it has a #line directive, which would name another file's lines as its own";
    if (words.word() == "embed") return "it embeds a file (#embed), which no answer needs";
  }
  return "";
}

std::string preprocessed_refused(std::string_view text, std::string_view file) {
  Words words(text);
  const std::string name = "\"" + std::string(file) + "\"";
  bool own = false;
  while (words.next()) {
    if (words.directive() && is_digit(words.word()[0]))
      own = words.line().find(name) != std::string_view::npos;
    else if (own && is_assembler(words.word()))
      return kAssembler;
  }
  return "";
}

}  // namespace lockstep::tools
