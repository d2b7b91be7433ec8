// 24.8 with another steady turn, which gives the stage before its gradient first: I0 F0 W0 F1 I1 W1. Written as a row
// of phases, each a turn and how often.
#include "labs/week24_pipeline/zb_v.hpp"

#include <algorithm>
#include <map>

#include "common/error.hpp"

namespace lockstep::week24 {

StageSchedule zb_v(const PipelineShape& shape, int stage) {
  if (shape.placement != Placement::vee || shape.chunks != 2) usage_error("no V of two chunks");
  const int p = shape.stages, s = stage, m = std::max(shape.microbatches, p);
  const Step f0{Work::forward, 0, 0}, f1{Work::forward, 0, 1}, i0{Work::input_gradient, 0, 0},
      i1{Work::input_gradient, 0, 1}, w0{Work::weight_gradient, 0, 0}, w1{Work::weight_gradient, 0, 1};
  struct Phase {
    int times;
    StageSchedule turn;
  };
  const std::vector<Phase> phases{{2 * (p - s) - 1, {f0}},
                                  {s, {f1, f0}},
                                  {p - s, {f1, i1, w1}},
                                  {m - p, {i0, f0, w0, f1, i1, w1}},
                                  {s, {i0, i1}},
                                  {p - s, {i0, w0}},
                                  {s, {w1}},
                                  {s, {w0}}};
  std::map<Step, int> next;
  StageSchedule steps;
  for (const Phase& phase : phases)
    for (int i = 0; i < phase.times; ++i)
      for (const Step& kind : phase.turn)
        if (const int microbatch = next[kind]++; microbatch < shape.microbatches)
          steps.push_back({kind.work, microbatch, kind.chunk});
  return steps;
}

}  // namespace lockstep::week24
