// Terms of the predictions of published runs. ./lab validate --without leaves one out, to show its effect.
#pragma once

#include <string>
#include <vector>

#include "common/runtime/machine/machine.hpp"
#include "tools/plan/published_runs.hpp"

namespace lockstep::plan {

struct Term {
  const char* name;
  const char* words;                        ///< the prediction made instead
  void (*of_run)(PublishedRun&) = nullptr;  ///< the run without it; nullptr: nothing changes there
  void (*of_machine)(Machine&) = nullptr;   ///< the machine's library without it; nullptr: likewise
};

/// All terms, in the order of docs/use/validation.md. Those without a function are left out by validate() itself.
const std::vector<Term>& terms();
/// The term of that name; unknown: Error(usage).
const Term& find_term(const std::string& name);

/// Some terms, which a prediction lacks.
struct Without {
  std::vector<const Term*> left_out;
  bool has(const std::string& name) const;
  void from(PublishedRun& run) const;
  void from(Machine& machine) const;
};
/// "host,trees"; "": none.
Without without(const std::string& names);

}  // namespace lockstep::plan
