#include "tools/grade/class/csv.hpp"

#include <algorithm>

#include "common/support/json/results.hpp"

namespace lockstep::tools {

char separator_of(const std::string& text) {
  bool quoted_field = false, semicolon = false;
  for (const char c : text) {
    if (c == '"') quoted_field = !quoted_field;
    if (quoted_field) continue;
    if (c == ',') return ',';
    if (c == '\n') break;
    semicolon |= c == ';';
  }
  return semicolon ? ';' : ',';
}

Table read_csv(const std::string& text) {
  const char separator = separator_of(text);
  Table lines(1, {""});
  bool quoted_field = false;
  for (std::size_t i = text.starts_with("\xef\xbb\xbf") ? 3 : 0; i < text.size(); ++i) {
    const char c = text[i];
    std::string& field = lines.back().back();
    if (quoted_field && c == '"' && i + 1 < text.size() && text[i + 1] == '"')
      field += text[++i];
    else if (c == '"')
      quoted_field = !quoted_field;
    else if (c == separator && !quoted_field)
      lines.back().emplace_back();
    else if (c == '\n' && !quoted_field)
      lines.push_back({""});
    else if (c != '\r' || quoted_field)
      field += c;
  }
  std::erase_if(lines, [](const std::vector<std::string>& line) { return line.size() == 1 && line[0].empty(); });
  return lines;
}

std::string write_csv(const Table& table, char separator) {
  std::string text;
  for (const std::vector<std::string>& line : table)
    for (std::size_t i = 0; i < line.size(); ++i) {
      const bool plain = line[i].find(separator) == std::string::npos;
      const std::string field = csv_field(line[i]);
      text += plain || field != line[i] ? field : '"' + field + '"';
      text += i + 1 < line.size() ? separator : '\n';
    }
  return text;
}

}  // namespace lockstep::tools
