// A class's points for a course system, in the CSV that it has exported and imports again.
#pragma once

#include <string>
#include <vector>

#include "tools/grade/class/class_data.hpp"

namespace lockstep::tools {

struct LmsFile {
  std::string system;                 ///< "canvas" or "moodle"
  std::string text;                   ///< to import
  std::size_t filled = 0;             ///< students who have points in it
  std::vector<std::string> unplaced;  ///< submissions of which the file knows no student
  std::vector<std::string> notes;     ///< for a person: that its assignment is new, or has other points
};

/// `exported`: of Canvas the gradebook ("Export"), with the columns Student, ID, SIS User ID, SIS Login ID, Section and
/// the assignments; the result has these five and `column`, which may be the assignment's name without its number, or a
/// new one. Of Moodle the assignment's grading worksheet, with Identifier, Grade and others, all of which the result
/// has; `column` is Grade where it is empty. Points are those that lateness has left. A student is known by the number
/// in the downloaded file's name, or, where files are named otherwise, by login, e-mail address, number or name. Who
/// has not handed in keeps what the file says. Throws Error(usage) where it is the file of neither.
LmsFile fill_lms(const ClassData& data, const std::string& exported, const std::string& name,
                 const std::string& column);

}  // namespace lockstep::tools
