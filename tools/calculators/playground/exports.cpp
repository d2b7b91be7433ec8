// The only function that the page's JavaScript calls.
#include <string>

#include "tools/calculators/playground/answer.hpp"

/// The text is valid until the next call.
extern "C" const char* playground_answer(const char* question) {
  static std::string text;
  text = lockstep::playground::answer(question);
  return text.c_str();
}
