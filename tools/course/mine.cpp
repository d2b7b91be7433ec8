#include "tools/course/mine.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "common/error.hpp"
#include "tools/course/commands.hpp"
#include "tools/course/judge.hpp"

namespace lockstep::tools {
namespace {

namespace fs = std::filesystem;

bool has(const std::vector<Exercise>& exercises, const std::string& id) {
  return std::any_of(exercises.begin(), exercises.end(), [&](const Exercise& e) { return e.id == id; });
}

/// The exercises of all `programs`, each once, in the course's order.
std::vector<Exercise> exercises_of_all(const Paths& paths, const std::vector<std::string>& programs) {
  std::set<std::string> ids;
  for (const std::string& program : programs) ids.merge(linked_by(paths, program));
  std::vector<Exercise> all = paths.course.select("").exercises;
  std::erase_if(all, [&](const Exercise& exercise) { return !ids.count(exercise.id); });
  return all;
}

/// Describes a choice, for `exercises`.
std::string in_words(const Paths& paths, Choice choice, const std::vector<Exercise>& exercises) {
  std::erase_if(choice.mine, [&](const std::string& id) { return !has(exercises, id); });
  std::erase_if(choice.borrowed, [&](const Borrowed& borrowed) { return !has(exercises, borrowed.id); });
  const std::string borrowed = whose_are_the_references(paths, choice.borrowed, exercises);
  if (borrowed.empty()) return "yours: all";
  const std::string mine = choice.mine.empty() ? "none" : fmt::format("{}", fmt::join(choice.mine, " "));
  return fmt::format("yours: {}; borrowed: {}", mine, borrowed);
}

/// Builds everything needed to judge answers that have no current verdict, at once: faster than one by one.
void build_what_judging_needs(const Paths& paths, const std::vector<Exercise>& exercises) {
  std::vector<std::string> targets;
  for (const Exercise& exercise : exercises) {
    const auto record = last_record(paths, exercise);
    if (!is_untouched(paths, exercise) && (!record || record->stale))
      targets.insert(targets.end(), {"tests." + exercise.id, "mine." + exercise.id});
  }
  if (!targets.empty()) (void)build_targets(paths, targets, "the tests of your answers");
}

/// A source that tells a program whose code it runs; written only where it says something else now.
void tell(const Paths& paths, const std::string& program, const std::string& words) {
  write_if_different(paths.mine() / "whose" / (program + ".cpp"),
                     fmt::format("#include \"common/support/json/whose_code.hpp\"\n\n"
                                 "static const lockstep::WhoseCode code(R\"({})\");\n",
                                 words));
}

}  // namespace

std::string whose_are_the_references(const Paths& paths, const std::vector<Borrowed>& borrowed,
                                     const std::vector<Exercise>& exercises) {
  std::vector<std::string> missing;
  for (const Exercise& exercise : exercises)
    if (!paths.has(exercise)) missing.push_back(exercise.id);
  const std::string known = to_string(borrowed);
  if (missing.empty()) return known;
  return fmt::format("{}{}{} ({})", known, known.empty() ? "" : ", ", fmt::join(missing, " "), why_missing(paths));
}

std::set<std::string> linked_by(const Paths& paths, const std::string& program) {
  std::ifstream in(paths.build / "answers" / program);  // CMake wrote it
  return {std::istream_iterator<std::string>(in), {}};
}

std::vector<Exercise> exercises_of(const Paths& paths, const std::string& program) {
  return exercises_of_all(paths, {program});
}

std::string build_mine(const Paths& paths, const std::vector<std::string>& programs, bool borrow) {
  const std::vector<Exercise> exercises = exercises_of_all(paths, programs);
  if (borrow) build_what_judging_needs(paths, exercises);
  JudgeOptions options;
  options.on_judging = [](const Exercise& exercise) {
    fmt::print(stderr, "checking your {} ({}), to see whether it can be used\n", exercise.id, exercise.title);
  };
  Judge judge(paths, options, borrow ? Needs::borrow : Needs::mine_only);
  const std::string what = programs.size() == 1 ? "mine." + programs[0] : "programs with your code";
  FolderLock lock(paths.mine() / "use", "linking " + what);
  const Choice choice = judge.choose(exercises);
  std::vector<std::string> targets;
  for (const std::string& program : programs) {
    tell(paths, program, in_words(paths, choice, exercises_of(paths, program)));
    targets.push_back("mine." + program);
  }
  need_built(paths, targets, what);
  return in_words(paths, choice, exercises);
}

int link_mine(const Paths& paths, const std::vector<std::string>& programs, bool borrow) {
  std::vector<std::string> with_answers;
  for (const std::string& program : programs)
    if (!exercises_of(paths, program).empty()) with_answers.push_back(program);
  fmt::print("code: {}\n", build_mine(paths, with_answers, borrow));
  const fs::path folder = paths.mine() / "programs";
  fs::remove_all(folder);
  fs::create_directories(folder);
  for (const std::string& program : programs) {
    const bool mine = std::find(with_answers.begin(), with_answers.end(), program) != with_answers.end();
    fs::create_symlink(paths.program(mine ? "mine." + program : program), folder / program);
  }
  return 0;
}

}  // namespace lockstep::tools
