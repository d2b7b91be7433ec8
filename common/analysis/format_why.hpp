// What `why` found, in words.
#pragma once

#include "common/analysis/why.hpp"

namespace lockstep::analysis {

/// Names the limit, with the evidence, in one sentence.
std::string sentence_of(const Why& why);

}  // namespace lockstep::analysis
