#include "tools/course/deeds.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <sstream>

#include "common/error.hpp"
#include "common/support/text/files.hpp"
#include "tools/course/commands.hpp"
#include "tools/course/record.hpp"
#include "tools/course/skeleton.hpp"

namespace lockstep::tools {
namespace {

std::vector<std::string> with_hard_skeleton(const Paths& paths) {
  std::vector<std::string> ids;
  for (const Exercise& exercise : paths.course.select("").exercises)
    if (std::filesystem::exists(paths.hard_solution(exercise))) ids.push_back(exercise.id);
  return ids;
}

std::filesystem::path log_of(const Paths& paths) { return paths.source / "outputs" / "course.log"; }

void add_line(const Paths& paths, const std::string& date, const std::string& what, const std::string& exercise) {
  write_text(log_of(paths), read_text(log_of(paths)) + fmt::format("{} {} {}\n", date, what, exercise));
}

void add_moment(const Paths& paths, const std::string& what, const std::string& exercise) {
  add_line(paths, fmt::format("{:%Y-%m-%dT%H:%M}", fmt::gmtime(std::time(nullptr))), what, exercise);
}

/// Seconds since 1970 of "2026-11-21T17:05"; nothing where it says another thing.
std::optional<std::time_t> seconds_of(const std::string& date) {
  std::tm parts{};
  const char* end = strptime(date.c_str(), "%Y-%m-%dT%H:%M", &parts);
  return end && *end == '\0' ? std::optional(timegm(&parts)) : std::nullopt;
}

}  // namespace

std::vector<Deed> read_deeds(const Paths& paths) {
  std::vector<Deed> deeds;
  for (const std::string& line : lines_of(read_text(log_of(paths)))) {
    std::istringstream words(line);
    if (Deed deed; words >> deed.date >> deed.what >> deed.exercise) deeds.push_back(deed);
  }
  return deeds;
}

void add_deed(const Paths& paths, const std::string& what, const std::string& exercise) {
  add_line(paths, fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr))), what, exercise);
}

void note_deed(const Paths& paths, const std::string& what, const std::string& exercise) {
  try {
    add_deed(paths, what, exercise);
  } catch (const Error& error) {
    fmt::print(stderr, "not recorded that {} is {}: {}\n", exercise, what, error.what());
  }
}

bool is_borrowed(const Paths& paths, const std::string& exercise) {
  bool borrowed = false;
  for (const Deed& deed : read_deeds(paths))
    if (deed.exercise == exercise && (deed.what == "borrowed" || deed.what == "returned"))
      borrowed = deed.what == "borrowed";
  return borrowed;
}

bool is_solved(const Paths& paths, const std::string& what) {
  const std::vector<Deed> deeds = read_deeds(paths);
  return std::any_of(deeds.begin(), deeds.end(),
                     [&](const Deed& deed) { return deed.what == "solved" && deed.exercise == what; });
}

std::optional<OwnTime> own_time(const std::vector<Deed>& deeds, const std::string& exercise) {
  std::optional<std::time_t> begun, passed;
  for (const Deed& deed : deeds) {
    if (deed.exercise != exercise) continue;
    if (deed.what == "begun") begun = seconds_of(deed.date), passed.reset();
    if (deed.what == "passed" && !passed) passed = seconds_of(deed.date);
  }
  if (!begun) return std::nullopt;
  const std::time_t seconds = passed.value_or(std::time(nullptr)) - *begun;
  return OwnTime{static_cast<int>(std::max<std::time_t>(seconds, 0) / 60), !passed};
}

std::string in_words(const OwnTime& time) {
  const int hours = time.minutes / 60;
  const std::string words = hours >= 48  ? fmt::format("{} days", hours / 24)
                            : hours == 0 ? fmt::format("{} min", time.minutes)
                                         : fmt::format("{} h {} min", hours, time.minutes % 60);
  return words + (time.running ? " so far" : "");
}

void start_time(const Paths& paths, const std::string& exercise) {
  const std::optional<OwnTime> time = own_time(read_deeds(paths), exercise);
  if (!time || !time->running) add_moment(paths, "begun", exercise);
}

void end_time(const Paths& paths, const std::string& exercise) {
  if (const std::optional<OwnTime> time = own_time(read_deeds(paths), exercise); time && time->running)
    add_moment(paths, "passed", exercise);
}

int borrow(const Paths& paths, const std::string& what, bool back) {
  for (const Exercise& exercise : paths.course.select(what).exercises) {
    if (is_borrowed(paths, exercise.id) == !back) {
      fmt::print("{} is {} already\n", exercise.id, back ? "yours" : "borrowed");
      continue;
    }
    add_deed(paths, back ? "returned" : "borrowed", exercise.id);
    if (back)
      fmt::print("your own {} is used again, where it passes\n", exercise.id);
    else
      fmt::print(
          "from now on the reference's answer is used for {}, and ./lab skips it; to undo: ./lab borrow --back {}\n",
          exercise.id, exercise.id);
  }
  return 0;
}

int reveal(const Paths& paths, const std::string& what) {
  if (is_handout(paths)) throw Error(Verdict::usage, "the reference's answers are not in a handout.");
  for (const Exercise& exercise : paths.course.select(what).exercises) {
    note_deed(paths, "revealed", exercise.id);
    fmt::print("{}", read_text(paths.solution(exercise)));
  }
  return 0;
}

int reset(const Paths& paths, const std::string& what, bool hard) {
  for (const Exercise& exercise : paths.course.select(what).exercises) {
    need_handed_out(paths, exercise);
    const std::filesystem::path solution = hard ? paths.hard_solution(exercise) : paths.solution(exercise);
    if (!std::filesystem::exists(solution))
      throw Error(Verdict::usage, fmt::format("{} has no hard skeleton; these have one: {}", exercise.id,
                                              fmt::join(with_hard_skeleton(paths), ", ")));
    if (!hard && is_untouched(paths, exercise) && std::filesystem::exists(paths.answer(exercise))) {
      fmt::print("{} is as it was handed out\n", exercise.id);
      continue;
    }
    if (const std::string answer = read_text(paths.answer(exercise));
        !answer.empty() && !is_untouched(paths, exercise)) {
      const auto kept = free_name(paths.source / "outputs" / "answers" / exercise.name, ".cpp");
      write_text(kept, answer);
      fmt::print("kept your {} as {}\n", exercise.id, std::filesystem::proximate(kept, paths.source).string());
    }
    write_text(paths.answer(exercise), skeleton(read_text(solution), solution.string()));
    add_deed(paths, "reset", exercise.id);
    fmt::print("{}{}\n", exercise.id,
               hard ? ": only its interface is left, and the tests check what it does" : " is as it was handed out");
  }
  return 0;
}

}  // namespace lockstep::tools
