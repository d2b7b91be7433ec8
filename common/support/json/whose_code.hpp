// Origin of the answers to the exercises in this program. They are chosen when linking, so the linked objects report
// it.
#pragma once

#include <string>

namespace lockstep {

/// Returns "reference", or "yours: 21.2 21.7; borrowed: 22.4 (yours: FAIL)", for the context of results.
const std::string& whose_code();

/// Constructed before main in a program that is linked with a learner's answers.
struct WhoseCode {
  explicit WhoseCode(const char* text);
};

}  // namespace lockstep
