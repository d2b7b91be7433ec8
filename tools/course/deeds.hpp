// What a learner did beside answering: looked at a reference answer, borrowed it, or began anew. Kept in
// outputs/course.log, a line each, so that a learner, and whoever helps, can see it later.
#pragma once

#include <string>
#include <vector>

#include "tools/course/paths.hpp"

namespace lockstep::tools {

struct Deed {
  std::string date;  ///< UTC, "2026-11-21"
  std::string what;  ///< "revealed", "borrowed", "returned", "reset", "solved"
  std::string exercise;
};

/// In the order in which they were done; lines that are none are passed over.
std::vector<Deed> read_deeds(const Paths& paths);
/// Whether the reference shall stand in for an answer, whatever became of that: borrowed, and not returned since.
bool is_borrowed(const Paths& paths, const std::string& exercise);
/// Whether a drill or a card was: "drill-21", "card-1".
bool is_solved(const Paths& paths, const std::string& what);
/// Adds one, of today.
void add_deed(const Paths& paths, const std::string& what, const std::string& exercise);
/// The same, where the command is about something else: if it cannot be written, a line on standard error says so.
void note_deed(const Paths& paths, const std::string& what, const std::string& exercise);

}  // namespace lockstep::tools
