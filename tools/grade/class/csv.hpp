// Tables as text, with commas (RFC 4180), or with semicolons, as Excel writes them where a comma is in numbers.
#pragma once

#include <string>
#include <vector>

namespace lockstep::tools {

using Table = std::vector<std::vector<std::string>>;

/// The separator of fields: a semicolon where the first line has one, and no comma; else a comma.
char separator_of(const std::string& text);

/// The fields of each line; those in quotes may hold separators, line ends and, doubled, quotes. Without empty lines,
/// and without the mark with which some spreadsheets begin.
Table read_csv(const std::string& text);

/// The same back, with quotes where they are needed.
std::string write_csv(const Table& table, char separator);

}  // namespace lockstep::tools
