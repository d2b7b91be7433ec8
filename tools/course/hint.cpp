// ./lab hint: a little help.
#include <fmt/format.h>

#include <algorithm>

#include "common/error.hpp"
#include "tools/course/commands.hpp"

namespace lockstep::tools {
namespace {

void print_hints(const std::string& id, const std::string& title, const std::vector<std::string>& hints, int level) {
  if (hints.empty()) return;
  fmt::print("{}  {}\n", id, title);
  int last = std::min<int>(level, static_cast<int>(hints.size()));
  for (int i = 0; i < last; ++i) fmt::print("  {}. {}\n", i + 1, hints[i]);
  if (last < static_cast<int>(hints.size())) fmt::print("  (more: ./lab hint {} --level {})\n", id, last + 1);
}

}  // namespace

int hint(const Paths& paths, const std::string& what, int level) {
  if (level < 1 || level > 3) throw Error(Verdict::usage, "hints have levels 1 to 3.");
  if (level == 3 && !is_handout(paths))
    fmt::print("(Level 3 is nearly the answer; you remember better what you find yourself.)\n");
  Selection selection = paths.course.select(what);
  if (selection.exercises.size() != 1) {
    throw Error(Verdict::usage, "which exercise? For example: ./lab hint 21.2, or ./lab hint 21.2a --level 2");
  }
  const Exercise& exercise = selection.exercises[0];
  const bool none = exercise.hints.empty() && std::all_of(exercise.parts.begin(), exercise.parts.end(),
                                                          [](const Part& part) { return part.hints.empty(); });
  if (is_handout(paths) && none) fmt::print("This handout has no hints.\n");
  if (selection.part.empty()) print_hints(exercise.id, exercise.title, exercise.hints, level);
  for (const Part& part : exercise.parts) {
    if (selection.part.empty() || part.id == selection.part) print_hints(part.id, part.title, part.hints, level);
  }
  return 0;
}

}  // namespace lockstep::tools
