// ./lab class: what a class did, for the instructor on one page, and for each student on one.
#include <fmt/format.h>

#include "common/error.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/files.hpp"
#include "tools/course/commands.hpp"
#include "tools/grade/class/class_page.hpp"
#include "tools/grade/class/feedback.hpp"
#include "tools/grade/class/html.hpp"

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

}  // namespace

int class_results(const Paths& paths, const ClassOptions& options) {
  if (options.deadline.empty() != options.times.empty())
    throw Error(Verdict::usage, "--deadline and --times go together: when it was due, and when each was handed in.");
  const fs::path folder = options.folder;
  ClassData data = read_class(folder);
  if (!paths.course.changes().empty()) count_anew(data, paths.course);
  if (!options.times.empty()) add_times(data, read_file(options.times), options.times, parse_time(options.deadline));
  if (!options.feedback.empty()) write_feedback(data, paths.course, options.feedback);
  const fs::path page = options.out.empty() ? folder / "class.html" : fs::path(options.out);
  fs::path csv = page;
  csv.replace_extension(".csv");
  write_text(page, class_page(data, seen_from(page, options.feedback)));
  write_text(csv, class_csv(data));
  std::size_t doubtful = 0;
  for (const ClassRow& row : data.rows) doubtful += !doubts_of(row).empty();
  fmt::print("{}, {} to check: {}, {}\n", counted(data.rows.size(), "submission"), doubtful, page.string(),
             csv.string());
  if (!options.feedback.empty()) fmt::print("a page for each student: {}\n", options.feedback);
  return 0;
}

}  // namespace lockstep::tools
