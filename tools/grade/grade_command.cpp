// ./lab grade for one submission, or for all of a course: what goes where.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <random>

#include "common/error.hpp"
#include "common/support/text/files.hpp"
#include "common/support/text/parse_number.hpp"
#include "common/testing/verdict.hpp"
#include "tools/course/commands.hpp"
#include "tools/course/process.hpp"
#include "tools/grade/grade.hpp"
#include "tools/grade/grade_names.hpp"
#include "tools/grade/grade_run.hpp"
#include "tools/grade/grade_summary.hpp"
#include "tools/grade/heartbeat.hpp"

namespace lockstep::tools {
namespace {

namespace fs = std::filesystem;

void report(const GradeOptions& options, const Grading& grading, const fs::path& out) {
  write_results(out, grading, options.visibility);
  fmt::print("{}{} of {} points in {:.0f} s: {}{}\n", grading.graded ? grading.remarks : "", grading.points(),
             grading.most(), grading.seconds, out.string(),
             options.hide_seed ? "" : fmt::format(" (seed {}, not for students)", grading.seed));
}

std::uint64_t new_seed() {
  std::random_device random;
  return (std::uint64_t{random()} << 32) | random();
}

/// A folder has one seed, so that rows that were graded at different times are for the same inputs.
std::optional<std::uint64_t> seed_of(const std::vector<SummaryRow>& rows) {
  std::optional<std::uint64_t> seed;
  for (const SummaryRow& row : rows)
    if (const auto number = parse_number<std::uint64_t>(row.seed); number && *number != 0) seed = *number;
  return seed;
}

/// "it had 5 points; 21.2a FAIL → PASS": what became of a submission that was graded before; "" where nothing did.
std::string changes(const SummaryRow& before, const std::vector<GradedRow>& rows_before, const SummaryRow& now,
                    const std::vector<GradedRow>& rows) {
  std::string text;
  for (const GradedRow& row : rows) {
    const auto was = std::find_if(rows_before.begin(), rows_before.end(),
                                  [&](const GradedRow& other) { return other.id == row.id; });
    if (was == rows_before.end() || (was->verdict == row.verdict && was->points == row.points)) continue;
    text += fmt::format("{}{} ", text.empty() ? "" : ", ", row.id);
    text += was->verdict == row.verdict ? fmt::format("{} → {} points", was->points, row.points)
                                        : fmt::format("{} → {}", was->verdict, row.verdict);
  }
  const bool same_exercises = !now.graded || before.most == now.most;
  if (before.points != now.points && same_exercises)
    text = fmt::format("it had {} points{}{}", before.points, text.empty() ? "" : ": ", text);
  return text;
}

/// Puts what was not asked for now, but was graded before, back into `now`; returns whether there was any.
bool keep_others(const Selection& asked, const Grading& before, Grading& now) {
  const auto is_asked_for = [&](const std::string& id) {
    if (!asked.part.empty()) return id == asked.part;
    return std::any_of(asked.exercises.begin(), asked.exercises.end(),
                       [&](const Exercise& e) { return e.id == testing::exercise_of(id); });
  };
  const std::size_t count = now.rows.size();
  for (const GradedRow& row : before.rows)
    if (!is_asked_for(row.id)) now.rows.push_back(row);
  for (const auto& [id, prints] : before.fingerprints)
    if (!is_asked_for(id)) now.fingerprints.try_emplace(id, prints);
  for (const auto& [id, file] : before.files)
    if (!is_asked_for(id)) now.files.try_emplace(id, file);
  for (const std::string& found : before.look_at)
    if (!is_asked_for(found.substr(0, found.find(':')))) now.look_at.push_back(found);
  std::stable_sort(now.rows.begin(), now.rows.end(),
                   [](const GradedRow& a, const GradedRow& b) { return is_before(a.id, b.id); });
  if (now.rows.size() > count && now.setting.empty()) now.setting = before.setting;
  return now.rows.size() > count;
}

/// A submission's entry in a folder of earlier results.
struct Before {
  SummaryRow row;
  Grading grading;  ///< without rows where its file cannot be read
};
std::optional<Before> graded_before(const std::vector<SummaryRow>& rows, const fs::path& folder,
                                    const std::string& name) {
  for (const SummaryRow& row : rows) {
    if (row.submission != name) continue;
    Before before{.row = row, .grading = {}};
    try {
      before.grading = read_results(folder / (name + ".json"));
    } catch (const std::exception&) {  // a folder that somebody cleaned up
    }
    return before;
  }
  return {};
}

/// The folder for the results of several.
fs::path folder_of(const GradeOptions& options) { return options.out.empty() ? "grades" : options.out; }

/// Two that grade into one folder write its summary in turns.
FolderLock lock_of_summaries(const Paths& paths) {
  return FolderLock(paths.build / "grade" / "summary", "writing a summary");
}

/// A submission's place in the summary, and what became of it.
struct Regraded {
  SummaryRow row;
  std::string changes;
};

/// A fault of one submission, of its results, or of their place becomes its own row.
Regraded grade_into(const Paths& paths, const GradeOptions& options, const HandedIn& submission, const fs::path& folder,
                    const std::string& name, const std::vector<SummaryRow>& rows_before, Heartbeat& heartbeat) {
  const std::string of = fingerprint(paths, options, submission.newest);
  const std::optional<Before> before = graded_before(rows_before, folder, name);
  if (options.resume && before && !before->grading.rows.empty() && !of.empty() && before->row.of == of &&
      before->row.graded) {
    const auto quiet = heartbeat.quiet();
    fmt::print("{} of {} points: graded before, and not changed since\n", before->row.points, before->row.most);
    return {before->row, ""};
  }
  Grading grading = grade_one(paths, options, submission.newest, heartbeat);
  const auto quiet = heartbeat.quiet();
  for (const fs::path older : submission.older)
    grading.remarks += fmt::format("{} was handed in later than {} and counts.\n",
                                   fs::path(submission.newest).filename().string(), older.filename().string());
  Regraded regraded;
  if (before) {
    const bool kept = grading.graded && keep_others(paths.course.select(options.what), before->grading, grading);
    if (kept) fmt::print("exercises that were graded before and are not in {} keep their points\n", options.what);
    regraded.changes = changes(before->row, before->grading.rows, summary_row(name, grading), grading.rows);
    if (!regraded.changes.empty()) grading.remarks += fmt::format("Since it was last graded: {}.\n", regraded.changes);
  }
  try {
    report(options, grading, folder / (name + ".json"));
  } catch (const std::exception& error) {
    grading.graded = false;
    grading.remarks += fmt::format("its results were not written: {}\n", error.what());
    fmt::print(stderr, "{}: its results were not written: {}\n", name, error.what());
  }
  regraded.row = summary_row(name, grading);
  regraded.row.of = of, regraded.row.file = stem_of(submission.newest);
  const FolderLock lock = lock_of_summaries(paths);
  join_summary(folder, regraded.row);
  return regraded;
}

/// `before`: the rows that the folder has already.
int grade_several(const Paths& paths, const GradeOptions& options, const std::vector<SummaryRow>& before) {
  if (!options.junit.empty())
    throw Error(Verdict::usage, "--junit is for one submission with --out NAME.json; a folder has a summary.");
  const fs::path folder = folder_of(options);
  if (fs::exists(folder) && !fs::is_directory(folder))
    throw Error(Verdict::usage,
                fmt::format("--out {} is a file; results go into a folder, or of one submission into NAME.json.",
                            folder.string()));
  make_folders_of(folder / "summary.csv");
  const std::vector<HandedIn> students = newest_of_each(options.submissions);
  std::vector<std::string> names;
  for (const HandedIn& student : students) names.push_back(name_for(student.newest, names));
  {
    const FolderLock lock = lock_of_summaries(paths);
    announce(folder, names);
  }
  std::vector<Regraded> all;
  Heartbeat heartbeat(students.size());
  for (const HandedIn& student : students) {
    const std::string& name = names[all.size()];
    heartbeat.begin(name);
    {
      const auto quiet = heartbeat.quiet();
      fmt::print("{}== {} ({} of {})\n", all.empty() ? "" : "\n", student.newest, all.size() + 1, students.size());
      for (const std::string& older : student.older) fmt::print("   older, and not graded: {}\n", older);
      if (!student.typed.empty()) fmt::print("   typed into Moodle, and not graded: {}\n", student.typed);
      std::fflush(stdout);
    }
    try {
      all.push_back(grade_into(paths, options, student, folder, name, before, heartbeat));
    } catch (const Interrupted& why) {
      throw Interrupted(
          fmt::format("{}\n{} of {} graded; --resume continues", why.what(), all.size(), students.size()));
    }
  }
  const auto quiet = heartbeat.quiet();
  fmt::print("\n");
  for (const auto& [row, changes] : all)
    fmt::print("{} {:>4} of {}{}{}\n", padded(row.submission, 40), row.points, row.most,
               row.graded ? "" : "  NOT GRADED", changes.empty() ? "" : "  " + changes);
  fmt::print("{}\n", (folder / "summary.csv").string());
  return std::all_of(all.begin(), all.end(), [](const Regraded& each) { return each.row.graded; }) ? 0 : 2;
}

/// True if --out is a folder. It is one for a single submission too, unless it is NAME.json: a class of one is a class.
/// Throws Error(usage) if the results of several would be one file, or lie in what was handed in.
bool goes_into_a_folder(const GradeOptions& options) {
  const fs::path out = options.out;
  const bool several = options.submissions.size() > 1, file = out.extension() == ".json";
  if (file && (several || options.resume))
    throw Error(Verdict::usage, fmt::format("--out {} is a file, for one submission; {} a folder, such as grades.",
                                            out.string(), several ? "several go into" : "--resume continues in"));
  for (const std::string& submission : options.submissions)
    if (std::error_code none; !file && fs::equivalent(out, submission, none))
      throw Error(Verdict::usage, fmt::format("--out {} was handed in: choose another folder.", out.string()));
  return several || options.resume || (!out.empty() && !file);
}

/// A mistyped name is said before minutes of building and grading. Throws Error(usage), which names all of them.
void need_submissions(const std::vector<std::string>& submissions) {
  std::vector<std::string> missing;
  for (const std::string& submission : submissions)
    if (std::error_code none; !fs::exists(submission, none)) missing.push_back(submission);
  if (!missing.empty())
    throw Error(Verdict::usage, fmt::format("There is no {}: nothing was graded.", fmt::join(missing, ", no ")));
}

}  // namespace

int grade(const Paths& paths, const GradeOptions& asked) {
  GradeOptions options = asked;
  (void)paths.course.select(options.what);  // what nobody can be graded for is said once, and no results are written
  for (const fs::path submission : options.submissions)
    if (std::error_code none; fs::canonical(submission, none) == "/")
      throw Error(Verdict::usage,
                  fmt::format("{} is the whole computer's files, not a submission: name the folder or archive that was "
                              "handed in.",
                              submission.string()));
  need_submissions(options.submissions);
  need_writable(paths.build, "answers are compiled in the build tree, and ");
  const Interruptible interruptible;
  const bool into_a_folder = goes_into_a_folder(options);
  std::vector<SummaryRow> before;
  if (into_a_folder) before = read_summary(folder_of(options));  // a file that is no summary is said before hours
  if (!options.seed) options.seed = seed_of(before);
  if (!options.seed) options.seed = new_seed();
  prepare_hidden_tests(paths, options);
  const std::string changed = uncommitted(paths);
  options.setting = setting_of(changed, options);
  if (!options.setting.empty()) fmt::print(stderr, "{}\n", options.setting);
  if (options.resume && !changed.empty()) fmt::print(stderr, "So --resume skips nothing.\n");
  if (into_a_folder) return grade_several(paths, options, before);
  const fs::path out = options.out.empty() ? "results.json" : options.out;
  for (const std::string& file : {out.string(), options.junit})  // before minutes of grading
    if (!file.empty()) make_folders_of(file), check_writable(file);
  Heartbeat heartbeat(1);
  heartbeat.begin(name_for(options.submissions.front(), {}));
  const Grading grading = grade_one(paths, options, options.submissions.front(), heartbeat);
  const auto quiet = heartbeat.quiet();
  report(options, grading, out);
  if (!options.junit.empty()) write_junit(options.junit, grading);
  return grading.graded ? 0 : 2;
}

}  // namespace lockstep::tools
