// For the tests of ./lab plan.
#pragma once

#include <fmt/format.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>

#include "common/support/tests/refusal_testing.hpp"
#include "tools/plan/options.hpp"

namespace lockstep::plan {

inline Task task_of(const std::string& model, const std::string& cluster, int batch) {
  return preset_task(model, cluster, batch, kMachines);
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

/// The output of ./lab plan with these arguments, and its exit code behind it.
inline std::string said(const std::string& arguments) {
  FILE* pipe = popen((std::string(LOCKSTEP_PROGRAMS) + "/plan_sim " + arguments + " 2>&1").c_str(), "r");
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
  return text + fmt::format("exit {}", WEXITSTATUS(pclose(pipe)));
}

}  // namespace lockstep::plan
