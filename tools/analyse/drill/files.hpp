// Files that a run leaves behind, as an engineer would find them: its output, tables, a trace; and the answer to fill
// in.
#pragma once

#include <string>

#include "tools/analyse/drill/drills.hpp"

namespace lockstep::drill {

/// output.txt, steps.csv, ranks.csv, collectives.csv (where there are buckets) and trace.json, into `folder`.
void write_evidence(const std::string& folder, const Drill& drill, const Played& played);

/// The run's output.
std::string format_output(const Drill& drill, const Played& played);

/// The file to fill in, with the words it may have.
std::string answer_form(const Drill& drill);

}  // namespace lockstep::drill
