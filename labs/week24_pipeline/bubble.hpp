// Exercise 24.6: the bubble, measured: from what the stages of a run have recorded, in both conventions of 24.2, and of
// the longest span.
//
// Narayanan et al. (arXiv 2104.04473), section 2.2; Huang et al. (arXiv 1811.06965), section 2.3; Qi et al. (arXiv
// 2401.10241), section 4.
#pragma once

#include <vector>

namespace lockstep::week24 {

/// One stage's use, in seconds of its clock.
struct StageUse {
  double begin = 0;         ///< of its first step's work
  double end = 0;           ///< of its last
  double busy = 0;          ///< computing
  double waiting = 0;       ///< main had nothing to do
  double transferring = 0;  ///< messages were in transit, overlapped or not
};

struct Bubble {
  double makespan = 0;      ///< from 0 to the end of the last stage
  double longest_span = 0;  ///< the most that one stage took from its own begin to its own end
  double of_ideal = 0;      ///< (makespan − ideal) / ideal, ideal being the work of the busiest stage
  double of_total = 0;      ///< (makespan − ideal) / makespan
  double of_span = 0;       ///< (longest span − ideal) / longest span: arXiv 2401.10241's bubble rate
};
Bubble measured_bubble(const std::vector<StageUse>& stages);

}  // namespace lockstep::week24
