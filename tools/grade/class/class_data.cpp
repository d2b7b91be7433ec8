#include "tools/grade/class/class_data.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "common/error.hpp"
#include "common/support/json/document.hpp"
#include "common/testing/verdict.hpp"
#include "tools/grade/grade_judge.hpp"
#include "tools/grade/grade_summary.hpp"

namespace lockstep::tools {
namespace {

namespace fs = std::filesystem;

ClassRow class_row_of(const fs::path& folder, const SummaryRow& summary) {
  ClassRow row{.name = summary.submission,
               .graded = summary.graded,
               .remarks = summary.remarks,
               .parts = {},
               .seed = summary.seed};
  row.file = summary.file;
  const bool elsewhere = row.name.find('/') != row.name.npos || row.name.empty();
  try {
    if (elsewhere) throw JsonError("that is not the name of a submission");
    Grading results = read_results(folder / (row.name + ".json"));
    row.parts = std::move(results.rows), row.look_at = std::move(results.look_at);
    row.setting = results.setting;
    for (const auto& [id, prints] : results.fingerprints) row.answers[id] = read_fingerprints(prints);
    row.files = std::move(results.files);
  } catch (const std::exception& error) {
    row.graded = false;
    row.remarks += fmt::format("its results cannot be read: {}\n", error.what());
  }
  return row;
}

/// A sentence without its numbers, by which those that differ in nothing else are the same.
std::string without_numbers(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit) result += c;
    if (digit && (result.empty() || result.back() != '#')) result += '#';
  }
  return result;
}

/// BLOCKED BY an earlier part says that this one is not written: nothing of its own was tested.
bool is_missing(const GradedRow& row) {
  return row.verdict == "NOT SUBMITTED" || row.verdict == "NOT IMPLEMENTED" || row.verdict.starts_with("BLOCKED BY ");
}
bool is_passed(const GradedRow& row) { return row.verdict == "PASS"; }

std::vector<std::string> ids_in_order(const ClassData& data) {
  std::vector<std::string> ids;
  for (const ClassRow& row : data.rows)
    for (const GradedRow& part : row.parts) ids.push_back(part.id);
  std::sort(ids.begin(), ids.end(), is_before);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

/// Removes the exercise, as if it had not been graded.
void leave_out(ClassRow& row, const std::string& id) {
  std::erase_if(row.parts, [&](const GradedRow& part) { return testing::exercise_of(part.id) == id; });
  std::erase_if(row.look_at, [&](const std::string& where) { return where.starts_with(id + ": "); });
  row.answers.erase(id), row.files.erase(id);
}

/// All exercises that were not submitted in one: what is missing, then what was found. "" where none is.
std::string missing_files(const std::vector<GradedRow>& parts) {
  std::vector<std::string> exercises, missing, sentences;  // about a file that may be the one that is missing
  std::string found;
  for (const GradedRow& part : parts) {
    const std::string id = testing::exercise_of(part.id);
    if (part.verdict != "NOT SUBMITTED" || std::find(exercises.begin(), exercises.end(), id) != exercises.end())
      continue;
    const std::size_t line = std::min(part.reason.find('\n'), part.reason.size());
    const std::string why = part.reason.substr(0, line), same = "there is no ";
    exercises.push_back(id);
    if (!part.may_be.empty())
      sentences.push_back(why);
    else
      missing.push_back(!missing.empty() && why.starts_with(same) ? why.substr(same.size()) : why);  // is said once
    if (found.empty()) found = part.reason.substr(line);
  }
  if (exercises.empty()) return "";
  if (!missing.empty()) sentences.insert(sentences.begin(), fmt::format("{}", fmt::join(missing, ", ")));
  for (std::size_t i = 1; i < sentences.size(); ++i)
    if (sentences[i].starts_with("there ")) sentences[i][0] = 'T';
  return fmt::format("{} NOT SUBMITTED: {}.{}", fmt::join(exercises, ", "), fmt::join(sentences, ". "), found);
}

}  // namespace

int ClassRow::points() const {
  int total = 0;
  for (const GradedRow& part : parts) total += part.points;
  return total;
}
int ClassRow::most() const {
  int total = 0;
  for (const GradedRow& part : parts) total += part.most;
  return total;
}

double ClassRow::counted() const { return std::round(100 * points() * (1 - lost_share)) / 100; }

ClassData read_class(const fs::path& folder) {
  if (!fs::exists(folder / "summary.json"))
    throw Error(Verdict::usage, fmt::format("{} has no summary.json: ./lab grade SUBMISSION… --out {} writes one.",
                                            folder.string(), folder.string()));
  ClassData data;
  for (const SummaryRow& row : read_summary(folder)) data.rows.push_back(class_row_of(folder, row));
  data.not_graded_yet = not_graded_yet(folder);
  std::stable_sort(data.rows.begin(), data.rows.end(),
                   [](const ClassRow& a, const ClassRow& b) { return a.name < b.name; });
  return data;
}

void count_anew(ClassData& data, const Course& course) {
  for (const Exercise& exercise : course.select("").exercises)
    if (!exercise.graded)
      for (ClassRow& row : data.rows) leave_out(row, exercise.id);
  for (ClassRow& row : data.rows)
    for (GradedRow& part : row.parts) {
      const Exercise& exercise = course.exercise(testing::exercise_of(part.id));
      const std::vector<std::string> ids = exercise.ids();
      if (std::find(ids.begin(), ids.end(), part.id) == ids.end()) continue;  // hidden then, and unknown now
      part.most = exercise.points_of(part.id);
      part.points = is_passed(part) ? exercise.points_for_passing(part.id, part.times) : 0;
    }
}

std::vector<PartCount> count_parts(const ClassData& data) {
  std::vector<PartCount> counts;
  for (const std::string& id : ids_in_order(data)) {
    PartCount count{.id = id};
    std::map<std::string, std::vector<std::string>> sentences;  // by what they have in common
    for (const ClassRow& row : data.rows)
      for (const GradedRow& part : row.parts) {
        if (part.id != id) continue;
        count.title = part.title, count.most = part.most;
        ++(is_passed(part) ? count.passed : is_missing(part) ? count.missing : count.failed);
        if (is_passed(part) || is_missing(part)) continue;
        const std::string sentence = sentence_with_values(part);
        sentences[part.verdict + without_numbers(sentence)].push_back(part.verdict + ": " + sentence);
      }
    for (const auto& [alike, all] : sentences)
      if (static_cast<int>(all.size()) > count.of_these)
        count.commonest = all.front(), count.of_these = static_cast<int>(all.size());
    counts.push_back(count);
  }
  return counts;
}

std::vector<SharedFile> identical_files(const ClassData& data) {
  const auto before = [](const auto& a, const auto& b) {
    return a.first != b.first ? is_before(a.first, b.first) : a.second < b.second;
  };
  using Key = std::pair<std::string, std::string>;  // the exercise, and its file's name and hash
  std::map<Key, SharedFile, decltype(before)> all(before);
  for (const ClassRow& row : data.rows)
    for (const auto& file : row.files) {
      SharedFile& shared = all[file];
      shared.file = file.second.substr(0, file.second.find(' ')), shared.names.push_back(row.name);
    }
  std::vector<SharedFile> found;
  for (const auto& [key, shared] : all)
    if (shared.names.size() > 1) found.push_back(shared);
  return found;
}

std::vector<int> distribution(const ClassData& data) {
  std::vector<int> bins(10);
  for (const ClassRow& row : data.rows)
    if (row.graded && row.most() > 0) ++bins[static_cast<std::size_t>(std::min(9, 10 * row.points() / row.most()))];
  return bins;
}

std::vector<std::string> doubts_of(const ClassRow& row) {
  std::vector<std::string> doubts;
  if (!row.graded) doubts.push_back(row.remarks.empty() ? "it was not graded" : row.remarks);
  const auto is_absent = [](const GradedRow& part) { return part.verdict == "NOT SUBMITTED"; };
  const bool empty = row.graded && std::all_of(row.parts.begin(), row.parts.end(), is_absent);
  if (empty) doubts.push_back("it has no answer to what was graded. " + row.remarks);
  for (const Said& said : said_once(row.parts))
    if (said.verdict == "REFUSED" || said.verdict == kNoVerdict)
      doubts.push_back(fmt::format("{} {}: {}", said.ids, said.verdict, said.why));
  if (const std::string missing = missing_files(row.parts); !empty && !missing.empty()) doubts.push_back(missing);
  if (const std::size_t at = row.remarks.find(kIgnored); row.graded && !empty && at != row.remarks.npos)
    doubts.push_back(row.remarks.substr(at, row.remarks.find('\n', at) - at));
  doubts.insert(doubts.end(), row.look_at.begin(), row.look_at.end());
  return doubts;
}

}  // namespace lockstep::tools
