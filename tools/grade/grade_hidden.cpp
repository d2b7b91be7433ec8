// Hidden tests: of a folder that students do not have, compiled as the suite's own are. The build is configured with
// the folder, and without one again; the reference must pass what is in it, and every part of it must be in the course.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "common/error.hpp"
#include "common/testing/verdict.hpp"
#include "tools/course/commands.hpp"
#include "tools/course/process.hpp"
#include "tools/grade/grade.hpp"
#include "tools/grade/grade_judge.hpp"

namespace lockstep::tools {
namespace {

namespace fs = std::filesystem;

std::string configured_tests(const Paths& paths) {
  const std::string cache = read_text(paths.build / "CMakeCache.txt"), name = "\nLOCKSTEP_HIDDEN_TESTS:PATH=";
  const auto at = cache.find(name);
  if (at == cache.npos) return "";
  const auto begin = at + name.size();
  return cache.substr(begin, cache.find('\n', begin) - begin);
}

void configure_tests(const Paths& paths, const std::string& folder) {
  if (configured_tests(paths) == folder) return;
  {
    const FolderLock lock(paths.mine(), "configuring for hidden tests");
    printed_by({.arguments = {"cmake", "-DLOCKSTEP_HIDDEN_TESTS:PATH=" + folder, paths.build.string()}},
               "configuring for hidden tests", "the build cannot be configured");
  }
  need_built(paths, {"lab_tool", "grader"}, "./lab itself");  // which are still current, and nobody would know
}

/// Each hidden part has tests, and the reference passes them; and there are tests of no other part.
void check_week(const Paths& paths, int week, const std::vector<Part>& hidden, std::uint64_t seed) {
  const fs::path program = paths.program(fmt::format("reference.week{}_sim", week));
  const std::map<std::string, int> suites = count_tests(paths, week);
  std::vector<std::string> known;
  for (const Exercise& e : paths.course.select(std::to_string(week)).exercises)
    for (const std::string& id : e.ids()) known.push_back(id);
  for (const auto& [suite, tests] : suites)
    if (const std::string id = testing::id_of_suite(suite);
        !id.empty() && std::find(known.begin(), known.end(), id) == known.end())
      throw Error(Verdict::usage, fmt::format("there are tests {}, and the course file (--course) has no {}: wanted "
                                              "{{\"{}\": {{\"hidden\": true, \"title\": \"…\", \"points\": 5}}}}",
                                              suite, id, id));
  for (const Part& part : hidden) {
    const std::string suite = testing::suite_of_id(part.id);
    if (!suites.contains(suite))
      throw Error(Verdict::usage, fmt::format("{} is hidden, and no test of {} is in --tests.", part.id, suite));
    printed_by(
        {.arguments = {program.string(), fmt::format("--gtest_filter={}.*", suite), "--seed", std::to_string(seed)},
         .timeout_seconds = 300},
        "checking the hidden tests", "the reference does not pass " + suite);
  }
}

}  // namespace

void prepare_hidden_tests(const Paths& paths, const GradeOptions& options) {
  if (!options.tests.empty() && !fs::is_directory(options.tests))
    throw Error(Verdict::usage, fmt::format("--tests {}: there is no such folder.", options.tests));
  std::map<int, std::vector<Part>> hidden;
  for (const Exercise& e : paths.course.select(options.what).exercises) {
    if (!options.tests.empty() && e.graded && paths.has(e)) hidden[e.week];
    for (const Part& part : e.parts)
      if (part.hidden) hidden[e.week].push_back(part);
  }
  if (options.tests.empty() && !hidden.empty())
    throw Error(Verdict::usage, fmt::format("{} is checked by hidden tests: --tests DIR says where they are.",
                                            hidden.begin()->second.front().id));
  configure_tests(paths, options.tests.empty() ? "" : fs::canonical(options.tests).string());
  for (const auto& [week, parts] : hidden) {
    need_built(paths, {fmt::format("reference.week{}_sim", week)}, "the hidden tests");
    check_week(paths, week, parts, *options.seed);
  }
}

}  // namespace lockstep::tools
