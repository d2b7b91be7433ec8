#include "tools/grade/class/feedback.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/error.hpp"
#include "common/support/json/escape.hpp"
#include "common/support/text/fnv.hpp"
#include "common/testing/verdict.hpp"
#include "tools/course/paths.hpp"
#include "tools/grade/class/html.hpp"

namespace lockstep::tools {
namespace {

/// Letters of any script, digits and a few signs; else '_', and no dot before it.
std::string harmless(const std::string& name) {
  std::string result;
  for (const char c : utf8(name)) {
    const bool beyond = static_cast<unsigned char>(c) >= 128;
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("-_+,@. ").find(c) != std::string_view::npos;
    result += (plain || beyond) && !(c == '.' && result.empty()) ? c : '_';
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

std::string number_of(const std::string& name) {
  Fnv1a number;
  number.add(name);
  return fmt::format("-{:08x}", static_cast<std::uint32_t>(number.value() ^ (number.value() >> 32)));
}

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

/// Where to go on with a part that has no points.
std::string next_steps(const Course& course, const GradedRow& part) {
  const std::string id = testing::exercise_of(part.id);
  const Selection known = course.select("");
  const auto exercise =
      std::find_if(known.exercises.begin(), known.exercises.end(), [&](const Exercise& each) { return each.id == id; });
  if (exercise == known.exercises.end()) return "";
  std::string text = "<p>Next: ";
  if (const char* hint = first_hint(*exercise, part.id)) text += fmt::format("<i>{}</i> ", for_html(hint));
  text += fmt::format(
      "Read <code>labs/{0}/{1}.hpp</code> and the exercise in <code>labs/{0}/README.md</code>; "
      "<code>./lab check {2}</code> judges it, <code>./lab hint {3}</code> says more; questions of the "
      "week: <code>docs/questions.md#week-{4}-self-check</code>",
      for_html(exercise->folder), for_html(exercise->name), for_html(exercise->id), for_html(part.id), exercise->week);
  if (!exercise->questions.empty())
    text += fmt::format(", and to predict: <code>./lab predict {}</code>", for_html(exercise->id));
  return text + ".</p>\n";
}

std::string verdict_table(const ClassRow& row) {
  std::string rows;
  for (const GradedRow& part : row.parts)
    rows += fmt::format("<tr><td>{}</td><td>{}</td><td class=\"n\">{} of {}</td><td class=\"{}\">{}</td></tr>\n",
                        for_html(part.id), for_html(part.title), part.points, part.most,
                        part.verdict == "PASS" ? "good" : "bad", for_html(part.verdict));
  if (rows.empty()) return "";
  return fmt::format(
      "<div class=\"wide\"><table>\n<tr><th>part</th><th></th><th class=\"n\">points</th>"
      "<th>verdict</th></tr>\n{}</table></div>\n",
      rows);
}

}  // namespace

std::vector<std::string> feedback_files(const ClassData& data) {
  std::vector<std::string> files;
  std::set<std::string> taken;
  for (const ClassRow& row : data.rows) {
    std::string name = harmless(row.name);
    if (name != row.name || taken.contains(lower_case(name))) name += number_of(row.name);
    for (int i = 2; !taken.insert(lower_case(name)).second; ++i) name = fmt::format("{}-{}", harmless(row.name), i);
    files.push_back(name + ".html");
  }
  return files;
}

std::string feedback_page(const ClassRow& row, const Course& course) {
  std::string body = fmt::format("<h1>{}</h1>\n", name_in_html(row.name));
  body += row.graded ? fmt::format("<p>{} of {} points.</p>\n", row.points(), row.most()) : "<p>Not graded.</p>\n";
  if (row.late > 0) body += fmt::format("<p class=\"bad\">Handed in late by {}.</p>\n", describe_delay(row.late));
  if (!row.remarks.empty()) body += fmt::format("<pre>{}</pre>\n", for_html(row.remarks));
  body += verdict_table(row);
  for (const GradedRow& part : row.parts) {
    if (part.verdict == "PASS") continue;
    body += fmt::format("<h2>{} {}: <span class=\"bad\">{}</span></h2>\n", for_html(part.id), for_html(part.title),
                        for_html(part.verdict));
    if (!part.reason.empty()) body += fmt::format("<pre>{}</pre>\n", for_html(part.reason));
    body += next_steps(course, part);
  }
  return without_number(html_page(row.name, body), row.seed);
}

void write_feedback(const ClassData& data, const Course& course, const std::filesystem::path& folder) {
  const std::vector<std::string> files = feedback_files(data);
  for (std::size_t i = 0; i < files.size(); ++i) write_text(folder / files[i], feedback_page(data.rows[i], course));
}

}  // namespace lockstep::tools
