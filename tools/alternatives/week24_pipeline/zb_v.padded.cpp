// 24.8 for 2p − 1 microbatches at least, of which those that there are not are taken out at the end; and with whole
// backwards where nobody waits for the first half: of the first stage's first leg.
#include "labs/week24_pipeline/zb_v.hpp"

#include <algorithm>

#include "common/error.hpp"

namespace lockstep::week24 {

StageSchedule zb_v(const PipelineShape& shape, int stage) {
  if (shape.placement != Placement::vee || shape.chunks != 2) usage_error("no V of two chunks");
  const int p = shape.stages, up = p - stage, m = std::max(shape.microbatches, 2 * p - 1);
  StageSchedule steps;
  int down = 0, rising = 0, back = 0, out = 0;
  const auto first_leg = [&] { steps.push_back({Work::forward, down++, 0}); };
  const auto second_leg = [&] { steps.push_back({Work::forward, rising++, 1}); };
  const auto whole = [&](int microbatch, int chunk) {
    if (stage == 0 && chunk == 0) return steps.push_back({Work::backward, microbatch, chunk});
    for (const Work work : {Work::input_gradient, Work::weight_gradient}) steps.push_back({work, microbatch, chunk});
  };
  const auto turn = [&] { second_leg(), whole(back++, 1); };
  while (down < 2 * up - 1) first_leg();
  while (rising < stage) second_leg(), first_leg();
  while (back < up) turn();
  while (rising < m) {
    if (down < m) first_leg();
    whole(out++, 0);
    turn();
  }
  for (int i = 0; i < stage; ++i) {
    steps.push_back({Work::input_gradient, out + i, 0});
    steps.push_back({Work::input_gradient, back + i, 1});
  }
  for (int i = 0; i < up; ++i) {
    steps.push_back({Work::input_gradient, out + stage + i, 0});
    steps.push_back({Work::weight_gradient, out + i, 0});
  }
  for (; back < m; ++back) steps.push_back({Work::weight_gradient, back, 1});
  for (out += up; out < m; ++out) steps.push_back({Work::weight_gradient, out, 0});
  std::erase_if(steps, [&](const Step& step) { return step.microbatch >= shape.microbatches; });
  return steps;
}

}  // namespace lockstep::week24
