#include "tools/course/skeleton.hpp"

#include <algorithm>
#include <sstream>
#include <stdexcept>

namespace lockstep::tools {
namespace {

constexpr std::string_view kMark = "// lab ";
constexpr std::string_view kBegin = " begin: ";
constexpr std::string_view kEnd = "// lab end";
constexpr std::string_view kOmit = "// lab omit begin", kOmitEnd = "// lab omit end";
constexpr std::size_t kColumns = 120;

[[noreturn]] void malformed(std::string_view file, int line, std::string_view why) {
  throw std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": " + std::string(why));
}

std::string_view without_indent(std::string_view line) {
  auto first = line.find_first_not_of(' ');
  return first == line.npos ? std::string_view{} : line.substr(first);
}

Region parse_begin(const std::string& line, std::string_view file, int number) {
  std::string_view rest = without_indent(line);
  Region region{.indent = line.substr(0, line.size() - rest.size()), .id = {}, .what = {}, .answer = {}};
  rest.remove_prefix(kMark.size());
  auto begin = rest.find(kBegin);
  if (begin == rest.npos) malformed(file, number, "expected '// lab ID begin: what to write' or '// lab end'");
  region.id = rest.substr(0, begin);
  region.what = rest.substr(begin + kBegin.size());
  if (region.id.find_first_not_of("0123456789.abcdefghijklmnopqrstuvwxyz") != region.id.npos || region.what.empty()) {
    malformed(file, number, "expected '// lab ID begin: what to write', with an ID like 21.2a");
  }
  return region;
}

/// Escapes a text for a C++ string literal.
std::string escaped(std::string_view text) {
  std::string result;
  for (char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (c == '\n') {
      result += "\\n";
    } else {
      result += c;
    }
  }
  return result;
}

std::size_t width(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });  // UTF-8
}

/// `text` as string literals of whole words, one below the other from column `column` on.
std::string wrapped_literal(std::string_view text, std::size_t column) {
  constexpr std::size_t kClosing = 4;  // a blank and a quotation mark, or a quotation mark and ");"
  std::istringstream words{std::string(text)};
  std::string result = "\"", word;
  std::size_t used = column + 1;
  for (bool first = true; words >> word; first = false) {
    std::size_t needed = width(escaped(word)) + (first ? 0 : 1);
    if (!first && used + needed + kClosing > kColumns) {
      result += " \"\n" + std::string(column, ' ') + "\"";
      used = column + 1;
      --needed, first = true;
    }
    result += (first ? "" : " ") + escaped(word);
    used += needed;
  }
  return result + "\"";
}

}  // namespace

std::string replace_regions(std::string_view solution, std::string_view file,
                            const std::function<std::string(const Region&)>& replace) {
  std::istringstream in{std::string(solution)};
  std::string out, line;
  Region region;
  enum { outside, description, answer, omitted } state = outside;
  int begun = 0;
  for (int number = 1; std::getline(in, line); ++number) {
    std::string_view text = without_indent(line);
    if (state == omitted) {
      if (text == kOmitEnd) state = outside;
    } else if (text == kOmit && state == outside) {
      state = omitted;
      begun = number;
    } else if (text == kEnd) {
      if (state == outside) malformed(file, number, "'// lab end' without a begin");
      out += replace(region);
      state = outside;
    } else if (text.starts_with(kMark)) {
      if (state != outside) malformed(file, number, "a region begins inside another one");
      region = parse_begin(line, file, number);
      state = description;
      begun = number;
    } else if (state == description && text.starts_with("//")) {
      region.what += " " + std::string(without_indent(text.substr(2)));
    } else if (state != outside) {
      state = answer;
      region.answer += line + "\n";
    } else {
      out += line + "\n";
    }
  }
  if (state != outside)
    malformed(file, begun, state == omitted ? "this has no '// lab omit end'" : "this region has no '// lab end'");
  return out;
}

std::string skeleton(std::string_view solution, std::string_view file) {
  return replace_regions(solution, file, [](const Region& region) {
    // Google's format: what does not fit on one line begins on the next.
    std::string opening = region.indent + "todo(\"" + region.id + "\",";
    bool fits = opening.size() + width(escaped(region.what)) + 5 <= kColumns;
    std::string below = region.indent + "     ";
    opening += fits ? " " : "\n" + below;
    return opening + wrapped_literal(region.what, fits ? opening.size() : below.size()) + ");\n";
  });
}

std::string without_answers(std::string_view solution, std::string_view file) {
  return replace_regions(solution, file, [](const Region& region) {
    return region.indent + "// lab " + region.id + " begin: " + region.what + "\n" + region.indent + "// lab end\n";
  });
}

std::string stub(std::string_view solution, std::string_view file, std::string_view exercise,
                 std::string_view explanation) {
  std::string answer =
      "::lockstep::does_not_compile(\"" + std::string(exercise) + "\", \"" + escaped(explanation) + "\");\n";
  return "#include \"common/error.hpp\"\n" +
         replace_regions(solution, file, [&](const Region& region) { return region.indent + answer; });
}

}  // namespace lockstep::tools
