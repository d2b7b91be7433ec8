// ./lab class: what a class did, for the instructor on one page, and for each student on one.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "common/error.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/files.hpp"
#include "tools/course/commands.hpp"
#include "tools/grade/class/class_page.hpp"
#include "tools/grade/class/csv.hpp"
#include "tools/grade/class/feedback.hpp"
#include "tools/grade/class/lms.hpp"
#include "tools/grade/html.hpp"

namespace lockstep::tools {
namespace {

namespace fs = std::filesystem;

/// The students' pages as the class's page links them; only where they lie below it.
std::string seen_from(const fs::path& page, const std::string& feedback) {
  if (feedback.empty()) return "";
  const fs::path way =
      fs::absolute(feedback).lexically_normal().lexically_relative(fs::absolute(page).lexically_normal().parent_path());
  std::string address;
  for (const fs::path& step : way) {
    if (step == "..") return "";
    if (!step.empty()) address += (address.empty() ? "" : "/") + for_url(step.string());
  }
  return address;
}

/// True if this page, written before, counted points by when they were handed in.
bool has_lateness(const std::string& csv) {
  const Table table = read_csv(csv);
  if (table.empty()) return false;
  const auto late =
      static_cast<std::size_t>(std::find(table.front().begin(), table.front().end(), "late") - table.front().begin());
  return std::any_of(table.begin() + 1, table.end(),
                     [&](const auto& row) { return late < row.size() && !row[late].empty(); });
}

}  // namespace

int class_results(const Paths& paths, const ClassOptions& options) {
  if (options.deadline.empty() != options.times.empty())
    throw Error(Verdict::usage, "--deadline and --times go together: when it was due, and when each was handed in.");
  const fs::path folder = options.folder;
  if (options.lms.empty() && !options.column.empty())
    throw Error(Verdict::usage, "--column needs --lms: it names a column of that file.");
  ClassData data = read_class(folder);
  if (!paths.course.changes().empty()) count_anew(data, paths.course);
  if (options.times.empty() && (!options.extensions.empty() || options.penalty > 0 || options.grace_days > 0))
    throw Error(Verdict::usage, "--extensions, --penalty and --grace-days need --deadline and --times.");
  if (!options.extensions.empty()) add_extensions(data, read_file(options.extensions), options.extensions);
  if (!options.times.empty()) add_times(data, read_file(options.times), options.times, parse_time(options.deadline));
  std::vector<std::pair<std::string, std::string>> spent;
  for (const std::string& file : options.spent) spent.emplace_back(read_file(file), file);
  add_policy(data, {.percent_per_day = options.penalty, .grace_days = options.grace_days}, spent);
  const fs::path page = options.out.empty() ? folder / "class.html" : fs::path(options.out);
  fs::path csv = page;
  csv.replace_extension(".csv");
  if (options.times.empty() && fs::exists(csv) && has_lateness(read_text(csv)))
    throw Error(Verdict::usage,
                fmt::format("{} counts days late, which this page would not: give --deadline and --times (and "
                            "--extensions, --penalty, --grace-days, --spent) again, or --out for another page.",
                            csv.string()));
  EarlierPages earlier;
  if (!options.feedback.empty()) earlier = write_feedback(data, paths.course, options.feedback);
  write_text(page, class_page(data, seen_from(page, options.feedback)));
  write_text(csv, class_csv(data));
  if (!options.lms.empty()) {
    const LmsFile file = fill_lms(data, read_file(options.lms), options.lms, options.column);
    const fs::path out = page.parent_path() / fmt::format("{}_{}.csv", page.stem().string(), file.system);
    write_text(out, file.text);
    fmt::print("points of {}, to import: {}\n", counted(file.filled, "student"), out.string());
    for (const std::string& note : file.notes) fmt::print(stderr, "{}\n", note);
    for (const std::string& name : file.unplaced)
      fmt::print(stderr, "{} has no student who could be {}: enter these points by hand.\n", options.lms, name);
  }
  const std::vector<std::string> strangers = without_results(data), timeless = without_time(data);
  if (!strangers.empty())
    fmt::print(stderr, "no results, but a time or an extension: {}\n", fmt::join(strangers, ", "));
  if (!timeless.empty())
    fmt::print(stderr, "not in {}, which counts as in time: {}\n", options.times, fmt::join(timeless, ", "));
  std::size_t doubtful = strangers.size();
  for (const ClassRow& row : data.rows) doubtful += !doubts_of(row).empty();
  fmt::print("{}, {} to check: {}, {}\n", counted(data.rows.size(), "submission"), doubtful, page.string(),
             csv.string());
  if (!data.not_graded_yet.empty())
    fmt::print("{}: ./lab grade is still running, or was interrupted (--resume continues)\n", so_far(data));
  if (!options.feedback.empty()) fmt::print("a page for each student: {}\n", options.feedback);
  if (!earlier.removed.empty())
    fmt::print("removed, since a newer submission has a page: {}\n", fmt::join(earlier.removed, ", "));
  if (!earlier.left.empty())
    fmt::print(stderr, "{} also has pages of submissions that are not in {}: {}\n", options.feedback, folder.string(),
               fmt::join(earlier.left, ", "));
  return 0;
}

}  // namespace lockstep::tools
