// A learner's log, other than answers: looked at a reference answer, borrowed it, or started over; and, where asked
// for, when an exercise was begun and passed. Kept in outputs/course.log, one per line, for the learner and for anyone
// who helps.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/course/paths.hpp"

namespace lockstep::tools {

struct Deed {
  std::string date;  ///< UTC, "2026-11-21"; of "begun" and "passed" "2026-11-21T17:05"
  std::string what;  ///< "revealed", "borrowed", "returned", "reset", "solved", "begun", "passed"
  std::string exercise;
};

/// In the order in which they were done; lines that are none are passed over.
std::vector<Deed> read_deeds(const Paths& paths);
/// True if the reference is used in place of an answer, whatever its verdict: borrowed, and not returned since.
bool is_borrowed(const Paths& paths, const std::string& exercise);
/// True if a drill or a card was solved: "drill-21", "card-1".
bool is_solved(const Paths& paths, const std::string& what);
/// Adds one, of today.
void add_deed(const Paths& paths, const std::string& what, const std::string& exercise);
/// The same, where the command is about something else: if it cannot be written, a line on standard error says so.
void note_deed(const Paths& paths, const std::string& what, const std::string& exercise);

/// A learner's own time for an exercise, where it was asked for: from ./lab check --time to the check that passed.
struct OwnTime {
  int minutes = 0;  ///< so far, where it is running
  bool running = false;
};
/// Time since the exercise was last begun; nothing if it never was.
std::optional<OwnTime> own_time(const std::vector<Deed>& deeds, const std::string& exercise);
/// "52 min", "3 h 5 min", "2 days"; "52 min so far".
std::string in_words(const OwnTime& time);
/// Starts the time, unless it is running.
void start_time(const Paths& paths, const std::string& exercise);
/// Ends the time, if it is running.
void end_time(const Paths& paths, const std::string& exercise);

}  // namespace lockstep::tools
