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

/// Says whether a mutant was found; `why` not, or "".
bool tell(const Exercise& exercise, const std::string& name, const std::string& why) {
  fmt::print("{} {}  {}\n", padded(exercise.id, 6), why.empty() ? "found   " : "SURVIVED", name);
  if (!why.empty()) fmt::print("{}", indented(why, "    "));
  std::fflush(stdout);
  return why.empty();
}

/// One exercise's mutants; true if all were found.
bool kill_mutants(const Paths& paths, const Exercise& exercise) {
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
  for (std::size_t i = 0; i < mutants.size(); ++i)
    all = tell(exercise, mutants[i].name, survived(mutants[i], rows_of(i))) && all;
  if (std::filesystem::exists(paths.program(fmt::format("mutant.{}.regions_sim", exercise.id))))
    all = tell(exercise, "without its regions", not_said(rows_of("regions"))) && all;
  return all;
}

}  // namespace

int mutants(const Paths& paths, const std::string& what) {
  bool all = true;
  for (const Exercise& exercise : paths.course.select(what).exercises) {
    if (paths.has(exercise)) all = kill_mutants(paths, exercise) && all;
  }
  return all ? 0 : 1;
}

}  // namespace lockstep::tools
