// A learner's progress: the state of each exercise, and the next step.
#pragma once

#include <unistd.h>

#include <optional>
#include <string>

#include "common/support/text/columns.hpp"
#include "tools/course/record.hpp"

namespace lockstep::tools {

/// State of an answer, without judging it.
struct State {
  bool passes = false;    ///< as it is now
  bool untouched = true;  ///< as it was handed out
  bool borrowed = false;  ///< by ./lab borrow
  std::string words;      ///< "PASS", "edited since FAIL", "begun, not checked", "borrowed", "-"
};
State state_of(const Paths& paths, const Exercise& exercise);

/// The exercise whose answer was written last, of those that were begun.
std::optional<Exercise> last_edited(const Paths& paths);

/// The exercise to continue with: `from`, if it is of the core and neither passes nor is borrowed. Else the first such
/// of the core of its week, then of that week's extras if `from` is one, then of the whole core, then of all extras.
/// Each of these is searched in the order of the week's page, beginning with the week of `from`. Empty where all pass.
/// Where `from` is empty, it begins with the course.
std::optional<Exercise> next_exercise(const Paths& paths, const std::optional<Exercise>& from);

/// Lists are at most so wide; in a narrower terminal, as wide as that.
inline constexpr std::size_t kListColumns = 80;

/// A row of ./lab list, with its end: long titles and states have several lines. `minutes` become those of somebody who
/// knows the field and of who is new to it. `points` may be left out; `colour` is that of the state.
std::string row_of_list(const std::string& id, const std::string& title, int minutes, std::optional<int> points,
                        const std::string& state, const std::string& colour,
                        std::size_t columns = terminal_columns(STDOUT_FILENO));
/// The heading of such rows.
std::string head_of_list(std::size_t columns = terminal_columns(STDOUT_FILENO));

/// The text before the verdict in a row of ./lab check, of fixed width, which leaves room for the verdict.
std::string label_of_check(const std::string& indent, const std::string& id, const std::string& title,
                           std::size_t columns = terminal_columns(STDOUT_FILENO));

/// "21.3 Recursive doubling and Rabenseifner, 90 minutes (extra)".
std::string in_one_line(const Exercise& exercise);

/// The page to read and the answer to edit: "read labs/week21_data_parallel/README.md, edit
/// labs/…/ring_all_reduce.cpp".
std::string where_to_work(const Paths& paths, const Exercise& exercise);

/// in_one_line(), ": ./lab check 21.3" behind it.
std::string describe_next(const Exercise& exercise);

}  // namespace lockstep::tools
