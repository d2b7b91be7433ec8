// The schedules of week 24 by the names that programs use.
#pragma once

#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/support/text/nearest.hpp"
#include "labs/week24_pipeline/dual_pipe_v.hpp"
#include "labs/week24_pipeline/gpipe.hpp"
#include "labs/week24_pipeline/interleaved.hpp"
#include "labs/week24_pipeline/one_f_one_b.hpp"
#include "labs/week24_pipeline/zb_v.hpp"
#include "labs/week24_pipeline/zero_bubble.hpp"

namespace lockstep::week24 {

struct NamedSchedule {
  std::string name;
  StageSchedule (*make)(const PipelineShape& shape, int stage);
};
inline std::vector<NamedSchedule> named_schedules() {
  return {{"naive", naive}, {"gpipe", gpipe}, {"1f1b", one_f_one_b}, {"interleaved", interleaved},
          {"zb-h1", zb_h1}, {"zb-h2", zb_h2}, {"zb-v", zb_v},        {"dualpipev", dual_pipe_v}};
}
/// True if its stages have two chunks, placed in a V.
inline bool in_a_vee(const std::string& name) { return name == "zb-v" || name == "dualpipev"; }
/// True if its backwards are in halves, all or some.
inline bool splits_backwards(const std::string& name) { return name.starts_with("zb-") || name == "dualpipev"; }

/// The shape of a schedule with these numbers; `chunks` of 0 is the schedule's default: a V has two.
inline PipelineShape shape_of(const std::string& name, int stages, int microbatches, int chunks = 0) {
  if (in_a_vee(name)) return {stages, microbatches, chunks == 0 ? 2 : chunks, Placement::vee};
  const bool several = name == "interleaved" && stages > 1;
  return {stages, microbatches, chunks == 0 ? (several ? 2 : 1) : chunks};
}

/// Throws Error(usage) for an unknown name.
inline NamedSchedule schedule_named(const std::string& name) {
  std::vector<std::string> known;
  for (const NamedSchedule& schedule : named_schedules()) {
    if (schedule.name == name) return schedule;
    known.push_back(schedule.name);
  }
  throw Error(Verdict::usage, unknown_name("schedule", name, known));
}

/// All stages of a schedule. Throws Error(usage) for an unknown name, a shape that it cannot have, or chunks of a
/// schedule that has none.
inline Schedule make_schedule(const std::string& name, const PipelineShape& shape) {
  const NamedSchedule schedule = schedule_named(name);
  if (in_a_vee(name) != (shape.placement == Placement::vee))
    usage_error("schedules zb-v and dualpipev, and no others, have their chunks in a V");
  if (shape.chunks > 1 && name != "interleaved" && !in_a_vee(name))
    usage_error("schedule " + name + " has one chunk per stage: only interleaved has more");
  Schedule stages;
  for (int s = 0; s < shape.stages; ++s) stages.push_back(schedule.make(shape, s));
  return stages;
}

}  // namespace lockstep::week24
