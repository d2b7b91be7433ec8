#include "tools/grade/grade_summary.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "common/error.hpp"
#include "common/support/json/document.hpp"
#include "common/support/json/escape.hpp"
#include "common/support/text/files.hpp"
#include "common/support/text/fnv.hpp"
#include "tools/course/commands.hpp"
#include "tools/course/process.hpp"
#include "tools/grade/grade_names.hpp"

namespace lockstep::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestName = 120;  // bytes; a file's name has 255, and others are added to it

/// "21.3a: with 2 ranks …; 21.4a, 21.4: …"
std::string whys(const Grading& grading) {
  std::string text;
  for (const Said& said : said_once(grading.rows))
    if (!said.why.empty()) text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", said.ids, said.why);
  return text;
}

std::string verdict_of(const SummaryRow& row, const std::string& id) {
  for (const auto& [known, verdict] : row.verdicts)
    if (known == id) return verdict;
  return "";
}

std::string csv_of(const std::vector<SummaryRow>& rows) {
  std::vector<std::string> ids;
  for (const SummaryRow& row : rows)
    for (const auto& [id, verdict] : row.verdicts)
      if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
  std::sort(ids.begin(), ids.end(), is_before);
  std::string csv =
      fmt::format("submission,points,most,seconds,seed{}{},remarks,why\n", ids.empty() ? "" : ",", fmt::join(ids, ","));
  for (const SummaryRow& row : rows) {
    csv += fmt::format("{},{},{},{:.0f},{}", for_csv(row.submission), row.points, row.most, row.seconds,
                       for_csv(row.seed));
    for (const std::string& id : ids) csv += "," + for_csv(verdict_of(row, id));
    csv += "," + for_csv(row.remarks) + "," + for_csv(row.why) + "\n";
  }
  return utf8(csv);
}

Json json_of(const SummaryRow& row) {
  std::vector<Json::Member> verdicts;
  for (const auto& [id, verdict] : row.verdicts) verdicts.push_back({id, Json::of(verdict)});
  return Json::object({{"submission", Json::of(row.submission)},
                       {"points", Json::of(row.points)},
                       {"most", Json::of(row.most)},
                       {"seconds", Json::of(row.seconds)},
                       {"seed", Json::of(row.seed)},
                       {"graded", Json::of(row.graded)},
                       {"verdicts", Json::object(std::move(verdicts))},
                       {"remarks", Json::of(row.remarks)},
                       {"why", Json::of(row.why)},
                       {"file", Json::of(row.file)},
                       {"of", Json::of(row.of)}});
}

SummaryRow row_of(const Json& json) {
  SummaryRow row{.submission = json.at("submission"), .points = json.at("points"), .most = json.at("most")};
  row.seconds = json.at("seconds"), row.seed = json.value("seed", ""), row.graded = json.at("graded");
  for (const auto& [id, verdict] : json.at("verdicts").items())
    row.verdicts.emplace_back(id, verdict.get<std::string>());
  row.remarks = json.value("remarks", ""), row.why = json.value("why", ""), row.of = json.value("of", "");
  row.file = json.value("file", "");
  return row;
}

/// The content of summary.json.
struct SummaryFile {
  std::vector<SummaryRow> rows;
  std::vector<std::string> announced;
};
SummaryFile read_file_of(const fs::path& folder) {
  SummaryFile summary;
  const fs::path file = folder / "summary.json";
  if (!fs::exists(file)) return summary;
  try {
    const Json document = Json::parse(read_file(file.string()));
    for (const Json& json : document.at("submissions")) summary.rows.push_back(row_of(json));
    if (document.contains("announced"))
      for (const Json& name : document.at("announced")) summary.announced.push_back(name.get<std::string>());
  } catch (const JsonError& error) {
    throw Error(Verdict::usage, fmt::format("{} is not a summary that can be merged: {}", file.string(), error.what()));
  }
  return summary;
}
void write_file_of(const fs::path& folder, const SummaryFile& summary) {
  std::vector<Json> rows, names;
  for (const SummaryRow& row : summary.rows) rows.push_back(json_of(row));
  for (const std::string& name : summary.announced) names.push_back(Json::of(name));
  write_text(folder / "summary.csv", csv_of(summary.rows));
  const Json document =
      Json::object({{"submissions", Json::list(std::move(rows))}, {"announced", Json::list(std::move(names))}});
  write_text(folder / "summary.json", document.dump(2) + "\n");
}

/// At most so many bytes, and no half character.
std::string beginning(std::string text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0) == 0x80) --most;
  return text.substr(0, most);
}

}  // namespace

std::string for_csv(const std::string& text) {
  std::string result = "\"";
  if (!text.empty() && std::string_view("=+-@\t").find(text[0]) != std::string_view::npos) result += "'";
  for (char c : text.substr(0, text.find_last_not_of(" \n") + 1)) {
    if (c == '"') result += '"';
    result += c == '\n' || c == '\r' ? ' ' : c;
  }
  return result + "\"";
}

SummaryRow summary_row(const std::string& name, const Grading& grading) {
  SummaryRow row{.submission = utf8(name), .points = grading.points(), .most = grading.most()};
  row.seconds = grading.seconds, row.seed = std::to_string(grading.seed), row.graded = grading.graded;
  for (const GradedRow& graded : grading.rows) row.verdicts.emplace_back(graded.id, graded.verdict);
  row.remarks = utf8(grading.remarks), row.why = whys(grading);
  return row;
}

std::vector<SummaryRow> read_summary(const fs::path& folder) { return read_file_of(folder).rows; }

std::string fingerprint(const Paths& paths, const GradeOptions& options, const fs::path& submission) {
  std::string commit;
  Command head{.arguments = {"git", "rev-parse", "HEAD"}, .folder = paths.source, .on_line = {}};
  head.on_line = [&](std::string_view line) { commit = line; };
  if (find_program("git").empty() || !uncommitted(paths).empty() || !run_command(head).ok()) return "";
  Fnv1a number;
  const auto add = [&number](const std::string& text) { number.add(fmt::format("{}:{}", text.size(), text)); };
  for (const std::string& how :
       {commit, options.what, options.backend, fmt::format("{}", options.timeout_seconds), paths.course.changes()})
    add(how);
  std::vector<fs::path> files;
  if (!options.tests.empty())
    for (const auto& each : fs::recursive_directory_iterator(options.tests))
      if (each.is_regular_file()) files.push_back(each.path());
  std::error_code unreadable;
  if (!fs::is_directory(submission, unreadable)) files.push_back(submission);
  for (fs::recursive_directory_iterator each(submission, unreadable), end; !unreadable && each != end;
       each.increment(unreadable))
    if (each->is_regular_file(unreadable) || each->is_symlink(unreadable)) files.push_back(each->path());
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    if (!fs::is_regular_file(fs::symlink_status(file, unreadable))) return "";
    add(file.lexically_relative(submission).string()), add(read_text(file));
  }
  return fmt::format("{}-{:016x}", commit, number.value());
}

void join_summary(const fs::path& folder, const SummaryRow& row) {
  SummaryFile summary = read_file_of(folder);
  const auto same = std::find_if(summary.rows.begin(), summary.rows.end(),
                                 [&](const SummaryRow& other) { return other.submission == row.submission; });
  if (same == summary.rows.end())
    summary.rows.push_back(row);
  else
    *same = row;
  write_file_of(folder, summary);
}

void announce(const fs::path& folder, const std::vector<std::string>& names) {
  SummaryFile summary = read_file_of(folder);
  summary.announced.clear();
  for (const std::string& name : names) summary.announced.push_back(utf8(name));
  write_file_of(folder, summary);
}

std::vector<std::string> not_graded_yet(const fs::path& folder) {
  SummaryFile summary = read_file_of(folder);
  std::erase_if(summary.announced, [&](const std::string& name) {
    return std::any_of(summary.rows.begin(), summary.rows.end(),
                       [&](const SummaryRow& row) { return row.submission == name; });
  });
  return summary.announced;
}

namespace {
/// In whatever bytes it has.
std::string bare_name(const fs::path& submission) {
  const fs::path file = submission.filename().empty() ? submission.parent_path().filename() : submission.filename();
  std::error_code ignored;  // a name that is too long for the system
  std::string whole = fs::is_directory(submission, ignored) ? file.string() : file.stem().string();
  if (whole.ends_with(".tar")) whole.erase(whole.size() - 4);
  return whole;
}
}  // namespace

std::string stem_of(const fs::path& submission) { return utf8(bare_name(submission)); }

std::string name_for(const fs::path& submission, const std::vector<std::string>& taken) {
  const std::optional<Downloaded> download = read_download(submission);
  const std::string whole = download ? download->student : bare_name(submission);
  std::string stem = utf8(whole);
  for (char& c : stem)
    if (static_cast<unsigned char>(c) < 32 || c == 127) c = '_';
  stem = beginning(stem, kLongestName);
  if (stem != whole)  // two names that begin alike are two submissions
    stem += fmt::format("-{:08x}", Fnv1a(whole).folded());
  std::string name = stem;
  for (int i = 2; name == "summary" || std::find(taken.begin(), taken.end(), name) != taken.end(); ++i)
    name = fmt::format("{}-{}", stem, i);
  return name;
}

}  // namespace lockstep::tools
