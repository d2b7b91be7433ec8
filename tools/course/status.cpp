// ./lab alone, and ./lab list: where the learner stands.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <set>

#include "tools/course/commands.hpp"
#include "tools/course/deeds.hpp"
#include "tools/course/drill.hpp"
#include "tools/course/states.hpp"

namespace lockstep::tools {
namespace {

struct Count {
  int all = 0, pass = 0, minutes = 0, points = 0, all_points = 0;
  void add(const Exercise& exercise, bool passes) {
    ++all, minutes += exercise.minutes, all_points += exercise.counted_points();
    if (passes) ++pass, points += exercise.counted_points();
  }
};

/// "3 of 8 exercises pass, 45 of 160 points".
std::string in_words(const Count& count) {
  return fmt::format("{} of {} exercises pass, {} of {} points", count.pass, count.all, count.points, count.all_points);
}

/// Counts this week's `exercises`.
Count count_of(const Paths& paths, const std::vector<Exercise>& exercises, int week) {
  Count count;
  for (const Exercise& exercise : exercises)
    if (exercise.week == week && paths.has(exercise)) count.add(exercise, state_of(paths, exercise).passes);
  return count;
}

void print_what_to_do(const Paths& paths, const Exercise& exercise) {
  fmt::print("next   {}\n", in_one_line(exercise));
  fmt::print("       {}\n", where_to_work(paths, exercise));
  fmt::print("       ./lab check {0}   ./lab watch {0}   ./lab hint {0}\n", exercise.id);
}

}  // namespace

int status(const Paths& paths) {
  for (const Week& week : paths.weeks())
    fmt::print("week {}  {}: {}\n", week.number, week.title, in_words(count_of(paths, week.exercises, week.number)));
  if (const std::string drills = count_drills(paths); !drills.empty()) fmt::print("drills   {}: ./lab drill\n", drills);
  const auto last = last_edited(paths);
  if (last) fmt::print("last   {} {}: {}\n", last->id, last->title, state_of(paths, *last).words);
  const auto drill = next_drill(paths);
  if (drill) fmt::print("next   {}\n", describe_next(*drill));
  if (const auto next = next_exercise(paths, last))
    print_what_to_do(paths, *next);
  else if (!drill)
    fmt::print("All exercises pass: ./lab train --mine trains with your own code.\n");
  fmt::print("./lab list shows every exercise, ./lab help the commands.\n");
  return 0;
}

int list(const Paths& paths, const std::string& what) {
  const Selection selection = paths.course.select(what);
  const std::vector<Deed> deeds = read_deeds(paths);
  const std::vector<Week> weeks = paths.weeks();
  const auto find_week = [&](int number) {
    return std::find_if(weeks.begin(), weeks.end(), [&](const Week& w) { return w.number == number; });
  };
  const auto print_drills = [&](int number) {
    if (const auto found = find_week(number); found != weeks.end())
      fmt::print("{}", format_drills(paths, found->drills));
  };
  std::set<int> absent;
  int week = -1;
  for (const Exercise& exercise : selection.exercises) {
    const auto found = find_week(exercise.week);
    if (found == weeks.end()) {
      absent.insert(exercise.week);
      continue;
    }
    if (exercise.week != week) {
      print_drills(week);
      week = exercise.week;
      fmt::print("Week {}: {}\n  {} (labs/{})\n{}", week, found->title,
                 in_words(count_of(paths, selection.exercises, week)), exercise.folder, head_of_list());
    }
    const State state = state_of(paths, exercise);
    std::string words = paths.has(exercise) ? state.words : why_missing(paths);
    for (const Deed& deed : deeds)
      if (deed.exercise == exercise.id && (deed.what == "revealed" || deed.what == "reset"))
        words += fmt::format(", {}", deed.what);
    if (const auto time = own_time(deeds, exercise.id)) words += ", " + in_words(*time);
    const Style s = style();
    const std::string& colour = state.passes ? s.good : state.untouched ? s.faint : s.open;
    fmt::print("{}", row_of_list(exercise.id, exercise.title + (exercise.core ? "" : " (extra)"), exercise.minutes,
                                 exercise.counted_points(), words, colour));
  }
  print_drills(week);
  if (!absent.empty())
    fmt::print("{} {}: {}\n", absent.size() == 1 ? "Week" : "Weeks", fmt::join(absent, ", "), why_missing(paths));
  return 0;
}

}  // namespace lockstep::tools
