// ./lab skeletons: what students start from, generated from solutions/.
#include <fmt/format.h>

#include <cstdio>

#include "common/error.hpp"
#include "common/support/text/counted.hpp"
#include "tools/course/commands.hpp"
#include "tools/course/skeleton.hpp"

namespace lockstep::tools {

int skeletons(const Paths& paths, const std::string& what, bool overwrite, bool compare) {
  bool drifted = false;
  int same = 0;
  for (const Exercise& exercise : paths.course.select(what).exercises) {
    // A handout has solutions of other weeks too, without their answers, and its students none of their skeletons.
    if (!std::filesystem::exists(paths.solution(exercise)) || (is_handout(paths) && !paths.has(exercise))) {
      fmt::print("{} is {}\n", exercise.id, why_missing(paths));
      continue;
    }
    auto file = paths.answer(exercise);
    std::string fresh = skeleton(read_text(paths.solution(exercise)), paths.solution(exercise).string());
    bool there = std::filesystem::exists(file);
    if (there && read_text(file) == fresh) {
      ++same;
      continue;
    }
    if (compare) {
      fmt::print("{} is not the skeleton of {}: ./lab skeletons --overwrite {}\n", file.string(),
                 paths.solution(exercise).string(), exercise.id);
      drifted = true;
    } else if (there && !overwrite) {
      fmt::print("kept {}, which differs from the skeleton (--overwrite replaces it)\n", file.string());
    } else {
      write_text(file, fresh);
      fmt::print("wrote {}\n", file.string());
    }
  }
  if (same > 0)
    fmt::print("{} in {} {} the skeleton already\n", counted(same, "file"), paths.labs.string(),
               same == 1 ? "is" : "are each");
  return drifted ? 1 : 0;
}

}  // namespace lockstep::tools
