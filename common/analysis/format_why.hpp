// Formats the result of `why` as text.
#pragma once

#include "common/analysis/why.hpp"

namespace lockstep::analysis {

/// Names the limit and the evidence for it, in one sentence.
std::string sentence_of(const Why& why);

}  // namespace lockstep::analysis
