// Whose answers to the exercises run in this program. The switch is the link, so the program is told by what it links.
#pragma once

#include <string>

namespace lockstep {

/// "reference", or "yours: 21.2 21.7; borrowed: 22.4 (yours: FAIL)": for the context of results.
const std::string& whose_code();

/// Constructed before main, in a program that is linked with a learner's answers.
struct WhoseCode {
  explicit WhoseCode(const char* text);
};

}  // namespace lockstep
