// ./lab mutants: do the tests find plausible mistakes, and does what they say point at the mistake?
//
// cmake/LockstepLabs.cmake makes one program a mutant from common/tests/mutants/WEEK/NAME.json; here they are run.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "common/error.hpp"
#include "common/json/document.hpp"
#include "tools/commands.hpp"
#include "tools/judge.hpp"

namespace lockstep::tools {
namespace {

struct Mutant {
  std::string name;
  std::vector<std::string> verdicts;  ///< any of these will do
  std::string message;                ///< what the report must contain
};

std::vector<Mutant> read_mutants(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) return {};
  std::vector<Mutant> result;
  for (const Json& m : Json::parse(in)) {
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

/// One exercise's mutants; true if all were found.
bool kill_mutants(const Workshop& shop, const Exercise& exercise) {
  auto file = shop.source / "common" / "tests" / "mutants" / exercise.folder / (exercise.name + ".json");
  auto mutants = read_mutants(file);
  if (mutants.empty()) return true;
  Built built = build_targets(shop, {"mutants." + exercise.id}, "mutants of " + exercise.id);
  if (!built.ok) {
    fmt::print("{}: its mutants cannot be built:\n{}", exercise.id, built.log);
    return false;
  }
  bool all = true;
  for (std::size_t i = 0; i < mutants.size(); ++i) {
    auto program = shop.program(fmt::format("mutant.{}.{}_sim", exercise.id, i));
    std::string why = survived(mutants[i], run_tests(shop, program, exercise.ids(), {.timeout_seconds = 30}));
    fmt::print("{} {}  {}\n", padded(exercise.id, 6), why.empty() ? "found   " : "SURVIVED", mutants[i].name);
    if (!why.empty()) fmt::print("{}", indented(why, "    "));
    all = all && why.empty();
    std::fflush(stdout);
  }
  return all;
}

}  // namespace

int mutants(const Workshop& shop, const std::string& what) {
  bool all = true;
  for (const Exercise& exercise : shop.course.select(what).exercises) {
    if (shop.has(exercise)) all = kill_mutants(shop, exercise) && all;
  }
  return all ? 0 : 1;
}

}  // namespace lockstep::tools
