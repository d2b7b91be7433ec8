// ./lab validate: every published point with its predictions, and the errors of each source.
#pragma once

#include <string>

#include "tools/plan/options.hpp"

namespace lockstep::plan {

/// Prints, and writes rows where a file is named. `root`, options.table: as validate(). options.without: names of
/// terms, with commas; "list": only lists them.
void validate_all(const std::string& root, const PlanOptions& options);

}  // namespace lockstep::plan
