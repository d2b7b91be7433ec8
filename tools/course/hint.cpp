// ./lab hint: a little help.
#include <fmt/format.h>

#include <algorithm>

#include "common/error.hpp"
#include "tools/course/commands.hpp"

namespace lockstep::tools {
namespace {

/// `where`: "in this handout".
void print_hints(const std::string& id, const std::string& title, const std::vector<std::string>& hints, int level,
                 const std::string& where) {
  if (hints.empty()) return;
  fmt::print("{}  {}\n", id, title);
  const int all = static_cast<int>(hints.size()), last = std::min(level, all);
  for (int i = 0; i < last; ++i) fmt::print("  {}. {}\n", i + 1, hints[i]);
  if (last < all) fmt::print("  (more: ./lab hint {} --level {})\n", id, last + 1);
  if (level > all) fmt::print("  (no hint of level {} {}: the highest is {})\n", level, where, all);
}

}  // namespace

int hint(const Paths& paths, const std::string& what, int level) {
  if (level < 1 || level > 3) throw Error(Verdict::usage, "hints have levels 1 to 3.");
  if (level == 3 && !is_handout(paths))
    fmt::print("(Level 3 is nearly the answer; you remember better what you find yourself.)\n");
  Selection selection = paths.course.select(what);
  if (selection.exercises.size() != 1)
    throw Error(Verdict::usage, fmt::format("which exercise? For example: ./lab hint {0}, or ./lab hint {0} --level 2",
                                            paths.example()));
  const Exercise& exercise = selection.exercises[0];
  need_handed_out(paths, exercise);
  const bool none = exercise.hints.empty() && std::all_of(exercise.parts.begin(), exercise.parts.end(),
                                                          [](const Part& part) { return part.hints.empty(); });
  if (is_handout(paths) && none) fmt::print("This handout has no hints.\n");
  const std::string where = is_handout(paths) ? "in this handout" : "for it";
  if (selection.part.empty()) print_hints(exercise.id, exercise.title, exercise.hints, level, where);
  for (const Part& part : exercise.parts) {
    if (selection.part.empty() || part.id == selection.part) print_hints(part.id, part.title, part.hints, level, where);
  }
  return 0;
}

}  // namespace lockstep::tools
