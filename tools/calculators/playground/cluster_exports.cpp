// The functions of the page's second core, the virtual cluster. Its ranks are fibers, which leave the first call before
// its end: what it computed is fetched by another.
#include <string>

#include "tools/calculators/playground/answer.hpp"

namespace {
std::string& answered() {
  static std::string text;
  return text;
}
}  // namespace

extern "C" void cluster_run(const char* question) {
  const std::string asked = question;  // the page's copy ends with the call
  answered() = lockstep::playground::answer(asked, lockstep::playground::kClusterViews);
}
extern "C" const char* cluster_answer() { return answered().c_str(); }
