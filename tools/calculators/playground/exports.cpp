// The only function of the page's first core that JavaScript calls.
#include <string>

#include "tools/calculators/playground/answer.hpp"

/// The text is valid until the next call.
extern "C" const char* playground_answer(const char* question) {
  static std::string text;
  text = lockstep::playground::answer(question, lockstep::playground::kViews);
  return text.c_str();
}
