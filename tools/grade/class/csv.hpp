// Tables as text, with commas (RFC 4180).
#pragma once

#include <string>
#include <vector>

namespace lockstep::tools {

using Table = std::vector<std::vector<std::string>>;

/// The fields of each line; those in quotes may hold commas, line ends and, doubled, quotes. Without empty lines, and
/// without the mark with which some spreadsheets begin.
Table read_csv(const std::string& text);

/// The same back, with quotes where they are needed.
std::string write_csv(const Table& table);

}  // namespace lockstep::tools
