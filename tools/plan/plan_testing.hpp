// For the tests of ./lab plan.
#pragma once

#include <functional>
#include <string>

#include "common/error.hpp"
#include "labs/trainer/plan/search.hpp"
#include "tools/plan/published.hpp"

namespace lockstep::plan {

inline const std::string kMachines = LOCKSTEP_SOURCE_DIR "/bench/machines";

inline Task task_of(const std::string& model, const std::string& cluster, int batch) {
  return preset_task(model, cluster, batch, kMachines);
}

inline std::string error_of(const std::function<void()>& f) {
  try {
    f();
    return "nothing was refused";
  } catch (const Error& error) {
    return error.what();
  }
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

}  // namespace lockstep::plan
