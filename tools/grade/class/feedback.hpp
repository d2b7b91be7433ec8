// A page for each student, to be sent: verdicts, messages, points, and where to continue. It has no seed, and nothing
// of the reference but the hints of the first level.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/course/course.hpp"
#include "tools/grade/class/class_data.hpp"

namespace lockstep::tools {

/// The file of each submission's page, "anna.html", by which a course system knows whose it is; in the order of
/// `data.rows`. Whatever submissions are called, these are names in a folder, and no two of them are equal, even
/// ignoring case.
std::vector<std::string> feedback_files(const ClassData& data);

/// HTML.
std::string feedback_page(const ClassRow& row, const Course& course);

/// Pages of earlier runs in a folder, by the names of their files.
struct EarlierPages {
  std::vector<std::string> removed;  ///< of a submission that has another page now
  std::vector<std::string> left;     ///< of a submission that is not in the results
};

/// All pages into `folder`, and removes a submission's page under a name that its file had before. Throws Error(usage)
/// where they cannot be written.
EarlierPages write_feedback(const ClassData& data, const Course& course, const std::filesystem::path& folder);

}  // namespace lockstep::tools
