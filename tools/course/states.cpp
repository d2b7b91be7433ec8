#include "tools/course/states.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "tools/course/deeds.hpp"

namespace lockstep::tools {

State state_of(const Paths& paths, const Exercise& exercise) {
  if (is_borrowed(paths, exercise.id)) return {false, is_untouched(paths, exercise), true, "borrowed"};
  const auto record = last_record(paths, exercise);
  const bool untouched = is_untouched(paths, exercise);
  if (!record || (untouched && record->stale)) return {false, untouched, false, untouched ? "-" : "begun, not checked"};
  if (record->stale) return {false, untouched, false, record->judgement.verdict + " (edited since)"};
  return {record->judgement.ok(), untouched, false, record->judgement.verdict};
}

std::optional<Exercise> next_exercise(const Paths& paths, const std::string& after) {
  std::vector<Exercise> all;
  for (const Exercise& exercise : paths.course.select("").exercises)
    if (paths.has(exercise)) all.push_back(exercise);
  const auto here = std::find_if(all.begin(), all.end(), [&](const Exercise& e) { return e.id == after; });
  if (here != all.end()) std::rotate(all.begin(), here + 1, all.end());
  for (const bool core : {true, false})
    for (const Exercise& exercise : all)
      if (const State state = state_of(paths, exercise); exercise.core == core && exercise.id != after)
        if (!state.passes && !state.borrowed) return exercise;
  return std::nullopt;
}

std::string in_one_line(const Exercise& exercise) {
  return fmt::format("{} {}, {} minute{}{}", exercise.id, exercise.title, exercise.minutes,
                     exercise.minutes == 1 ? "" : "s", exercise.core ? "" : " (extra)");
}

std::string describe_next(const Exercise& exercise) {
  return fmt::format("{}: ./lab check {}", in_one_line(exercise), exercise.id);
}

}  // namespace lockstep::tools
