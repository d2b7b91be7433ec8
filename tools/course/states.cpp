#include "tools/course/states.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "common/support/text/columns.hpp"
#include "common/support/text/counted.hpp"
#include "tools/course/deeds.hpp"

namespace lockstep::tools {

State state_of(const Paths& paths, const Exercise& exercise) {
  if (is_borrowed(paths, exercise.id)) return {false, is_untouched(paths, exercise), true, "borrowed"};
  const auto record = last_record(paths, exercise);
  const bool untouched = is_untouched(paths, exercise);
  if (!record || (untouched && record->stale)) return {false, untouched, false, untouched ? "-" : "begun, not checked"};
  if (record->stale) return {false, untouched, false, "edited since " + record->judgement.verdict};
  return {record->judgement.ok(), untouched, false, record->judgement.verdict};
}

std::optional<Exercise> last_edited(const Paths& paths) {
  std::optional<Exercise> last;
  std::filesystem::file_time_type when;
  std::error_code none;
  for (const Exercise& exercise : paths.exercises()) {
    if (is_untouched(paths, exercise)) continue;
    const auto written = std::filesystem::last_write_time(paths.answer(exercise), none);
    if (!last || written > when) last = exercise, when = written;
  }
  return last;
}

std::optional<Exercise> next_exercise(const Paths& paths, const std::optional<Exercise>& from) {
  std::vector<Exercise> all = paths.exercises();
  std::stable_sort(all.begin(), all.end(), [](const Exercise& a, const Exercise& b) {
    return std::pair(a.week, !a.early) < std::pair(b.week, !b.early);
  });
  if (from)  // its week first, in the order of the page
    std::rotate(all.begin(),
                std::find_if(all.begin(), all.end(), [&](const Exercise& e) { return e.week == from->week; }),
                all.end());
  const auto is_open = [&](const Exercise& exercise) {
    const State state = state_of(paths, exercise);
    return !state.passes && !state.borrowed;
  };
  const auto first_open = [&](bool core, bool of_any_week) -> std::optional<Exercise> {
    for (const Exercise& exercise : all) {
      if (exercise.core != core || (!of_any_week && exercise.week != from->week)) continue;
      if (is_open(exercise)) return exercise;
    }
    return std::nullopt;
  };
  std::optional<Exercise> next;
  if (from && from->core && is_open(*from)) return from;  // it is being worked on
  if (from) next = first_open(true, false);
  if (!next && from && !from->core) next = first_open(false, false);
  if (!next) next = first_open(true, true);
  return next ? next : first_open(false, true);
}

namespace {
constexpr std::size_t kIdColumns = 9, kStateColumns = 19, kLeastTitle = 10;

/// Columns left for a title in a line that has `others` next to it.
std::size_t title_columns(std::size_t columns, std::size_t others) {
  return std::max(kLeastTitle, std::min(columns, kListColumns) - std::min(columns, others));
}
}  // namespace

std::string row_of_list(const std::string& id, const std::string& title, int minutes, std::optional<int> points,
                        const std::string& state, const std::string& colour, std::size_t columns) {
  const std::size_t wide = title_columns(columns, 48);
  const std::vector<std::string> titles = wrapped(title, wide), states = wrapped(state, kStateColumns);
  std::string rows;
  for (std::size_t i = 0; i < std::max(titles.size(), states.size()); ++i) {
    const bool first = i == 0;
    const std::string row = fmt::format("  {}{} {:>7}  {:>6}  ", padded(first ? id : "", kIdColumns),
                                        padded(i < titles.size() ? titles[i] : "", wide),
                                        first ? fmt::format("{}–{}", minutes, kTimesIfNew * minutes) : "",
                                        first && points ? std::to_string(*points) : "");
    const std::string end = i < states.size() ? colour + states[i] + (colour.empty() ? "" : style().off) : "";
    rows += (end.empty() ? row.substr(0, row.find_last_not_of(' ') + 1) : row + end) + "\n";
  }
  return rows;
}

std::string head_of_list(std::size_t columns) {
  return fmt::format("  {} {:>7}  {:>6}  state\n", padded("", kIdColumns + title_columns(columns, 48)), "minutes",
                     "points");
}

std::string label_of_check(const std::string& indent, const std::string& id, const std::string& title,
                           std::size_t columns) {
  return fitted(indent + padded(id, indent.empty() ? 7 : 8) + title, title_columns(columns, 24));
}

std::string in_one_line(const Exercise& exercise) {
  return fmt::format("{} {}, {}{}", exercise.id, exercise.title, counted(exercise.minutes, "minute"),
                     exercise.core ? "" : " (extra)");
}

std::string where_to_work(const Paths& paths, const Exercise& exercise) {
  return fmt::format("read labs/{}/{}, edit {}", exercise.folder, exercise.page(),
                     std::filesystem::proximate(paths.answer(exercise), paths.source).string());
}

std::string describe_next(const Exercise& exercise) {
  return fmt::format("{}: ./lab check {}", in_one_line(exercise), exercise.id);
}

}  // namespace lockstep::tools
