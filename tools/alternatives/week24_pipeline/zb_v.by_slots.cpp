// 24.8 by slots: each step has a number of its own, in the warm-up, in a turn of six or in the end, and they are
// sorted.
#include "labs/week24_pipeline/zb_v.hpp"

#include <algorithm>
#include <map>

#include "common/error.hpp"

namespace lockstep::week24 {
namespace {

struct Slots {
  int p, s, m;
  int first() const { return 2 * (p - s) - 1; }
  int steady() const { return first() + 2 * s + 3 * (p - s); }
  int last() const { return steady() + 6 * (m - p); }

  int down(int i) const {
    if (i < first()) return i;
    if (i < first() + s) return first() + 2 * (i - first()) + 1;
    return steady() + 6 * (i - first() - s);
  }
  int up(int i) const {
    if (i < s) return first() + 2 * i;
    if (i < p) return first() + 2 * s + 3 * (i - s);
    return steady() + 6 * (i - p) + 3;
  }
  int back(Work work, int i) const {  // of chunk 1
    const int half = work == Work::input_gradient ? 1 : 2, early = p - s, rest = i - (m - s);
    if (i < early) return first() + 2 * s + 3 * i + half;
    if (rest < 0) return steady() + 6 * (i - early) + 3 + half;
    return half == 1 ? last() + 2 * rest + 1 : last() + 2 * p + rest;
  }
  int out(Work work, int i) const {  // of chunk 0
    const int half = work == Work::input_gradient ? 1 : 2, rest = i - (m - p);
    if (rest < 0) return steady() + 6 * i + half;
    if (half == 1) return last() + 2 * rest;
    return rest < p - s ? last() + 2 * s + 2 * rest + 1 : last() + 2 * p + s + rest - (p - s);
  }
};

}  // namespace

StageSchedule zb_v(const PipelineShape& shape, int stage) {
  if (shape.placement != Placement::vee || shape.chunks != 2) usage_error("no V of two chunks");
  const Slots slots{shape.stages, stage, std::max(shape.microbatches, shape.stages)};
  std::map<int, Step> steps;
  for (int i = 0; i < shape.microbatches; ++i) {
    steps[slots.down(i)] = {Work::forward, i, 0};
    steps[slots.up(i)] = {Work::forward, i, 1};
    for (const Work work : {Work::input_gradient, Work::weight_gradient}) {
      steps[slots.back(work, i)] = {work, i, 1};
      steps[slots.out(work, i)] = {work, i, 0};
    }
  }
  StageSchedule sorted;
  for (const auto& [slot, step] : steps) sorted.push_back(step);
  return sorted;
}

}  // namespace lockstep::week24
