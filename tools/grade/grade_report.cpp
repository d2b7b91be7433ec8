// results.json for Gradescope, and JUnit's XML for what else reads verdicts.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <tuple>

#include "common/support/json/document.hpp"
#include "common/support/json/escape.hpp"
#include "common/support/text/files.hpp"
#include "common/testing/verdict.hpp"
#include "tools/course/paths.hpp"
#include "tools/grade/grade.hpp"
#include "tools/grade/html.hpp"

namespace lockstep::tools {
namespace {

constexpr std::size_t kSentence = 300;  // bytes

int sum(const std::vector<GradedRow>& rows, int GradedRow::*of) {
  int total = 0;
  for (const GradedRow& row : rows) total += row.*of;
  return total;
}

bool passed(const GradedRow& row) { return row.verdict == "PASS"; }

/// Data that Gradescope keeps and does not show. ./lab class reads the times, where points depend on them, files that
/// may be missing answers, what was unusual about how it was graded, what a person should look at, and what answers
/// have in common.
Json extra_data(const Grading& grading) {
  std::vector<Json::Member> data{{"max_score", Json::of(grading.most())}}, times, may_be;
  for (const GradedRow& row : grading.rows) {
    if (row.times) times.push_back({row.id, Json::of(*row.times)});
    if (!row.may_be.empty()) may_be.push_back({row.id, Json::of(row.may_be)});
  }
  if (!times.empty()) data.push_back({"times_of_reference", Json::object(std::move(times))});
  if (!grading.setting.empty()) data.push_back({"setting", Json::of(grading.setting)});
  if (!may_be.empty()) data.push_back({"may_be", Json::object(std::move(may_be))});
  std::vector<Json> look_at;
  for (const std::string& found : grading.look_at) look_at.push_back(Json::of(found));
  if (!look_at.empty()) data.push_back({"look_at", Json::list(std::move(look_at))});
  std::vector<Json::Member> prints;
  for (const auto& [id, text] : grading.fingerprints) prints.push_back({id, Json::of(text)});
  if (!prints.empty()) data.push_back({"fingerprints", Json::object(std::move(prints))});
  std::vector<Json::Member> files;
  for (const auto& [id, file] : grading.files) files.push_back({id, Json::of(file)});
  if (!files.empty()) data.push_back({"files", Json::object(std::move(files))});
  return Json::object(std::move(data));
}

/// One of Gradescope's tests, as write_results() wrote it: the verdict is the first line of its output.
GradedRow graded_row_of(const Json& test) {
  GradedRow row{.id = test.at("number"), .title = test.at("name"), .points = test.at("score")};
  row.most = test.at("max_score");
  if (row.title.starts_with(row.id + " ")) row.title.erase(0, row.id.size() + 1);
  const std::string output = test.at("output");
  const std::size_t end = std::min(output.find('\n'), output.size());
  row.verdict = output.substr(0, end);
  if (end < output.size()) row.reason = output.substr(end + 1);
  return row;
}

/// The text without what a terminal takes for more than text.
std::string without_controls(std::string text) {
  const auto at = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0; };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool wide =
        at(i) == 0xc2 && at(i + 1) >= 0x80 && at(i + 1) < 0xa0;  // U+0080 to U+009F, of which terminals know some
    if (at(i) < 32 || at(i) == 127 || wide) text[i] = ' ';
    if (wide) text[i + 1] = ' ';
  }
  return text;
}

}  // namespace

bool is_before(const std::string& id, const std::string& other) {
  const auto place = [](const std::string& of) {
    const std::string exercise = testing::exercise_of(of);
    int week = 0, number = 0;
    std::sscanf(exercise.c_str(), "%d.%d", &week, &number);
    return std::tuple(week, number, exercise, of == exercise, of);
  };
  return place(id) < place(other);
}

std::string first_sentence(const GradedRow& row) {
  if (passed(row) || (row.verdict == "NOT SUBMITTED" && row.may_be.empty())) return "";
  // A report opens with its test and its case, "Lab21_1.SumsAreExact: with 2 ranks and 1 element:"; the next line is
  // it.
  std::string_view rest = row.reason;
  std::string text;
  while (!rest.empty() && (text.empty() || text.ends_with(':'))) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (!line.empty()) text.append(text.empty() ? "" : " ").append(line);
  }
  if (const auto end = text.find(". "); end != text.npos) text.erase(end + 1);
  if (text.size() > kSentence) {
    std::size_t end = kSentence;  // not inside a character
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
    text.erase(end), text += "…";
  }
  return without_controls(utf8(text));
}

std::vector<Said> said_once(const std::vector<GradedRow>& rows) {
  std::vector<Said> all;
  for (const GradedRow& row : rows) {
    if (passed(row)) continue;
    const std::string why = sentence_with_values(row);
    const auto same = std::find_if(all.begin(), all.end(),
                                   [&](const Said& said) { return said.verdict == row.verdict && said.why == why; });
    if (same == all.end())
      all.push_back({row.id, row.verdict, why});
    else
      same->ids += ", " + row.id;
  }
  return all;
}

std::string sentence_with_values(const GradedRow& row) {
  const std::string text = first_sentence(row);
  std::istringstream lines(row.reason);
  std::string told, line;  // as far as the sentence tells it
  while (told.size() < text.size() && std::getline(lines, line))
    if (!line.empty()) told.append(told.empty() ? "" : " ").append(line);
  if (text.empty() || told != text || !std::getline(lines, line)) return text;
  line.erase(0, line.find_first_not_of(' '));
  if (!line.starts_with("found ")) return text;
  return text + ": " + first_sentence({.verdict = row.verdict, .reason = line});
}

int Grading::points() const { return sum(rows, &GradedRow::points); }
int Grading::most() const { return sum(rows, &GradedRow::most); }

void write_results(const std::filesystem::path& file, const Grading& grading, std::string_view visibility) {
  std::vector<Json> tests;
  for (const GradedRow& row : grading.rows)
    tests.push_back(
        Json::object({{"name", Json::of(fmt::format("{} {}", row.id, row.title))},
                      {"number", Json::of(row.id)},
                      {"score", Json::of(row.points)},
                      {"max_score", Json::of(row.most)},
                      {"status", Json::of(passed(row) ? "passed" : "failed")},
                      {"output", Json::of(row.reason.empty() ? row.verdict : row.verdict + "\n" + row.reason)},
                      {"output_format", Json::of("text")},
                      {"visibility", Json::of(visibility)}}));
  const Json results = Json::object({{"score", Json::of(grading.points())},
                                     {"execution_time", Json::of(static_cast<int>(grading.seconds + 0.5))},
                                     {"output", Json::of(grading.remarks)},
                                     {"output_format", Json::of("text")},
                                     {"visibility", Json::of(visibility)},
                                     {"extra_data", extra_data(grading)},
                                     {"tests", Json::list(std::move(tests))}});
  write_text(file, results.dump(2) + "\n");
}

Grading read_results(const std::filesystem::path& file) {
  Grading grading;
  const Json results = Json::parse(read_file(file.string()));
  for (const Json& test : results.at("tests")) grading.rows.push_back(graded_row_of(test));
  const Json* data = results.find("extra_data");
  for (GradedRow& row : grading.rows) {
    const auto of_row = [&](const char* name) {
      return data && data->contains(name) ? data->at(name).find(row.id) : nullptr;
    };
    if (const Json* times = of_row("times_of_reference")) row.times = times->get<double>();
    if (const Json* file = of_row("may_be")) row.may_be = file->get<std::string>();
  }
  if (data) grading.setting = data->value("setting", "");
  if (data && data->contains("fingerprints"))
    for (const auto& [id, prints] : data->at("fingerprints").items())
      grading.fingerprints[id] = prints.get<std::string>();
  if (data && data->contains("files"))
    for (const auto& [id, name] : data->at("files").items()) grading.files[id] = name.get<std::string>();
  if (data && data->contains("look_at"))
    for (const Json& each : data->at("look_at")) grading.look_at.push_back(each.get<std::string>());
  return grading;
}

void write_junit(const std::filesystem::path& file, const Grading& grading) {
  std::string cases;
  int failures = 0;
  for (const GradedRow& row : grading.rows) {
    cases += fmt::format("  <testcase classname=\"lockstep\" name=\"{} {}\" time=\"{:.3f}\"", row.id,
                         for_html(row.title), row.seconds);
    if (passed(row)) {
      cases += "/>\n";
      continue;
    }
    ++failures;
    cases += fmt::format(">\n    <failure message=\"{}\">{}</failure>\n  </testcase>\n", for_html(row.verdict),
                         for_html(row.reason));
  }
  write_text(file,
             fmt::format("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                         "<testsuite name=\"lockstep\" tests=\"{}\" failures=\"{}\" errors=\"0\" time=\"{:.3f}\">\n{}"
                         "</testsuite>\n",
                         grading.rows.size(), failures, grading.seconds, cases));
}

}  // namespace lockstep::tools
