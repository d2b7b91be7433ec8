// Finds the cost that keeps a program from scaling: not the largest part of a step, but the part that exceeds its share
// of the serial step the most. Exercise 25.4 names that cost; here are its ledgers, and its answer in words.
#pragma once

#include <string>
#include <vector>

#include "tools/scale/study.hpp"

namespace lockstep::scaling {

/// Seconds of a step that were lost to one cost: what the parallel step has more of than its share of the serial one.
struct Loss {
  analysis::Cost cost = analysis::Cost::arithmetic;
  double seconds = 0;
};

struct Diagnosis {
  std::string limit = "none";  // "communication not overlapped", "pipeline bubble", "model too small", …
  double ideal_seconds = 0;    // T(1)/p, or for weak scaling T(1)
  double lost_seconds = 0;     // T(p) − ideal
  std::vector<Loss> losses;    // they add up to it
  std::string sentence;        // with the evidence
};

/// By exercise 25.4, from the ledgers of the last round. What 25.4 is not asked: ranks without a core each, and loading
/// data, which is taken out of the step before.
Diagnosis diagnose(const Study& study, const Point& point);

}  // namespace lockstep::scaling
