#include "common/testing/verdict.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <map>

namespace lockstep::testing {
namespace {

constexpr std::string_view kSuitePrefix = "Lab";
constexpr std::string_view kTodo = " is not implemented yet";
constexpr std::string_view kStub = " does not compile: ";

/// Returns the 21.2a of "exercise 21.2a is not implemented yet: …"; empty if the text does not contain `phrase`.
std::string id_before(std::string_view text, std::string_view phrase) {
  constexpr std::string_view opening = "exercise ";
  auto end = text.find(phrase);
  if (end == text.npos) return "";
  auto begin = text.rfind(opening, end);
  return begin == text.npos ? "" : std::string(text.substr(begin + opening.size(), end - begin - opening.size()));
}

/// Like severity, but a row in which everything was skipped weighs less than one that passed.
int weight(const Judgement& row) { return row.verdict.starts_with("SKIPPED") ? -1 : severity(row.verdict); }

}  // namespace

std::string id_of_suite(std::string_view suite) {
  if (!suite.starts_with(kSuitePrefix)) return "";
  std::string id(suite.substr(kSuitePrefix.size()));
  std::replace(id.begin(), id.end(), '_', '.');
  bool starts_with_digit = !id.empty() && std::isdigit(static_cast<unsigned char>(id[0]));
  return starts_with_digit ? id : "";
}

std::optional<Score> score_in(const std::string& note) {
  constexpr std::string_view opening = "score ";
  if (!note.starts_with(opening)) return std::nullopt;
  const char* begin = note.c_str() + opening.size();
  char* end = nullptr;
  const double value = std::strtod(begin, &end);
  const auto close = note.rfind("): ");
  const auto open = static_cast<std::size_t>(end - note.c_str());
  if (end == begin || !std::isfinite(value) || close == note.npos || note.compare(open, 2, " (") != 0)
    return std::nullopt;
  if (close < open + 2) return std::nullopt;
  return Score{note.substr(open + 2, close - open - 2), value};
}

std::string suite_of_id(std::string_view id) {
  std::string suite = std::string(kSuitePrefix) + std::string(id);
  std::replace(suite.begin(), suite.end(), '.', '_');
  return suite;
}

std::string exercise_of(std::string_view id) {
  while (!id.empty() && std::isalpha(static_cast<unsigned char>(id.back()))) id.remove_suffix(1);
  return std::string(id);
}

std::string word_for(std::string_view id, Verdict verdict, std::string_view message) {
  std::string culprit;
  if (verdict == Verdict::not_implemented) culprit = id_before(message, kTodo);
  if (verdict == Verdict::does_not_compile) culprit = id_before(message, kStub);
  // A part does not block its own exercise, and an exercise's file does not block its own part.
  bool own = culprit.empty() || culprit == id || culprit == exercise_of(id) || exercise_of(culprit) == id;
  return own ? std::string(to_string(verdict)) : "BLOCKED BY " + culprit;
}

Verdict verdict_in(std::string_view text) {
  if (!id_before(text, kTodo).empty()) return Verdict::not_implemented;
  if (!id_before(text, kStub).empty()) return Verdict::does_not_compile;
  if (text.find("USAGE at ") != text.npos) return Verdict::usage;
  return Verdict::fail;
}

std::string without_rank(std::string_view message) {
  constexpr std::string_view opening = "rank ";
  if (!message.starts_with(opening)) return std::string(message);
  const auto end = message.find_first_not_of("0123456789", opening.size());
  const bool named = end != message.npos && end > opening.size() && message.substr(end).starts_with(": ");
  return std::string(named ? message.substr(end + 2) : message);
}

int severity(const std::string& verdict) {
  if (verdict == "PASS") return 0;
  if (verdict.starts_with("SKIPPED")) return 1;
  if (verdict.starts_with("BLOCKED")) return 2;
  if (verdict == to_string(Verdict::not_implemented)) return 3;
  return 4;
}

bool out_of_memory(std::string_view verdict, std::string_view message) {
  return verdict == to_string(Verdict::fail) && message.find("out of memory") != message.npos;
}

std::vector<Judgement> with_exercises(std::vector<Judgement> rows) {
  // Sorts parts in order, independently of the files of tests; tests of the whole exercise come last.
  for (auto begin = rows.begin(), end = begin; begin != rows.end(); begin = end) {
    const std::string exercise = exercise_of(begin->id);
    end = std::find_if(begin, rows.end(), [&](const Judgement& row) { return exercise_of(row.id) != exercise; });
    std::stable_sort(begin, end, [&](const Judgement& a, const Judgement& b) {
      return a.id != exercise && (b.id == exercise || a.id < b.id);
    });
  }
  std::vector<Judgement> result;
  std::map<std::string, Judgement> whole;
  for (const Judgement& part : rows) {
    std::string exercise = exercise_of(part.id);
    if (part.id != exercise) result.push_back(part);
    auto [at, is_new] = whole.try_emplace(exercise, part);
    Judgement& sum = at->second;
    if (is_new) {
      sum.id = exercise;
      continue;
    }
    if (weight(part) > weight(sum)) {
      sum.verdict = part.verdict, sum.message = part.message, sum.test = part.test;
    }
    sum.passed += part.passed, sum.failed += part.failed, sum.seconds += part.seconds;
    sum.skipped += part.skipped;
    if (sum.left_out.empty()) sum.left_out = part.left_out;
    sum.notes.insert(sum.notes.end(), part.notes.begin(), part.notes.end());
  }
  for (auto& [id, judgement] : whole) result.push_back(judgement);
  return result;
}

}  // namespace lockstep::testing
