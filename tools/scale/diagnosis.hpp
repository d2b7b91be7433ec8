// What keeps a program from scaling: not what a step is made of, but what it has more of than its share of the serial
// step.
#pragma once

#include <string>
#include <vector>

#include "tools/scale/study.hpp"

namespace lockstep::scaling {

/// Seconds of a step that were lost to one cost: T(p) − T(p) without it, minus the same of the serial program, which
/// for strong scaling p ranks share. Each found by a replay (common/analysis).
struct Loss {
  analysis::Cost cost = analysis::Cost::arithmetic;
  double seconds = 0;
};

enum class Limit {
  none,
  oversubscribed,
  communication_exposed,  // though there is arithmetic enough beside it
  communication,          // more than arithmetic could hide
  bubble,
  imbalance,
  too_small,    // as many launches, with less to do in each
  not_divided,  // arithmetic that every rank repeats, or that takes longer in small pieces
  data
};
/// "communication not overlapped", "pipeline bubble", "model too small", …
std::string_view to_string(Limit limit);

struct Diagnosis {
  Limit limit = Limit::none;
  double ideal_seconds = 0;  // T(1)/p, or for weak scaling T(1)
  double lost_seconds = 0;   // T(p) − ideal
  std::vector<Loss> losses;  // the largest first; of arithmetic: what its operations take longer in smaller pieces
  std::string sentence;      // with the evidence
};

/// Less than 5 % of a step lost is no limit.
Diagnosis diagnose(const Study& study, const Point& point);

}  // namespace lockstep::scaling
