// Names that course systems give to what students hand in, and which of a student's files counts.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::tools {

/// The parts of a downloaded file's name: Canvas's NAME_LATE_USER_UPLOAD_FILE (LATE if it is, and FILE-1 if it was
/// handed in again), or Moodle's NAME_PARTICIPANT_assignsubmission_file_, and onlinetext_ for what was typed.
struct Downloaded {
  std::string student;  ///< "kimlee_1234", the same for all that one student hands in
  std::string number;   ///< "1234": by which the course system knows the student
  std::string upload;   ///< of Canvas: the larger, the later; "": Moodle, which keeps one
  bool late = false;    ///< Canvas says so
  bool typed = false;   ///< Moodle's text
};
/// Reads a name that a course system gave; none where neither did.
std::optional<Downloaded> read_download(const std::filesystem::path& submission);

/// One student's files.
struct HandedIn {
  std::string newest;              ///< which counts
  std::vector<std::string> older;  ///< earlier ones of the same student
  std::string typed = {};          ///< text that the student typed into Moodle in addition to the files; "": nothing
};
/// Canvas's archives of one student together, where the first of them stands, and Moodle's text with the files;
/// everything else on its own.
std::vector<HandedIn> newest_of_each(const std::vector<std::string>& submissions);

}  // namespace lockstep::tools
