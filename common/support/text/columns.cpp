#include "common/support/text/columns.hpp"

#include <sys/ioctl.h>

#include <algorithm>

namespace lockstep {
namespace {

bool begins_character(char c) { return (c & 0xC0) != 0x80; }

/// Returns the first `count` characters.
std::string_view first(std::string_view text, std::size_t count) {
  std::size_t at = 0;
  while (at < text.size() && (!begins_character(text[at]) || count-- > 0)) ++at;
  return text.substr(0, at);
}

}  // namespace

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

std::size_t terminal_columns(int descriptor) {
  winsize size{};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string fitted(std::string_view text, std::size_t columns) {
  const std::size_t width = columns_of(text);
  if (width > columns) return columns == 0 ? "" : std::string(first(text, columns - 1)) + "…";
  return std::string(text) + std::string(columns - width, ' ');
}

std::vector<std::string> wrapped(std::string_view text, std::size_t columns) {
  std::vector<std::string> lines(1);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    at = end + 1;
    if (lines.back().empty())
      lines.back() = word;
    else if (columns_of(lines.back()) + 1 + columns_of(word) <= columns)
      lines.back().append(" ").append(word);
    else
      lines.emplace_back(word);
  }
  return lines;
}

std::string wrapped_lines(std::string_view text, std::size_t columns) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    const std::size_t indent = std::min(line.find_first_not_of(' '), line.size());
    const std::string_view words = line.substr(indent);
    at = end + 1;
    if (columns_of(line) <= columns || indent + 12 > columns || words.find("  ") != words.npos ||
        words.find("./lab ") != words.npos) {
      out.append(line);
    } else {
      std::size_t blanks = indent;
      for (const std::string& part : wrapped(words, columns - indent - 2)) {
        out.append(blanks == indent ? "" : "\n").append(blanks, ' ').append(part);
        blanks = indent + 2;
      }
    }
    if (end < text.size()) out += '\n';
  }
  return out;
}

std::string line_of(std::vector<LinePart> parts, std::size_t columns) {
  while (true) {
    std::string line;
    for (const LinePart& part : parts) line += (line.empty() ? "" : "  ") + part.text;
    if (columns_of(line) <= columns) return line;
    if (parts.size() < 2) return fitted(line, columns);
    parts.erase(std::min_element(parts.begin(), parts.end(),
                                 [](const LinePart& a, const LinePart& b) { return a.matters < b.matters; }));
  }
}

}  // namespace lockstep
