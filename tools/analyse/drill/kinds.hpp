// The kinds of faults: their names in an answer, their descriptions, and their counterparts in the field.
#pragma once

#include <string_view>

#include "tools/analyse/drill/answer.hpp"

namespace lockstep::drill {

struct Kind {
  const char* word;
  const char* meaning;  ///< "a rank that computes slower than the others"
  const char* rank;     ///< what stands in these three fields of an answer
  const char* operation;
  const char* evidence;
  Unit unit;
  double tolerance;
  const char* shows;      ///< after a right answer: how the evidence shows it
  const char* elsewhere;  ///< and what it looks like in PyTorch and NCCL
};

/// Throws Error(usage) for a word that is none.
const Kind& kind_of(std::string_view word);

}  // namespace lockstep::drill
