// An instructor's changes to the course, from a file: points, minutes, core or extra, and parts that hidden tests
// judge.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/error.hpp"
#include "common/support/json/document.hpp"
#include "common/support/text/nearest.hpp"
#include "common/testing/verdict.hpp"
#include "tools/course/course.hpp"

namespace lockstep::tools {
namespace {

constexpr int kMostOfANumber = 10'000;

int count_of(const Json& value, const std::string& what) {
  const int number = value.get<int>();
  if (number < 0 || number > kMostOfANumber)
    throw JsonError(fmt::format("{} is {}; expected 0 to {}", what, number, kMostOfANumber));
  return number;
}

void only_known(const std::string& id, const Json& change, const std::vector<std::string>& known) {
  for (const auto& [name, value] : change.items())
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw JsonError(fmt::format("{}: {}", id, unknown_name("field", name, known)));
}

/// {"points": 3, "full_at": 1, "none_at": 2}, of which the last two may be left out.
std::optional<Performance> performance_in(const std::string& id, const Json& change) {
  const Json* asked = change.find("performance");
  if (!asked) return {};
  const std::string what = id + ": performance";
  only_known(what, *asked, {"points", "full_at", "none_at"});
  Performance performance{.points = count_of(asked->at("points"), what + ": points")};
  performance.full_at = asked->value("full_at", performance.full_at);
  performance.none_at = asked->value("none_at", performance.none_at);
  if (!(performance.full_at >= 1 && performance.full_at < performance.none_at && performance.none_at <= 1000))
    throw JsonError(
        fmt::format("{}: full_at is {} and none_at is {}; expected multiples of the reference's time, the first at "
                    "least 1, the second larger and at most 1000",
                    what, performance.full_at, performance.none_at));
  return performance;
}

void change_exercise(Exercise& e, const Json& change) {
  only_known(e.id, change, {"points", "minutes", "core", "graded", "performance"});
  e.performance = performance_in(e.id, change);
  if (const Json* points = change.find("points")) e.points = count_of(*points, e.id + ": points");
  if (const Json* minutes = change.find("minutes")) e.minutes = count_of(*minutes, e.id + ": minutes");
  e.core = change.value("core", e.core);
  e.graded = change.value("graded", e.graded);
}

void add_hidden(Exercise& e, const std::string& id, const Json& change) {
  only_known(id, change, {"hidden", "title", "points", "performance"});
  const int points = count_of(change.at("points"), id + ": points");
  e.parts.push_back({.id = id, .title = change.at("title"), .points = points, .hints = {}, .hidden = true});
  e.parts.back().performance = performance_in(id, change);
  e.points += points;
}

void check_performance(const Exercise& e) {
  for (const std::string& id : e.ids())
    if (const auto performance = e.performance_of(id); performance && performance->points > e.points_of(id))
      throw JsonError(fmt::format("{}: performance has {} points, and {} has {} in all", id, performance->points, id,
                                  e.points_of(id)));
}

/// Changes the exercise itself first, so that hidden parts come on top of its new points.
void change_by_id(std::vector<Week>& weeks, const Json& changes, const auto& change) {
  for (const auto& [id, value] : changes.items()) {
    if (!value.is_object()) throw JsonError(id + ": expected an object, {\"points\": 5}");
    std::vector<std::string> known;
    Exercise* found = nullptr;
    for (Week& week : weeks)
      for (Exercise& e : week.exercises) {
        for (const std::string& each : e.ids()) known.push_back(each);
        if (e.id == testing::exercise_of(id)) found = &e;
      }
    if (!found ||
        (id != found->id && !value.value("hidden", false) && std::find(known.begin(), known.end(), id) == known.end()))
      throw JsonError(unknown_name("exercise or part", id, std::vector<std::string>{nearest(id, known)}));
    change(*found, id, value);
  }
}

/// Checks that an exercise's points beyond its parts' have tests: those of the parts together, which not all have.
void check_points(const Exercise& e, bool has_whole) {
  const int rest = e.points_of(e.id);
  if (rest < 0)
    throw JsonError(
        fmt::format("the parts of {} have {} points, and {} has {}: give both", e.id, e.points - rest, e.id, e.points));
  if (rest > 0 && !has_whole)
    throw JsonError(
        fmt::format("{} has {} points, and its parts, which have all its tests, {}: give theirs too, as in "
                    "{{\"{}\": {{\"points\": {}}}}}",
                    e.id, e.points, e.points - rest, e.parts.front().id, e.parts.front().points + rest));
}

}  // namespace

void Course::change(const std::string& text, const std::string& name) {
  std::set<std::string> whole;  // with tests of its own, which have points in every course
  for (const Week& week : weeks_)
    for (const Exercise& e : week.exercises)
      if (e.parts.empty() || e.points_of(e.id) > 0) whole.insert(e.id);
  try {
    const Json changes = Json::parse(text);
    if (!changes.is_object()) throw JsonError("expected an object, {\"21.2\": {\"points\": 30}}");
    change_by_id(weeks_, changes, [](Exercise& e, const std::string& id, const Json& value) {
      if (id == e.id) change_exercise(e, value);
    });
    change_by_id(weeks_, changes, [](Exercise& e, const std::string& id, const Json& value) {
      const auto part = std::find_if(e.parts.begin(), e.parts.end(), [&](const Part& p) { return p.id == id; });
      if (id == e.id) return;
      if (part == e.parts.end()) return add_hidden(e, id, value);
      if (part->hidden || value.contains("hidden"))
        throw JsonError(fmt::format("{} is a part of the course; a hidden one needs another letter", id));
      only_known(id, value, {"points", "performance"});
      part->performance = performance_in(id, value);
      if (!part->performance || value.contains("points")) part->points = count_of(value.at("points"), id + ": points");
    });
    for (const Week& week : weeks_)
      for (const Exercise& e : week.exercises) check_points(e, whole.contains(e.id)), check_performance(e);
  } catch (const JsonError& error) {
    throw Error(Verdict::usage, fmt::format("{}: {}", name, error.what()));
  }
  changes_ += text;
}

}  // namespace lockstep::tools
