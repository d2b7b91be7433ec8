// ./lab mutants: do the tests find plausible mistakes, and does what they say point at the mistake?
//
// And do they pass right answers that are built otherwise than the reference?
//
// cmake/LockstepLabs.cmake makes one program a mutant from tools/mutants/WEEK/NAME.json, and one of each file
// tools/alternatives/WEEK/NAME.WHAT_DIFFERS.cpp; here they are run.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>

#include "common/error.hpp"
#include "common/support/json/document.hpp"
#include "common/support/text/files.hpp"
#include "tools/course/commands.hpp"
#include "tools/course/judge.hpp"

namespace lockstep::tools {
namespace {

struct Mutant {
  std::string name;
  std::string id;                     ///< the exercise, or the part that must find it
  std::vector<std::string> verdicts;  ///< any of these will do
  std::string message;                ///< what the report must contain
  std::string seed;                   ///< by which alone it is found: it knows what the usual inputs give; may be empty
};

std::vector<Mutant> read_mutants(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return {};
  std::vector<Mutant> result;
  for (const Json& m : Json::parse(read_file(file.string()))) {
    result.push_back({m.at("name"), m.at("exercise"), m.at("verdicts"), m.at("message"), m.value("seed", "")});
  }
  return result;
}

/// Is this row the one that must find the mutant? Where only the exercise is named, any of its rows.
bool must_find(const Mutant& mutant, const Judgement& row) {
  return testing::exercise_of(mutant.id) == mutant.id || row.id == mutant.id;
}

/// "" if one of the rows is what the mutant should be called and says what it should say; else what came instead.
std::string survived(const Mutant& mutant, const std::vector<Judgement>& rows) {
  std::string seen;
  for (const Judgement& row : rows) {
    if (row.ok()) continue;
    bool verdict = std::find(mutant.verdicts.begin(), mutant.verdicts.end(), row.verdict) != mutant.verdicts.end();
    if (must_find(mutant, row) && verdict && row.message.find(mutant.message) != row.message.npos) return "";
    seen += fmt::format("{} {} in {}:\n{}", row.id, row.verdict, row.test, indented(row.message, "  "));
  }
  if (seen.empty()) return "every test passed";
  return fmt::format("wanted {} of {} and a message with '{}', got\n{}", fmt::join(mutant.verdicts, " or "), mutant.id,
                     mutant.message, seen);
}

/// "" if an answer without its regions passes, or is told which one is missing; else what came instead.
std::string not_said(const std::vector<Judgement>& rows) {
  std::string seen;
  for (const Judgement& row : rows) {
    const bool told = row.verdict == to_string(Verdict::fail) && row.message.find("region \"") != row.message.npos;
    if (!row.ok() && !told)
      seen += fmt::format("{} {} in {}:\n{}", row.id, row.verdict, row.test, indented(row.message, "  "));
  }
  return seen.empty() ? "" : "wanted PASS, or FAIL and which region is missing, got\n" + seen;
}

/// "" if an answer with these verdicts would lose points, as ./lab grade counts them; else which rows cost nothing.
std::string costs_nothing(const Exercise& exercise, const std::vector<Judgement>& rows) {
  int lost = 0;
  std::string failed;
  for (const Judgement& row : rows) {
    if (row.ok()) continue;
    lost += exercise.points_of(row.id);
    failed += fmt::format("{} {} costs {} points\n", row.id, row.verdict, exercise.points_of(row.id));
  }
  return lost > 0 || failed.empty() || !exercise.graded ? "" : "its answer keeps every point:\n" + failed;
}

/// "" if each row of a graded exercise that has tests has points as well; else those that have none.
std::string worth_nothing(const Exercise& exercise, const std::vector<Judgement>& rows) {
  std::string text;
  for (const Judgement& row : rows)
    if (exercise.graded && exercise.points_of(row.id) <= 0)
      text += fmt::format("{} has tests and {} points (labs/course.json)\n", row.id, exercise.points_of(row.id));
  return text;
}

/// Number of programs that were run, and of those that were judged wrongly.
struct Tally {
  int run = 0, wrong = 0;

  /// `name` in a line of its own: `good`, or where `why` is not "" `bad`, and why.
  void tell(const Exercise& exercise, const std::string& name, const std::string& why, std::string_view good,
            std::string_view bad) {
    ++run;
    if (!why.empty()) ++wrong;
    fmt::print("{} {:8}  {}\n", padded(exercise.id, 6), why.empty() ? good : bad, name);
    if (!why.empty()) fmt::print("{}", indented(why, "    "));
    std::fflush(stdout);
  }

  /// "12 mistakes found" or, where some were judged wrongly, "12 mistakes, 2 survived".
  std::string sum(std::string_view noun, std::string_view good, std::string_view bad) const {
    const std::string all = fmt::format("{} {}{}", run, noun, run == 1 ? "" : "s");
    return wrong == 0 ? fmt::format("{} {}", all, good) : fmt::format("{}, {} {}", all, wrong, bad);
  }
};

/// "" if all that was said is in plain words; else what is not.
std::string not_in_words(const std::vector<Judgement>& rows) {
  std::string text;
  for (const Judgement& row : rows)
    if (const std::string_view raw = testing::raw_text_in(row.message); !raw.empty())
      text += fmt::format("{} in {} says \"{}\", which is no plain English:\n{}", row.id, row.test, raw,
                          indented(row.message, "  "));
  return text;
}

/// "" if every row passes; else those that do not.
std::string not_passed(const std::vector<Judgement>& rows) {
  std::string seen;
  for (const Judgement& row : rows)
    if (!row.ok()) seen += fmt::format("{} {} in {}:\n{}", row.id, row.verdict, row.test, indented(row.message, "  "));
  if (rows.empty()) return "no test was run";
  return seen.empty() ? "" : "wanted PASS, because it is a right answer, got\n" + seen;
}

/// Names of an exercise's other right answers: X of tools/alternatives/WEEK/NAME.X.cpp, and "hard".
std::vector<std::string> alternatives_of(const Paths& paths, const Exercise& exercise) {
  std::vector<std::string> result;
  const auto folder = paths.source / "tools" / "alternatives" / exercise.folder;
  if (std::filesystem::exists(folder))
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::filesystem::path name = entry.path().stem();  // NAME.X
      if (name.stem() == exercise.name && entry.path().extension() == ".cpp")
        result.push_back(name.extension().string().substr(1));
    }
  if (std::filesystem::exists(paths.hard_solution(exercise))) result.emplace_back("hard");
  std::sort(result.begin(), result.end());
  return result;
}

struct Tallies {
  Tally mistakes, alternatives;
  bool built = true;
};

/// Their programs are part of this build from now on.
void configure_mutants(const Paths& paths) {
  if (read_text(paths.build / "CMakeCache.txt").find("LOCKSTEP_MUTANTS:BOOL=ON") != std::string::npos) return;
  const FolderLock lock(paths.mine(), "configuring");
  std::string said;
  Command command{.arguments = {"cmake", "-DLOCKSTEP_MUTANTS=ON", paths.build.string()}};
  command.on_line = [&](std::string_view line) { said.append(line).append("\n"); };
  if (!run_command(command).ok()) throw Error(Verdict::usage, "the build of mutants cannot be configured:\n" + said);
}

/// Runs one exercise's mutants and its alternatives.
void kill_mutants(const Paths& paths, const Exercise& exercise, bool points, Tallies& tallies) {
  const auto file = paths.source / "tools" / "mutants" / exercise.folder / (exercise.name + ".json");
  const auto mutants = read_mutants(file);
  if (mutants.empty()) return;
  Built built = build_targets(paths, {"mutants." + exercise.id}, "mutants of " + exercise.id);
  if (!built.ok) {
    fmt::print("{}: its mutants cannot be built:\n{}", exercise.id, built.log);
    tallies.built = false;
    return;
  }
  const auto rows_of = [&](std::string_view kind, const auto& which, const std::string& seed = "") {
    auto program = paths.program(fmt::format("{}.{}.{}_sim", kind, exercise.id, which));
    JudgeOptions options{.timeout_seconds = 30};
    if (!seed.empty()) options.arguments = {"--seed", seed};
    return run_tests(paths, program, exercise.ids(), options);
  };
  const auto tell = [&](const std::string& name, const std::string& why) {
    tallies.mistakes.tell(exercise, name, why, "found", "SURVIVED");
  };
  for (std::size_t i = 0; i < mutants.size(); ++i) {
    const std::vector<Judgement> rows = rows_of("mutant", i, mutants[i].seed);
    std::string why = survived(mutants[i], rows);
    if (!mutants[i].seed.empty() && why.empty() && !not_passed(rows_of("mutant", i)).empty())
      why = "it is found without its seed too, so it does not show that inputs are drawn\n";
    if (points && why.empty()) why = costs_nothing(exercise, rows);
    if (points && i == 0) why += worth_nothing(exercise, rows);
    if (why.empty()) why = not_in_words(rows);
    tell(mutants[i].name, why);
  }
  if (std::filesystem::exists(paths.program(fmt::format("mutant.{}.regions_sim", exercise.id)))) {
    const std::vector<Judgement> rows = rows_of("mutant", "regions");
    tell("without its regions", not_said(rows) + not_in_words(rows));
  }
  for (const std::string& which : alternatives_of(paths, exercise))
    tallies.alternatives.tell(exercise, which, not_passed(rows_of("alternative", which)), "passes", "FAILS");
}

}  // namespace

int mutants(const Paths& paths, const std::string& what, bool points) {
  if (is_handout(paths)) throw Error(Verdict::usage, "planted mistakes are not in a handout.");
  configure_mutants(paths);
  Tallies tallies;
  for (const Exercise& exercise : paths.course.select(what).exercises)
    if (paths.has(exercise)) kill_mutants(paths, exercise, points, tallies);
  const Tally &mistakes = tallies.mistakes, &alternatives = tallies.alternatives;
  fmt::print("{}, {}\n", mistakes.sum("mistake", "found", "survived"),
             alternatives.sum("alternative", alternatives.run == 1 ? "passes" : "pass", "failed"));
  return tallies.built && mistakes.wrong == 0 && alternatives.wrong == 0 ? 0 : 1;
}

}  // namespace lockstep::tools
