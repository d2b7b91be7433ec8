// ./lab validate: every published point with its predictions, and the errors of each source.
#pragma once

#include <string>

namespace lockstep::plan {

/// Prints, and writes rows where a file is named. `root`, `table`: as validate(). `left_out`: names of terms, with
/// commas; "list": only lists them.
void validate_all(const std::string& root, const std::string& table, const std::string& left_out,
                  const std::string& json, const std::string& csv);

}  // namespace lockstep::plan
