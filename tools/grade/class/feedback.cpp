#include "tools/grade/class/feedback.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "common/error.hpp"
#include "common/support/json/escape.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/fnv.hpp"
#include "common/testing/verdict.hpp"
#include "tools/course/paths.hpp"
#include "tools/grade/grade_judge.hpp"
#include "tools/grade/html.hpp"

namespace lockstep::tools {
namespace {

namespace fs = std::filesystem;

/// The name in characters that every file system takes; else '_', and no dot before it.
std::string harmless(const std::string& name) {
  std::string result;
  for (const char c : utf8(name)) {
    const bool plain = static_cast<unsigned char>(c) >= 32 && c != 127 &&
                       std::string_view("/\\:*?\"<>|").find(c) == std::string_view::npos;
    result += plain && !(c == '.' && result.empty()) ? c : '_';
  }
  std::size_t end = std::min<std::size_t>(result.size(), 120);
  while (end < result.size() && end > 0 && (static_cast<unsigned char>(result[end]) & 0xc0) == 0x80) --end;
  return end == 0 ? "_" : result.substr(0, end);
}

std::string lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

std::string number_of(const std::string& name) { return fmt::format("-{:08x}", Fnv1a(name).folded()); }

/// An answer may print the arguments it was started with.
std::string without_number(std::string text, const std::string& seed) {
  if (seed.size() < 4) return text;  // nobody drew it
  for (std::size_t at = 0; (at = text.find(seed, at)) != text.npos; at += 4) text.replace(at, seed.size(), "SEED");
  return text;
}

const char* first_hint(const Exercise& exercise, const std::string& id) {
  for (const Part& part : exercise.parts)
    if (part.id == id && !part.hints.empty()) return part.hints.front().c_str();
  return exercise.hints.empty() ? nullptr : exercise.hints.front().c_str();
}

/// Verdicts on the file: no test has run, and all parts of the exercise have the same one.
bool is_about_the_file(const std::string& verdict) {
  return verdict == "REFUSED" || verdict == to_string(Verdict::does_not_compile) || verdict == "NOT SUBMITTED";
}

/// Verdicts about which a hint says something: the answer is not written, or computes something else.
bool has_hints(const GradedRow& part) {
  if (testing::out_of_memory(part.verdict, part.reason)) return false;
  return part.verdict == to_string(Verdict::fail) || part.verdict == to_string(Verdict::not_implemented);
}

/// Advice about a verdict that does not concern the algorithm.
struct Step {
  std::string_view verdict;
  const char* what;
  std::string_view reason = "";  // which words are in the verdict's reason
};
constexpr Step kSteps[] = {
    // the first that fits
    {"REFUSED",
     "change what the reason names, and hand the file in again: an answer needs no more than its skeleton includes and "
     "the contract offers."},
    {"DOES NOT COMPILE", "correct the compiler's first error, shown above."},
    {"NOT SUBMITTED", "hand the file in, with this name in this folder, however much of it works."},
    {kNoVerdict,
     "its results do not pass where they are judged without it: does it write beyond the end of an array, or through "
     "an iterator? If not, ask for another grade.",
     "not when judged"},
    {kNoVerdict, "the tests did not reach their end: an answer must return to them, and not print without end."},
    {"DEADLOCK",
     "the message names a send and a receive that are started on two queues: start both on one, the main queue or the "
     "same other.",
     "only halves on one queue match"},
    {"DEADLOCK",
     "the message says which ranks wait at which lines: look for the partner of each send and receive there, and start "
     "both in one batch where two ranks send to each other."},
    {"RACE", "the message names two uses of the same memory: one must wait for the other, or they need two slices."},
    {"MISMATCH", "the message names both sides: they must agree on the size, the dtype and the order of their calls."},
    {"UNREAD", "the message names a send that no rank receives: add its receive, or remove it."},
    {"USAGE", "the message names the call and the rule that it breaks."},
    {"TIMEOUT", "look for a loop that never ends."},
    {"CRASH", "look for an index beyond the end of a slice or a vector, and for a reference to what no longer exists."},
};

/// Advice about a verdict, in HTML; `hint` is the first of the part's, which is about the algorithm.
std::string step_for(const GradedRow& part, const char* hint) {
  const std::string& verdict = part.verdict;
  for (const Step& step : kSteps)
    if (step.verdict == verdict && part.reason.find(step.reason) != part.reason.npos) return for_html(step.what);
  if (const std::string blocked = "BLOCKED BY "; verdict.starts_with(blocked))
    return fmt::format("write {} first, which this part calls.", for_html(verdict.substr(blocked.size())));
  if (testing::out_of_memory(verdict, part.reason))
    return "look for a list that grows without end, or for memory whose size is not what the contract says.";
  return hint && has_hints(part) ? fmt::format("<i>{}</i>", for_html(hint)) : "";
}

/// Places to continue with a part that has no points.
std::string next_steps(const Course& course, const GradedRow& part) {
  const std::string id = testing::exercise_of(part.id);
  const Selection known = course.select("");
  const auto exercise =
      std::find_if(known.exercises.begin(), known.exercises.end(), [&](const Exercise& each) { return each.id == id; });
  if (exercise == known.exercises.end()) return "";
  std::string text = fmt::format("<p>Next: {} <code>./lab check {}</code> tests it",
                                 step_for(part, first_hint(*exercise, part.id)), for_html(exercise->id));
  if (is_about_the_file(part.verdict)) return text + ".</p>\n";
  if (has_hints(part)) text += fmt::format(", <code>./lab hint {}</code> says more", for_html(part.id));
  text += fmt::format(
      ". The contract is <code>labs/{0}/{1}.hpp</code>, the exercise is in <code>labs/{0}/{3}</code>, and "
      "questions of the week are in <code>docs/learn/questions.md#week-{2}-self-check</code>",
      for_html(exercise->folder), for_html(exercise->name), exercise->week, exercise->page());
  if (!exercise->questions.empty())
    text += fmt::format("; to predict: <code>./lab predict {}</code>", for_html(exercise->id));
  return text + ".</p>\n";
}

/// A verdict, why, and what to do about it; `ids` are of one exercise, and have all of it in common.
std::string section(const std::string& ids, const GradedRow& part, const Course& course) {
  std::string text = fmt::format("<h2>{}: <span class=\"bad\">{}</span></h2>\n", for_html(ids), for_html(part.verdict));
  if (!part.reason.empty()) text += fmt::format("<pre>{}</pre>\n", for_html(part.reason));
  return text + next_steps(course, part);
}

/// Sections for each part without points, or for a file's parts together.
std::string sections(const ClassRow& row, const Course& course) {
  std::string text;
  bool told_found = false;  // what the submission has instead of a missing file
  for (auto part = row.parts.begin(); part != row.parts.end(); ++part) {
    if (part->verdict == "PASS") continue;
    std::string ids = part->id;
    const GradedRow& first = *part;
    const auto joins = [&](const GradedRow& other) {
      return testing::exercise_of(other.id) == testing::exercise_of(first.id) && other.verdict == first.verdict &&
             other.reason == first.reason;
    };
    while (is_about_the_file(first.verdict) && part + 1 != row.parts.end() && joins(*(part + 1)))
      ids += ", " + (++part)->id;
    GradedRow shown = first;
    if (first.verdict == "NOT SUBMITTED" && std::exchange(told_found, true))
      shown.reason.erase(std::min(shown.reason.find("\nFound: "), shown.reason.size()));
    text += section(ids == first.id ? first.id + " " + first.title : ids, shown, course);
  }
  return text;
}

std::string verdict_table(const ClassRow& row) {
  std::string rows;
  for (const GradedRow& part : row.parts)
    rows += fmt::format(
        "<tr><td class=\"id\">{}</td><td class=\"title\">{}</td><td class=\"n\">{} of {}</td><td class=\"whole "
        "{}\">{}</td></tr>\n",
        for_html(part.id), for_html(part.title), part.points, part.most, part.verdict == "PASS" ? "good" : "bad",
        for_html(part.verdict));
  if (rows.empty()) return "";
  return fmt::format(
      "<div class=\"wide\"><table>\n<tr><th>part</th><th></th><th class=\"n\">points</th>"
      "<th>verdict</th></tr>\n{}</table></div>\n",
      rows);
}

/// The cost of a late submission.
std::string lateness(const ClassRow& row) {
  if (row.late == 0) return "";
  std::string text = fmt::format("Handed in late by {}", describe_delay(row.late));
  if (row.extension_days > 0)
    text +=
        fmt::format(", after an extension of {:g} {}", row.extension_days, row.extension_days == 1 ? "day" : "days");
  text += ".";
  if (row.grace_used > 0)
    text += fmt::format(" {} of your {} used.", row.grace_used, counted(row.grace_left, "grace day"));
  if (row.lost_share > 0)
    text += fmt::format(" That costs {:g}% of the points, and {:g} count.", 100 * row.lost_share, row.counted());
  return fmt::format("<p class=\"bad\">{}</p>\n", text);
}

/// The student whose page of this command it is, in HTML; "" if it is another page.
std::string owner_of(const std::string& page) {
  const std::string_view begin = "<body>\n<h1><bdi>", end = "</bdi></h1>\n";
  const std::size_t at = page.find(begin), to = page.find(end, at);
  if (at == page.npos || to == page.npos) return "";
  const std::string name = page.substr(at + begin.size(), to - at - begin.size());
  return page.find("<title>" + name + "</title>") < at ? name : "";
}

std::vector<fs::path> pages_in(const fs::path& folder) {
  std::vector<fs::path> pages;
  if (!fs::is_directory(folder)) return pages;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".html" && entry.is_regular_file() && !entry.is_symlink())
      pages.push_back(entry.path());
  std::sort(pages.begin(), pages.end());
  return pages;
}

constexpr const char* kAboutTheSeed =
    "<p>SEED in a <code>replay</code> line is the number from which grading drew its inputs, and your instructor has "
    "it. Without <code>--seed SEED</code>, the same command replays the case with the usual inputs.</p>\n";

}  // namespace

std::vector<std::string> feedback_files(const ClassData& data) {
  std::vector<std::string> files;
  std::set<std::string> taken;
  for (const ClassRow& row : data.rows) {
    const std::string own = row.file.empty() ? row.name : row.file;
    std::string name = harmless(own);
    if (name != own || taken.contains(lower_case(name))) name += number_of(row.name);
    for (int i = 2; !taken.insert(lower_case(name)).second; ++i) name = fmt::format("{}-{}", harmless(own), i);
    if (name.ends_with("_file_")) name += "feedback";  // as Moodle wants it
    files.push_back(name + ".html");
  }
  return files;
}

std::string feedback_page(const ClassRow& row, const Course& course) {
  std::string body = fmt::format("<h1>{}</h1>\n", name_in_html(row.name));
  body += row.graded ? fmt::format("<p>{} of {} points.</p>\n", row.points(), row.most()) : "<p>Not graded.</p>\n";
  body += lateness(row);
  if (!row.remarks.empty()) body += fmt::format("<pre>{}</pre>\n", for_html(row.remarks));
  body += verdict_table(row);
  const std::string parts = sections(row, course);
  if (parts.find("--seed SEED") != parts.npos) body += kAboutTheSeed;
  body += parts;
  return without_number(html_page(row.name, body), row.seed);
}

EarlierPages write_feedback(const ClassData& data, const Course& course, const fs::path& folder) {
  const std::vector<std::string> files = feedback_files(data);
  for (std::size_t i = 0; i < files.size(); ++i) write_text(folder / files[i], feedback_page(data.rows[i], course));
  const std::set<std::string> written(files.begin(), files.end());
  std::set<std::string> known;
  for (const ClassRow& row : data.rows) known.insert(for_html(row.name));
  EarlierPages earlier;
  for (const fs::path& page : pages_in(folder)) {
    const std::string name = page.filename().string(), owner = owner_of(read_text(page));
    if (written.contains(name) || owner.empty()) continue;
    if (known.contains(owner)) fs::remove(page);
    (known.contains(owner) ? earlier.removed : earlier.left).push_back(name);
  }
  return earlier;
}

}  // namespace lockstep::tools
