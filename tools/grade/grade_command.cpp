// ./lab grade for one submission, or for all of a course: what goes where.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <random>

#include "common/error.hpp"
#include "common/support/text/files.hpp"
#include "tools/course/commands.hpp"
#include "tools/grade/grade.hpp"
#include "tools/grade/grade_summary.hpp"

namespace lockstep::tools {
namespace {

namespace fs = std::filesystem;

void report(const GradeOptions& options, const Grading& grading, const fs::path& out) {
  write_results(out, grading, options.visibility);
  fmt::print("{}{} of {} points in {:.0f} s: {} (seed {}, not for students)\n", grading.graded ? grading.remarks : "",
             grading.points(), grading.most(), grading.seconds, out.string(), grading.seed);
}

std::uint64_t new_seed() {
  std::random_device random;
  return (std::uint64_t{random()} << 32) | random();
}

/// What a submission had when it was last graded on the same exercises, where that is more than it has now.
std::optional<int> points_lost(const std::vector<SummaryRow>& before, const SummaryRow& now) {
  for (const SummaryRow& row : before)
    if (row.submission == now.submission && row.points > now.points && (!now.graded || row.most == now.most))
      return row.points;
  return {};
}

/// Whatever is wrong with one submission, its results, or their place, is its own row.
SummaryRow grade_into(const Paths& paths, const GradeOptions& options, const std::string& submission,
                      const fs::path& folder, const std::string& name, const std::vector<SummaryRow>& before) {
  const std::string of = fingerprint(paths, options, submission);
  if (options.resume && !of.empty() && fs::exists(folder / (name + ".json")))
    for (const SummaryRow& known : read_summary(folder))
      if (known.submission == name && known.of == of && known.graded) {
        fmt::print("{} of {} points: graded before, and not changed since\n", known.points, known.most);
        return known;
      }
  Grading grading = grade_one(paths, options, submission);
  if (const auto lost = points_lost(before, summary_row(name, grading)))
    grading.remarks += fmt::format("When it was last graded, it had {} points.\n", *lost);
  try {
    report(options, grading, folder / (name + ".json"));
  } catch (const std::exception& error) {
    grading.graded = false;
    grading.remarks += fmt::format("its results were not written: {}\n", error.what());
    fmt::print(stderr, "{}: its results were not written: {}\n", name, error.what());
  }
  SummaryRow row = summary_row(name, grading);
  row.of = of;
  const FolderLock lock(paths.build / "grade" / "summary", "writing a summary");
  join_summary(folder, row);
  return row;
}

int grade_several(const Paths& paths, const GradeOptions& options) {
  if (!options.junit.empty()) throw Error(Verdict::usage, "--junit is for one submission; several have a summary.");
  const fs::path folder = options.out.empty() ? "grades" : options.out;
  if (fs::exists(folder) && !fs::is_directory(folder))
    throw Error(Verdict::usage,
                fmt::format("--out {} is a file; results of several submissions go into a folder.", folder.string()));
  make_folders_of(folder / "summary.csv");
  const std::vector<SummaryRow> before = read_summary(folder);  // what cannot be joined is said before hours of grading
  std::vector<std::string> names;
  std::vector<SummaryRow> rows;
  for (const std::string& submission : options.submissions) {
    names.push_back(name_for(submission, names));
    fmt::print("{}== {} ({} of {})\n", rows.empty() ? "" : "\n", submission, names.size(), options.submissions.size());
    rows.push_back(grade_into(paths, options, submission, folder, names.back(), before));
  }
  fmt::print("\n");
  for (const SummaryRow& row : rows) {
    const auto lost = points_lost(before, row);
    fmt::print("{} {:>4} of {}{}{}\n", padded(row.submission, 40), row.points, row.most,
               row.graded ? "" : "  NOT GRADED", lost ? fmt::format("  was {}", *lost) : "");
  }
  fmt::print("{}\n", (folder / "summary.csv").string());
  return std::all_of(rows.begin(), rows.end(), [](const SummaryRow& row) { return row.graded; }) ? 0 : 2;
}

/// A class of one is a class: of one submission too, --out is a folder unless it is NAME.json or a file that exists. A
/// folder of other things, the submission's perhaps, is not written into.
bool goes_into_a_folder(const GradeOptions& options) {
  if (options.submissions.size() > 1 || options.resume) return true;
  const fs::path out = options.out;
  if (fs::is_directory(out)) return fs::is_empty(out) || fs::exists(out / "summary.json");
  return options.junit.empty() && !out.empty() && out.extension() != ".json" && !fs::exists(out);
}

}  // namespace

int grade(const Paths& paths, const GradeOptions& asked) {
  GradeOptions options = asked;
  if (!options.seed) options.seed = new_seed();
  (void)paths.course.select(options.what);  // what nobody can be graded for is said once, and no results are written
  for (const fs::path submission : options.submissions)
    if (std::error_code none; fs::canonical(submission, none) == "/")
      throw Error(Verdict::usage,
                  fmt::format("{} is the whole computer's files, not a submission: name the folder or archive that was "
                              "handed in.",
                              submission.string()));
  if (options.submissions.size() > 1)  // a mistyped name is seen at once; it has its row, and the others are graded
    for (const std::string& submission : options.submissions)
      if (std::error_code none; !fs::exists(submission, none))
        fmt::print(stderr, "{}: there is no such file; the others are graded.\n", submission);
  prepare_hidden_tests(paths, options);
  if (goes_into_a_folder(options)) return grade_several(paths, options);
  const fs::path out = options.out.empty() ? "results.json" : options.out;
  for (const std::string& file : {out.string(), options.junit})  // before minutes of grading
    if (!file.empty()) make_folders_of(file), check_writable(file);
  const Grading grading = grade_one(paths, options, options.submissions.front());
  report(options, grading, out);
  if (!options.junit.empty()) write_junit(options.junit, grading);
  return grading.graded ? 0 : 2;
}

}  // namespace lockstep::tools
