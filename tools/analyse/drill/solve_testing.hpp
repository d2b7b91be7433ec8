// Solves a drill as a learner does: from the files of the run and of the good one, and what the handouts say of them.
#pragma once

#include <string>

#include "tools/analyse/drill/answer.hpp"

namespace lockstep::drill {

/// `folder` is what write_evidence wrote, with good/ below it.
Answer solve(const std::string& folder);

}  // namespace lockstep::drill
