#include "tools/tests/numbers/page.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <regex>
#include <sstream>

#include "common/error.hpp"

namespace lockstep::numbers {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Blanks out what matches, except line breaks: every other character keeps its place.
void blank(std::string& text, const std::regex& pattern) {
  std::string all = text;
  for (std::sregex_iterator it(all.begin(), all.end(), pattern), end; it != end; ++it)
    for (auto at = it->position(); at < it->position() + it->length(); ++at)
      if (text[static_cast<std::size_t>(at)] != '\n') text[static_cast<std::size_t>(at)] = '\t';
}

/// The end of the page's number that begins at `at`; `at` itself if none does.
std::size_t end_of_number(const std::string& text, std::size_t at) {
  std::size_t end = at + (text.compare(at, 3, "−") == 0 ? 3 : 0);
  const std::size_t digits = end;
  while (end < text.size() &&
         (is_digit(text[end]) || ((text[end] == '.' || text[end] == ',') && is_digit(text[end + 1]))))
    ++end;
  return end == digits ? at : end;
}

/// Finds `parts` in a page with any numbers between them; returns the text there, or "".
std::string with_other_numbers(const std::string& text, const std::vector<std::string>& parts, std::size_t& found) {
  for (std::size_t begin = text.find(parts[0]); begin != text.npos; begin = text.find(parts[0], begin + 1)) {
    std::size_t at = begin + parts[0].size();
    bool all = true;
    for (std::size_t i = 1; all && i < parts.size(); ++i) {
      const std::size_t end = end_of_number(text, at);
      all = end > at && text.compare(end, parts[i].size(), parts[i]) == 0;
      at = end + parts[i].size();
    }
    if (!all) continue;
    found = begin;
    return text.substr(begin, at - begin);
  }
  return "";
}

}  // namespace

std::string fixed(double value, int decimals) {
  std::string text = fmt::format("{:.{}f}", std::abs(value), decimals);
  const std::size_t whole = std::min(text.find('.'), text.size());
  for (std::size_t at = whole; at > 3; at -= 3) text.insert(at - 3, ",");
  return (value < 0 && text.find_first_of("123456789") != text.npos ? "−" : "") + text;
}

std::string rounded(double value, int digits) {
  const int least = static_cast<int>(std::floor(std::log10(std::abs(value)))) - digits + 1;
  const double unit = std::pow(10.0, least);
  return fixed(std::round(value / unit) * unit, std::max(0, -least));
}

Page::Page(const std::string& path) : path_(path) {
  std::ifstream file(std::string(LOCKSTEP_SOURCE_DIR) + "/" + path);
  if (!file) throw Error(Verdict::usage, "there is no page " + path);
  std::stringstream read;
  read << file.rdbuf();
  const std::string page = read.str();
  std::string looked_at = page;
  static const std::regex code(R"(```[^`]*```|`[^`\n]*`)"), titles(R"(\n#[^\n]*)"), targets(R"(\]\([^)\n]*\))"),
      questions(R"(\*\*[^*]*\?\*\*)");
  for (const std::regex* pattern : {&code, &titles, &targets, &questions}) blank(looked_at, *pattern);
  std::size_t line = 1;
  for (std::size_t i = 0; i < page.size(); ++i) {
    const bool is_blank = page[i] == ' ' || page[i] == '\n';
    if (!is_blank || text_.empty() || text_.back() != ' ') {
      text_ += is_blank ? ' ' : page[i];
      looked_at_ += is_blank ? ' ' : looked_at[i];
      lines_.push_back(line);
    }
    if (page[i] == '\n') ++line;
  }
  known_.assign(text_.size(), Known::nothing);
}

bool Page::mark(const std::string& words, Known known) {
  bool found = false;
  for (std::size_t at = text_.find(words); at != text_.npos; at = text_.find(words, at + 1)) {
    std::fill_n(known_.begin() + static_cast<std::ptrdiff_t>(at), words.size(), known);
    found = true;
  }
  return found;
}

void Page::says(const std::string& words, std::initializer_list<std::string> numbers) {
  std::vector<std::string> parts;
  std::string said;
  std::size_t begin = 0;
  for (const std::string& number : numbers) {
    const std::size_t place = words.find("{}", begin);
    if (place == words.npos) throw Error(Verdict::usage, "more numbers than places: " + words);
    parts.push_back(words.substr(begin, place - begin));
    said += parts.back() + number;
    begin = place + 2;
  }
  parts.push_back(words.substr(begin));
  said += parts.back();
  if (mark(said, Known::computed)) return;
  std::size_t found = 0;
  const std::string there = with_other_numbers(text_, parts, found);
  if (there.empty())
    ADD_FAILURE() << path_ << " does not say '" << said
                  << "', with these or other numbers. If the sentence has changed, change it in the test, too.";
  else
    ADD_FAILURE() << line(found) << " says     '" << there << "'\n  the suite computes '" << said << "'";
}

void Page::cites(const std::string& source, std::initializer_list<std::string> words) {
  for (const std::string& each : words)
    if (!mark(each, Known::cited))
      ADD_FAILURE() << path_ << " no longer says '" << each << "' (" << source << "): take it out of the test.";
}

std::string Page::line(std::size_t at) const { return fmt::format("{}:{}", path_, lines_[at]); }

std::vector<Page::Number> Page::numbers() const {
  static const std::regex unit(
      R"(^( ?%| ?× | (ms|µs|s|[KMGT]i?B|GPUs?|bytes|times|seconds?|minutes?|hours?|positions|of them)\b))"),
      exercise(R"(^2[1-5]\.\d\d?$)"), symbol(R"(^ ?([A-Za-z(]|Ψ|Σ|√|·[a-z]|[αβγπ]))");
  std::vector<Number> all;
  for (std::size_t at = 0; at < looked_at_.size(); ++at) {
    if (!is_digit(looked_at_[at])) continue;
    const std::size_t end = end_of_number(looked_at_, at);
    const std::string number = looked_at_.substr(at, end - at), after = looked_at_.substr(end, 12);
    const std::string before = looked_at_.substr(at < 10 ? 0 : at - 10, std::min<std::size_t>(at, 10));
    const auto follows = [&](const char* word) { return before.ends_with(word); };
    const bool name =
        !before.empty() && (std::isalpha(static_cast<unsigned char>(before.back())) || before.back() == '_' ||
                            before.back() == '^' || before.back() == '.' || follows("arXiv ") ||
                            (before.back() == '-' && before.size() > 1 &&
                             std::isalpha(static_cast<unsigned char>(before[before.size() - 2]))));
    const bool has_unit = std::regex_search(after, unit);
    const bool has_point = number.find_first_of(".,") != number.npos;
    const bool result = (follows("= ") || follows("≈ ") || follows("about ") || follows("some ")) &&
                        !std::regex_search(after.substr(0, 4), symbol);
    if (!name && (has_unit || (has_point && !std::regex_match(number, exercise)) || (result && !has_point)))
      all.push_back({at, end});
    at = end;
  }
  return all;
}

std::vector<std::string> Page::rest() const {
  std::vector<std::string> all;
  for (const Number& number : numbers()) {
    if (known_[number.begin] != Known::nothing) continue;
    std::size_t begin = number.begin - std::min<std::size_t>(number.begin, 40),
                end = std::min(text_.size(), number.end + 30);
    while (begin > 0 && (text_[begin] & 0xc0) == 0x80) --begin;  // whole characters
    while (end < text_.size() && (text_[end] & 0xc0) == 0x80) ++end;
    all.push_back(fmt::format("{}: {} in '{}'", line(number.begin),
                              text_.substr(number.begin, number.end - number.begin), text_.substr(begin, end - begin)));
  }
  return all;
}

std::string Page::coverage() const {
  int computed = 0, cited = 0, all = 0;
  for (const Number& number : numbers()) {
    ++all;
    computed += known_[number.begin] == Known::computed;
    cited += known_[number.begin] == Known::cited;
  }
  return fmt::format("{}: {} numbers look computed; {} are, {} are cited", path_, all, computed, cited);
}

void Page::expect_all_known() const {
  fmt::print("{}\n", coverage());
  for (const std::string& number : rest()) ADD_FAILURE() << number << ": nothing computes it";
}

}  // namespace lockstep::numbers
