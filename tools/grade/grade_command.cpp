// ./lab grade for one submission, or for all of a course: what goes where.
#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "common/error.hpp"
#include "common/support/text/files.hpp"
#include "tools/course/commands.hpp"
#include "tools/grade/grade.hpp"

namespace lockstep::tools {
namespace {

namespace fs = std::filesystem;

void report(const GradeOptions& options, const Grading& grading, const fs::path& out) {
  write_results(out, grading, options.visibility);
  fmt::print("{}{} of {} points in {:.0f} s: {} (seed {}, not for students)\n", grading.graded ? grading.remarks : "",
             grading.points(), grading.most(), grading.seconds, out.string(), grading.seed);
}

/// handed-in/anna.zip → anna; a name that is there already gets a number.
std::string name_for(const fs::path& submission, const std::vector<std::string>& taken) {
  const fs::path file = submission.filename().empty() ? submission.parent_path().filename() : submission.filename();
  std::string stem = fs::is_directory(submission) ? file.string() : file.stem().string();
  if (stem.ends_with(".tar")) stem.erase(stem.size() - 4);
  std::string name = stem;
  for (int i = 2; name == "summary" || std::find(taken.begin(), taken.end(), name) != taken.end(); ++i)
    name = fmt::format("{}-{}", stem, i);
  return name;
}

std::uint64_t new_seed() {
  std::random_device random;
  return (std::uint64_t{random()} << 32) | random();
}

int grade_several(const Paths& paths, const GradeOptions& options) {
  if (!options.junit.empty()) throw Error(Verdict::usage, "--junit is for one submission; several have a summary.");
  const fs::path folder = options.out.empty() ? "grades" : options.out;
  if (fs::exists(folder) && !fs::is_directory(folder))
    throw Error(Verdict::usage,
                fmt::format("--out {} is a file; results of several submissions go into a folder.", folder.string()));
  make_folders_of(folder / "summary.csv");
  std::vector<std::string> names;
  std::vector<Grading> gradings;
  bool all = true;
  for (const std::string& submission : options.submissions) {
    names.push_back(name_for(submission, names));
    fmt::print("{}== {} ({} of {})\n", gradings.empty() ? "" : "\n", submission, names.size(),
               options.submissions.size());
    gradings.push_back(grade_one(paths, options, submission));
    all = all && gradings.back().graded;
    report(options, gradings.back(), folder / (names.back() + ".json"));
    write_summary(folder, names, gradings);  // also of those before one that is interrupted
  }
  fmt::print("\n");
  for (std::size_t i = 0; i < names.size(); ++i)
    fmt::print("{} {:>4} of {}{}\n", padded(names[i], 40), gradings[i].points(), gradings[i].most(),
               gradings[i].graded ? "" : "  NOT GRADED");
  fmt::print("{}\n", (folder / "summary.csv").string());
  return all ? 0 : 2;
}

}  // namespace

int grade(const Paths& paths, const GradeOptions& asked) {
  GradeOptions options = asked;
  if (!options.seed) options.seed = new_seed();
  (void)paths.course.select(options.what);  // what nobody can be graded for is said once, and no results are written
  if (options.submissions.size() > 1) return grade_several(paths, options);
  const fs::path out = options.out.empty() ? "results.json" : options.out;
  for (const std::string& file : {out.string(), options.junit})  // before minutes of grading
    if (!file.empty()) make_folders_of(file), check_writable(file);
  const Grading grading = grade_one(paths, options, options.submissions.front());
  report(options, grading, out);
  if (!options.junit.empty()) write_junit(options.junit, grading);
  return grading.graded ? 0 : 2;
}

}  // namespace lockstep::tools
