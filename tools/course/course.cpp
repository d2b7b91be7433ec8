#include "tools/course/course.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <set>

#include "common/error.hpp"
#include "common/support/json/document.hpp"
#include "common/support/text/files.hpp"
#include "common/support/text/nearest.hpp"
#include "common/testing/verdict.hpp"

namespace lockstep::tools {
namespace {

Part read_part(const Json& j) {
  return {.id = j.at("id"),
          .title = j.at("title"),
          .points = j.value("points", 0),
          .hints = j.value("hints", std::vector<std::string>{})};
}

Question read_question(const Json& j) {
  Question question{.ask = j.at("ask"), .unit = j.at("unit"), .run = j.at("run"), .field = j.at("field")};
  question.rule = j.value("rule", "");
  question.factor = j.value("factor", 1.0);
  if (const Json* where = j.find("where"))
    for (const auto& [name, value] : where->items()) question.where.emplace_back(name, value.get<std::string>());
  return question;
}

Exercise read_exercise(const Json& j, const Week& week) {
  Exercise e{.id = j.at("id"), .name = j.at("name"), .title = j.at("title"), .week = week.number};
  e.folder = week.folder;
  e.core = j.value("core", true);
  e.graded = j.value("graded", true);
  e.early = j.value("early", false);
  e.minutes = j.at("minutes");
  e.reference_lines = j.value("reference_lines", 0);
  e.points = j.value("points", 0);
  e.needs = j.value("needs", std::vector<std::string>{});
  e.only_tests_need = j.value("only_tests_need", std::vector<std::string>{});
  e.hints = j.value("hints", std::vector<std::string>{});
  if (j.contains("parts"))
    for (const Json& part : j.at("parts")) e.parts.push_back(read_part(part));
  if (j.contains("predict"))
    for (const Json& question : j.at("predict")) e.questions.push_back(read_question(question));
  return e;
}

Week read_week(const Json& j) {
  Week week{.number = j.at("number"), .folder = j.at("folder"), .title = j.at("title"), .drills = {}, .exercises = {}};
  if (j.contains("drills"))
    for (const Json& drill : j.at("drills"))
      week.drills.push_back({drill.at("id"), drill.at("title"), drill.value("core", true), drill.at("minutes")});
  for (const Json& exercise : j.at("exercises")) week.exercises.push_back(read_exercise(exercise, week));
  return week;
}

}  // namespace

std::vector<std::string> Exercise::ids() const {
  std::vector<std::string> result{id};
  for (const Part& part : parts) result.push_back(part.id);
  return result;
}

int Exercise::points_of(std::string_view row) const {
  int rest = points;
  for (const Part& part : parts) {
    if (part.id == row) return part.points;
    rest -= part.points;
  }
  return rest;
}

int Performance::at(double times) const {
  const double share = std::clamp((none_at - times) / (none_at - full_at), 0.0, 1.0);
  return static_cast<int>(std::floor(points * share + 1e-9));
}

std::optional<Performance> Exercise::performance_of(std::string_view row) const {
  for (const Part& part : parts)
    if (part.id == row) return part.performance;
  return row == id ? performance : std::nullopt;
}

int Exercise::points_for_passing(std::string_view row, std::optional<double> times) const {
  const std::optional<Performance> asked = performance_of(row);
  return points_of(row) - (asked && times ? asked->points - asked->at(*times) : 0);
}

Course Course::read(const std::filesystem::path& file) { return parse(read_file(file.string()), file.string()); }

Course Course::parse(const std::string& text, const std::string& name) {
  Course course;
  try {
    const Json document = Json::parse(text);
    for (const Json& week : document.at("weeks")) course.weeks_.push_back(read_week(week));
    course.check();
  } catch (const JsonError& error) {
    throw Error(Verdict::usage, fmt::format("{}: {}", name, error.what()));
  }
  return course;
}

void Course::check() const {
  std::set<std::string> ids, ready, drills;
  std::vector<const Exercise*> waiting;
  for (const Week& week : weeks_)
    for (const Drill& drill : week.drills)
      if (!drills.insert(drill.id).second) throw JsonError(fmt::format("drill {} occurs twice", drill.id));
  for (const Week& week : weeks_)
    for (const Exercise& exercise : week.exercises) {
      waiting.push_back(&exercise);
      for (const std::string& id : exercise.ids())
        if (!ids.insert(id).second) throw JsonError(fmt::format("{} occurs twice", id));
    }
  const auto is_ready = [&](const Exercise* exercise) {
    const std::vector<std::string>& needs = exercise->needs;
    if (!std::all_of(needs.begin(), needs.end(), [&](const std::string& need) { return ready.contains(need); }))
      return false;
    ready.insert(exercise->id);
    return true;
  };
  while (std::erase_if(waiting, is_ready) > 0) {
  }
  if (!waiting.empty())
    throw JsonError(fmt::format("{} needs {}: not an exercise of the course, or a circular dependency",
                                waiting.front()->id, fmt::join(waiting.front()->needs, ", ")));
}

std::string Course::id_of(std::string_view word) const {
  std::vector<const Exercise*> begins, holds;
  for (const Week& week : weeks_)
    for (const Exercise& exercise : week.exercises) {
      if (exercise.name == word) return exercise.id;
      if (exercise.name.starts_with(word)) begins.push_back(&exercise);
      if (exercise.name.find(word) != exercise.name.npos) holds.push_back(&exercise);
    }
  const std::vector<const Exercise*>& meant = begins.empty() ? holds : begins;
  if (word.size() < 3 || meant.empty()) return std::string(word);
  const auto in_core = [](const Exercise* exercise) { return exercise->core; };
  if (meant.size() == 1) return meant[0]->id;
  if (std::count_if(meant.begin(), meant.end(), in_core) == 1)  // an extra takes no name from the core
    return (*std::find_if(meant.begin(), meant.end(), in_core))->id;
  std::string which;
  for (const Exercise* exercise : meant)
    which += fmt::format("{}{} ({})", which.empty() ? "" : ", ", exercise->name, exercise->id);
  throw Error(Verdict::usage, fmt::format("which '{}'? {}.", word, which));
}

namespace {
bool is_digits(std::string_view word) {
  return !word.empty() && word.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

std::vector<int> weeks_in(std::string_view word) {
  constexpr std::string_view kDash = "–";
  const std::size_t dash = word.find(kDash), at = std::min({word.find('-'), dash, word.size()});
  const std::string first(word.substr(0, at));
  const std::string last(at == word.size() ? first : word.substr(at + (at == dash ? kDash.size() : 1)));
  if (!is_digits(first) || !is_digits(last) || std::max(first.size(), last.size()) > 2) return {};
  if (std::stoi(first) > std::stoi(last))
    throw Error(Verdict::usage, fmt::format("'{}' has no weeks: the first is after the last.", word));
  std::vector<int> weeks;
  for (int week = std::stoi(first); week <= std::stoi(last); ++week) weeks.push_back(week);
  return weeks;
}

namespace {
/// "core" or "extra", or with a week before it, "21:core".
bool names_group(std::string_view word) {
  const std::string_view last = word.substr(word.find(':') == word.npos ? 0 : word.find(':') + 1);
  return last == "core" || last == "extra";
}

/// True if `word` means the exercise by its week, or as one of the core or the extra ones.
bool has_in_group(std::string_view word, const Exercise& e) {
  const std::string week = std::to_string(e.week), group = e.core ? "core" : "extra";
  return word == week || word == group || word == week + ":" + group;
}

/// Says which parts an exercise has, where `word` is one that it has not: "21.1z".
void refuse_part(const std::vector<Week>& weeks, std::string_view word) {
  if (word.empty() || std::isalpha(static_cast<unsigned char>(word.back())) == 0) return;
  for (const Week& week : weeks)
    for (const Exercise& exercise : week.exercises) {
      if (exercise.id != word.substr(0, word.size() - 1)) continue;
      std::string parts;
      for (const Part& part : exercise.parts) parts += (parts.empty() ? "the parts " : ", ") + part.id;
      throw Error(Verdict::usage,
                  fmt::format("unknown part '{}': {} has {}.", word, exercise.id, parts.empty() ? "no parts" : parts));
    }
}

/// Says which numbers there are, where `word` is none of them: "22.12", "26".
void refuse_number(const std::vector<Week>& weeks, std::string_view word) {
  const std::string_view number = word.substr(0, word.find('.'));
  if (!is_digits(number) || number.size() > 2 || weeks.empty()) return;
  if (number == word)
    throw Error(Verdict::usage, fmt::format("unknown week '{}': there are weeks {} to {}.", word, weeks.front().number,
                                            weeks.back().number));
  for (const Week& week : weeks)
    if (number == std::to_string(week.number) && is_digits(word.substr(number.size() + 1)) && !week.exercises.empty())
      throw Error(Verdict::usage, fmt::format("unknown exercise '{}': week {} has {} to {}.", word, week.number,
                                              week.exercises.front().id, week.exercises.back().id));
}

/// Everything that select() knows.
std::vector<std::string> known_words(const std::vector<Week>& weeks) {
  std::vector<std::string> known;
  for (const Week& week : weeks) {
    known.push_back(std::to_string(week.number));
    for (const char* group : {":core", ":extra"}) known.push_back(std::to_string(week.number) + group);
    for (const Exercise& exercise : week.exercises) {
      const auto ids = exercise.ids();
      known.insert(known.end(), ids.begin(), ids.end());
      known.push_back(exercise.name);
    }
  }
  return known;
}

/// `before`: the word before it, "22" in "22,10".
[[noreturn]] void refuse(const std::vector<Week>& weeks, const std::string& word, const std::string& before) {
  const std::vector<std::string> known = known_words(weeks);
  const std::string joined = before + "." + word;
  std::string best = nearest(word, known);
  if (std::find(known.begin(), known.end(), joined) != known.end()) {
    best = joined;
  } else {
    refuse_part(weeks, word);
    refuse_number(weeks, word);
    for (const std::string& id : known)  // 21.8 for 21.8x:y, which it begins with, before another exercise's part
      if (id.find('.') != id.npos && word.starts_with(id) && (id.size() > best.size() || !word.starts_with(best)))
        best = id;
    if (!near(word, best)) best.clear();
  }
  throw Error(Verdict::usage, fmt::format("unknown exercise '{}'{} ./lab list shows all of them.", word,
                                          best.empty() ? "." : fmt::format(": did you mean '{}'?", best)));
}
}  // namespace

Selection Course::select(std::string_view what) const {
  Selection selection;
  std::vector<std::string> names;
  for (std::string_view rest = what; !rest.empty() || names.empty();) {
    std::string word(rest.substr(0, rest.find(',')));
    rest.remove_prefix(std::min(word.size() + 1, rest.size()));
    for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    for (const int week : weeks_in(word)) names.push_back(std::to_string(week));
    if (weeks_in(word).empty()) names.push_back(names_group(word) ? word : id_of(word));
  }
  std::vector<bool> found(names.size());
  for (const Week& week : weeks_) {
    for (const Exercise& exercise : week.exercises) {
      const auto ids = exercise.ids();
      bool selected = false;
      for (std::size_t i = 0; i < names.size(); ++i) {
        const bool named = std::find(ids.begin(), ids.end(), names[i]) != ids.end();
        if (!named && !what.empty() && !has_in_group(names[i], exercise)) continue;
        found[i] = selected = true;
        if (named && names[i] != exercise.id) selection.part = names[i];
      }
      if (selected) selection.exercises.push_back(exercise);
    }
  }
  for (std::size_t i = 0; i < names.size(); ++i)
    if (!found[i]) refuse(weeks_, names[i], i == 0 ? "" : names[i - 1]);
  if (!selection.part.empty() && names.size() > 1)
    throw Error(Verdict::usage,
                fmt::format("{} is a part, which must be the only argument; a list may have exercises ({}) and "
                            "weeks.",
                            selection.part, selection.part.substr(0, selection.part.size() - 1)));
  return selection;
}

const Exercise& Course::exercise(std::string_view id) const {
  for (const Week& week : weeks_) {
    for (const Exercise& exercise : week.exercises) {
      if (exercise.id == id) return exercise;
    }
  }
  throw Error(Verdict::usage, fmt::format("labs/course.json has no exercise {}", id));
}

std::vector<Exercise> Course::all_needs(std::string_view id) const {
  std::vector<Exercise> result;
  const auto has = [](const auto& all, const auto& is) { return std::any_of(all.begin(), all.end(), is); };
  const std::function<void(const Exercise&, bool)> add_needs_of = [&](const Exercise& e, bool tests_too) {
    for (const std::string& need : e.needs) {
      if (!tests_too && has(e.only_tests_need, [&](const std::string& other) { return other == need; })) continue;
      add_needs_of(exercise(need), false);
      if (!has(result, [&](const Exercise& other) { return other.id == need; })) result.push_back(exercise(need));
    }
  };
  add_needs_of(exercise(id), true);
  return result;
}

}  // namespace lockstep::tools
