// results.json for Gradescope, and JUnit's XML for what else reads verdicts.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

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
std::string utf8(const std::string& text) {
  using nlohmann::json;
  return json::parse(json(text).dump(-1, ' ', false, json::error_handler_t::replace)).get<std::string>();
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
  using nlohmann::json;
  json tests = json::array();
  for (const GradedRow& row : grading.rows) {
    tests.push_back({{"name", fmt::format("{} {}", row.id, row.title)},
                     {"number", row.id},
                     {"score", row.points},
                     {"max_score", row.most},
                     {"status", passed(row) ? "passed" : "failed"},
                     {"output", row.reason.empty() ? row.verdict : row.verdict + "\n" + row.reason},
                     {"output_format", "text"},
                     {"visibility", visibility}});
  }
  json results{{"score", grading.points()},
               {"execution_time", static_cast<int>(grading.seconds + 0.5)},
               {"output", grading.remarks},
               {"output_format", "text"},
               {"visibility", visibility},
               {"extra_data", {{"max_score", grading.most()}}},
               {"tests", tests}};
  write_whole(file, results.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
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
