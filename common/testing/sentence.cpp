// Rewords the message of a failed expectation: learners do not see GoogleTest's own text about the comparison.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "common/support/text/parse_number.hpp"
#include "common/testing/verdict.hpp"

namespace lockstep::testing {
namespace {

bool begins_with_any(std::string_view line, std::initializer_list<std::string_view> words) {
  for (std::string_view word : words)
    if (line.starts_with(word)) return true;
  return false;
}

/// Returns the part of `text` between the first `before` and the next `after`; "" if one of them is missing.
std::string_view between(std::string_view text, std::string_view before, std::string_view after) {
  const auto begin = text.find(before);
  if (begin == text.npos) return {};
  const auto from = begin + before.size(), end = text.find(after, from);
  return end == text.npos ? std::string_view() : text.substr(from, end - from);
}

/// Returns 0.006 for 0.0060000000000000001, which is how GoogleTest prints a double so that it can be read back.
std::string shortened(std::string_view value) {
  const std::optional<double> number = parse_number<double>(value);
  return number && value.size() > 12 && value.find('.') != value.npos ? fmt::format("{:.9g}", *number)
                                                                      : std::string(value);
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_word) &&
         !std::isdigit(static_cast<unsigned char>(text.front()));
}

/// Returns the part of a test's expression that is meaningful to a reader: a name, a call with numbers, the member of
/// "d.exposed". Nothing for "is.y[i] / 2" or "waste(found)", whose names exist only in the test.
std::string subject_of(std::string_view expression) {
  const auto bracket = std::min(expression.find('('), expression.size());
  const bool call = is_name(expression.substr(0, bracket)) && expression.ends_with(')');
  const std::string_view member = expression.substr(expression.find_last_of(".>") + 1);
  if (call && std::none_of(expression.begin() + static_cast<std::ptrdiff_t>(bracket), expression.end(),
                           [](unsigned char c) { return std::isalpha(c); }))
    return fmt::format("{} is", expression);
  for (std::string_view sign : {" + ", " - ", " * ", " / "})
    if (expression.find(sign) != expression.npos) return "found";
  return is_name(member) ? fmt::format("{} is", member) : "found";
}

/// Returns "a is 1, expected 2"; "" if the values are raw bytes.
std::string words_of(std::string_view expression, std::string_view found, std::string_view expected) {
  for (std::string_view value : {found, expected})
    if (value.empty() || value.find("-byte object") != value.npos) return "";
  const std::string near = shortened(found), exact = shortened(expected), subject = subject_of(expression);
  return near == exact ? fmt::format("\n  {} {}, expected {}", subject, found, expected)
                       : fmt::format("\n  {} {}, expected {}", subject, near, exact);
}

/// The next value of "Expected equality of these values:": its expression and value.
struct Value {
  std::string_view expression, value;
};
Value next_value(std::string_view& text) {
  const auto line = [&] {
    const std::string_view first = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), first.size() + 1));
    return first;
  };
  constexpr std::string_view which = "    Which is: ";
  std::string_view expression = line();
  expression.remove_prefix(std::min(expression.size(), expression.find_first_not_of(' ')));
  return {expression, text.starts_with(which) ? line().substr(which.size()) : expression};
}

/// Parses the text of EXPECT_EQ and the like.
std::string words_of_equality(std::string_view compared) {
  compared.remove_prefix(compared.find('\n') + 1);
  const Value found = next_value(compared), expected = next_value(compared);
  return words_of(found.expression, found.value, expected.value);
}

/// Parses "Expected: (a) < (b), actual: 3 vs 2".
std::string words_of_order(std::string_view compared) {
  struct Relation {
    std::string_view sign, words;
  };
  constexpr std::array<Relation, 5> relations = {{{") <= (", "at most "},
                                                  {") >= (", "at least "},
                                                  {") < (", "less than "},
                                                  {") > (", "more than "},
                                                  {") != (", "anything but "}}};
  const auto actual = compared.rfind("), actual: "), vs = compared.rfind(" vs ");
  if (actual == compared.npos || vs == compared.npos || vs < actual) return "";
  const std::string_view left = compared.substr(actual + 11, vs - actual - 11), right = compared.substr(vs + 4);
  for (const Relation& relation : relations)
    if (const std::string_view expression = between(compared, "Expected: (", relation.sign); !expression.empty())
      return right.empty() ? "" : words_of(expression, left, std::string(relation.words) + std::string(right));
  return "";
}

/// Parses "The difference between a and b is 1, which exceeds c, where\na evaluates to 1,\nb evaluates to 2, and\nc
/// evaluates to 0.5."
std::string words_of_difference(std::string_view compared) {
  constexpr std::string_view evaluates = " evaluates to ";
  std::array<std::string_view, 3> values;
  std::string_view expression;
  for (std::string_view& value : values) {
    const auto at = compared.find(evaluates);
    if (at == compared.npos) return "";
    if (expression.empty()) {
      const auto line = compared.rfind('\n', at);
      expression = compared.substr(line + 1, at - line - 1);
    }
    value = compared.substr(at + evaluates.size());
    value = value.substr(0, value.find_first_of(",\n"));
    compared.remove_prefix(at + evaluates.size());
  }
  if (values[2].ends_with('.')) values[2].remove_suffix(1);
  return words_of(expression, values[0], fmt::format("{} to within {}", shortened(values[1]), shortened(values[2])));
}

std::string in_words(std::string_view compared) {
  if (compared.starts_with("Expected equality")) return words_of_equality(compared);
  if (compared.starts_with("Expected: (")) return words_of_order(compared);
  if (compared.starts_with("The difference")) return words_of_difference(compared);
  return "";  // a condition, or an exception: the test's sentence is enough
}

/// Finds `word` in `text`, starting at `from`, as a separate word: between spaces, brackets and signs, not quoted, and
/// not part of a longer word or of a file's name.
std::size_t find_word(std::string_view text, std::string_view word, std::size_t from) {
  for (auto at = text.find(word, from); at != text.npos; at = text.find(word, at + 1)) {
    const char before = at == 0 ? ' ' : text[at - 1];
    const char after = at + word.size() == text.size() ? ' ' : text[at + word.size()];
    const bool begins = before == ' ' || before == '\n' || before == '(' || before == '[';
    if (begins && !is_word(after) && after != '/' && after != '"' && after != '\'') return at;
  }
  return text.npos;
}

/// Returns the prefix that two places have put before a message: "rank 0: " for "rank 0: rank 0: …"; "" if there is
/// none.
std::string_view said_twice_in(std::string_view message) {
  std::size_t begin = 0;  // beginning of a line, or after the preceding colon
  for (std::size_t at = 0; at + 1 < message.size(); ++at) {
    if (message[at] == '\n' || (begin == at && message[at] == ' ')) begin = at + 1;
    if (message[at] != ':' || message[at + 1] != ' ') continue;
    const std::string_view prefix = message.substr(begin, at + 2 - begin);
    begin = at + 2;
    if (prefix.size() > 3 && message.substr(begin).starts_with(prefix)) return prefix;
  }
  return {};
}

}  // namespace

std::string numbers_in_words(std::string text) {
  struct Words {
    std::string_view printed, words;
  };
  constexpr std::array<Words, 4> numbers = {
      {{"-nan", "not a number"}, {"nan", "not a number"}, {"-inf", "minus infinity"}, {"inf", "infinity"}}};
  for (const Words& number : numbers)
    for (auto at = find_word(text, number.printed, 0); at != text.npos; at = find_word(text, number.printed, at))
      text.replace(at, number.printed.size(), number.words);
  return text;
}

std::string_view raw_text_in(std::string_view message) {
  // Texts that GoogleTest prints around the compared values, texts of the C++ library about an exception, and numbers
  // as printf formats them.
  constexpr std::array<std::string_view, 12> phrases = {
      "Which is: ",  " evaluates to ", "-byte object <",          ", which exceeds ",
      "), actual: ", "Expected: (",    "Expected equality of ",   "Value of: ",
      "  Actual: ",  "C++ exception",  "thrown in the test body", "::_M_"};
  for (std::string_view phrase : phrases)
    if (message.find(phrase) != message.npos) return phrase;
  for (std::string_view number : {"nan", "-nan", "inf", "-inf"})
    if (find_word(message, number, 0) != message.npos) return number;
  return said_twice_in(message);
}

std::string sentence_first(std::string_view message) {
  if (message.starts_with("Failed\n")) message.remove_prefix(7);  // GoogleTest puts it before the message of FAIL()
  while (message.ends_with('\n')) message.remove_suffix(1);       // GoogleTest ends a skipped test's message with one
  const auto line_at = [&](std::size_t at) { return message.substr(at, message.find('\n', at) - at); };
  if (!begins_with_any(message,
                       {"Expected equality of these values:", "Expected: ", "Value of: ", "The difference between "}))
    return std::string(message);
  std::size_t at = 0;
  bool lines_differ = false;  // for two texts, GoogleTest lists their lines
  for (std::string_view line = line_at(0); at < message.size(); line = line_at(std::min(at, message.size()))) {
    lines_differ = lines_differ || line == "With diff:";
    const bool compares = at == 0 || line.find(" evaluates to ") != line.npos ||
                          begins_with_any(line, {"  ", "Expected: ", "With diff:", "@@ "}) ||
                          (lines_differ && begins_with_any(line, {" ", "-", "+"}));
    if (!compares) break;
    at += line.size() + 1;
  }
  const std::string_view compared = message.substr(0, at - 1);
  while (at < message.size() && message[at] == '\n') ++at;  // skip to the text after the lines that differ
  if (at >= message.size()) return std::string(message);
  return std::string(message.substr(at)) + in_words(compared);
}

}  // namespace lockstep::testing
