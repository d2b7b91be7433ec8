// results.json for Gradescope, and JUnit's XML for what else reads verdicts.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "common/json/escape.hpp"
#include "tools/grade.hpp"
#include "tools/workshop.hpp"

namespace lockstep::tools {
namespace {

int sum(const std::vector<GradedRow>& rows, int GradedRow::*of) {
  int total = 0;
  for (const GradedRow& row : rows) total += row.*of;
  return total;
}

bool passed(const GradedRow& row) { return row.verdict == "PASS"; }

/// As a whole or not at all, so that nobody reads half of it.
void write_whole(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::path half = file;
  half += ".part";
  write_text(half, text);
  std::filesystem::rename(half, file);
}

/// Bytes that are not UTF-8 are replaced: a message may quote a student's.
std::string json_text(std::string_view text) { return lockstep::quoted(utf8(text)); }

/// In quotes, on one line; what a spreadsheet would take for a formula is text.
std::string for_csv(const std::string& text) {
  std::string result = "\"";
  if (!text.empty() && std::string_view("=+-@").find(text[0]) != std::string_view::npos) result += "'";
  for (char c : text.substr(0, text.find_last_not_of(" \n") + 1)) {
    if (c == '"') result += '"';
    result += c == '\n' || c == '\r' ? ' ' : c;
  }
  return result + "\"";
}

/// For text and attributes of XML 1.0, which has no control characters but tab and line ends.
std::string for_xml(const std::string& text) {
  std::string result;
  for (char c : utf8(text)) {
    bool control = static_cast<unsigned char>(c) < 32 && c != '\n' && c != '\t';
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      default: result += control ? '?' : c;
    }
  }
  return result;
}

}  // namespace

int Grading::points() const { return sum(rows, &GradedRow::points); }
int Grading::most() const { return sum(rows, &GradedRow::most); }

void write_results(const std::filesystem::path& file, const Grading& grading, std::string_view visibility) {
  std::string tests;
  for (const GradedRow& row : grading.rows)
    tests += fmt::format(
        "{}\n    {{\n      \"name\": {},\n      \"number\": {},\n      \"score\": {},\n      \"max_score\": {},\n"
        "      \"status\": \"{}\",\n      \"output\": {},\n      \"output_format\": \"text\",\n      \"visibility\": "
        "{}\n    }}",
        tests.empty() ? "" : ",", json_text(fmt::format("{} {}", row.id, row.title)), json_text(row.id), row.points,
        row.most, passed(row) ? "passed" : "failed",
        json_text(row.reason.empty() ? row.verdict : row.verdict + "\n" + row.reason), json_text(visibility));
  write_whole(file, fmt::format("{{\n  \"score\": {},\n  \"execution_time\": {},\n  \"output\": {},\n"
                                "  \"output_format\": \"text\",\n  \"visibility\": {},\n"
                                "  \"extra_data\": {{\"max_score\": {}}},\n  \"tests\": [{}\n  ]\n}}\n",
                                grading.points(), static_cast<int>(grading.seconds + 0.5), json_text(grading.remarks),
                                json_text(visibility), grading.most(), tests));
}

void write_summary(const std::filesystem::path& folder, const std::vector<std::string>& names,
                   const std::vector<Grading>& gradings) {
  std::vector<std::string> ids;  // of those that were graded, which are all alike
  for (const Grading& grading : gradings)
    for (const GradedRow& row : grading.rows)
      if (std::find(ids.begin(), ids.end(), row.id) == ids.end()) ids.push_back(row.id);
  std::string csv =
      fmt::format("submission,points,most,seconds{}{},remarks\n", ids.empty() ? "" : ",", fmt::join(ids, ","));
  std::string all;
  for (std::size_t i = 0; i < gradings.size(); ++i) {
    const Grading& grading = gradings[i];
    std::map<std::string, std::string> verdicts;
    std::string told;
    for (const GradedRow& row : grading.rows) {
      verdicts[row.id] = row.verdict;
      told += fmt::format("{}{}: {}", told.empty() ? "" : ", ", json_text(row.id), json_text(row.verdict));
    }
    csv += fmt::format("{},{},{},{:.0f}", for_csv(names[i]), grading.points(), grading.most(), grading.seconds);
    for (const std::string& id : ids) csv += "," + for_csv(verdicts[id]);
    csv += "," + for_csv(grading.remarks) + "\n";
    all += fmt::format(
        "{}\n    {{\n      \"submission\": {},\n      \"points\": {},\n      \"most\": {},\n      \"seconds\": "
        "{:.3f},\n"
        "      \"graded\": {},\n      \"verdicts\": {{{}}},\n      \"remarks\": {}\n    }}",
        i ? "," : "", json_text(names[i]), grading.points(), grading.most(), grading.seconds, grading.graded, told,
        json_text(grading.remarks));
  }
  write_whole(folder / "summary.csv", utf8(csv));
  write_whole(folder / "summary.json", fmt::format("{{\n  \"submissions\": [{}\n  ]\n}}\n", all));
}

void write_junit(const std::filesystem::path& file, const Grading& grading) {
  std::string cases;
  int failures = 0;
  for (const GradedRow& row : grading.rows) {
    cases += fmt::format("  <testcase classname=\"lockstep\" name=\"{} {}\" time=\"{:.3f}\"", row.id,
                         for_xml(row.title), row.seconds);
    if (passed(row)) {
      cases += "/>\n";
      continue;
    }
    ++failures;
    cases += fmt::format(">\n    <failure message=\"{}\">{}</failure>\n  </testcase>\n", for_xml(row.verdict),
                         for_xml(row.reason));
  }
  write_whole(file,
              fmt::format("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                          "<testsuite name=\"lockstep\" tests=\"{}\" failures=\"{}\" errors=\"0\" time=\"{:.3f}\">\n{}"
                          "</testsuite>\n",
                          grading.rows.size(), failures, grading.seconds, cases));
}

}  // namespace lockstep::tools
