// ./lab mutants: do the tests find plausible mistakes, and does what they say point at the mistake?
//
// cmake/LockstepLabs.cmake makes one program a mutant from tools/mutants/WEEK/NAME.json; here they are run.
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
  std::vector<std::string> verdicts;  ///< any of these will do
  std::string message;                ///< what the report must contain
};

std::vector<Mutant> read_mutants(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return {};
  std::vector<Mutant> result;
  for (const Json& m : Json::parse(read_file(file.string()))) {
    result.push_back({m.at("name"), m.at("verdicts"), m.at("message")});
  }
  return result;
}

/// "" if one of the rows is what the mutant should be called and says what it should say; else what came instead.
std::string survived(const Mutant& mutant, const std::vector<Judgement>& rows) {
  std::string seen;
  for (const Judgement& row : rows) {
    if (row.ok()) continue;
    bool verdict = std::find(mutant.verdicts.begin(), mutant.verdicts.end(), row.verdict) != mutant.verdicts.end();
    if (verdict && row.message.find(mutant.message) != row.message.npos) return "";
    seen += fmt::format("{} {} in {}:\n{}", row.id, row.verdict, row.test, indented(row.message, "  "));
  }
  if (seen.empty()) return "every test passed";
  return fmt::format("wanted {} and a message with '{}', got\n{}", fmt::join(mutant.verdicts, " or "), mutant.message,
                     seen);
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

/// Says whether a mutant was found; `why` not, or "".
bool tell(const Exercise& exercise, const std::string& name, const std::string& why) {
  fmt::print("{} {}  {}\n", padded(exercise.id, 6), why.empty() ? "found   " : "SURVIVED", name);
  if (!why.empty()) fmt::print("{}", indented(why, "    "));
  std::fflush(stdout);
  return why.empty();
}

/// One exercise's mutants; true if all were found.
bool kill_mutants(const Paths& paths, const Exercise& exercise, bool points) {
  auto file = paths.source / "tools" / "mutants" / exercise.folder / (exercise.name + ".json");
  auto mutants = read_mutants(file);
  if (mutants.empty()) return true;
  Built built = build_targets(paths, {"mutants." + exercise.id}, "mutants of " + exercise.id);
  if (!built.ok) {
    fmt::print("{}: its mutants cannot be built:\n{}", exercise.id, built.log);
    return false;
  }
  bool all = true;
  const auto rows_of = [&](const auto& which) {
    auto program = paths.program(fmt::format("mutant.{}.{}_sim", exercise.id, which));
    return run_tests(paths, program, exercise.ids(), {.timeout_seconds = 30});
  };
  for (std::size_t i = 0; i < mutants.size(); ++i) {
    const std::vector<Judgement> rows = rows_of(i);
    std::string why = survived(mutants[i], rows);
    if (points && why.empty()) why = costs_nothing(exercise, rows);
    if (points && i == 0) why += worth_nothing(exercise, rows);
    all = tell(exercise, mutants[i].name, why) && all;
  }
  if (std::filesystem::exists(paths.program(fmt::format("mutant.{}.regions_sim", exercise.id))))
    all = tell(exercise, "without its regions", not_said(rows_of("regions"))) && all;
  return all;
}

}  // namespace

int mutants(const Paths& paths, const std::string& what, bool points) {
  bool all = true;
  for (const Exercise& exercise : paths.course.select(what).exercises) {
    if (paths.has(exercise)) all = kill_mutants(paths, exercise, points) && all;
  }
  return all ? 0 : 1;
}

}  // namespace lockstep::tools
