// The results of many submissions: a row each with its points, every verdict and why, as summary.csv (for a
// spreadsheet) and summary.json.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tools/grade/grade.hpp"

namespace lockstep::tools {

struct SummaryRow {
  std::string submission;  ///< its name, by which it is known
  int points = 0, most = 0;
  double seconds = 0;
  std::string seed;
  bool graded = true;
  std::vector<std::pair<std::string, std::string>> verdicts;  ///< of each exercise and part
  std::string remarks, why;
  std::string file;  ///< that was graded, without its ending: what its student's feedback is called
  std::string of;    ///< what was graded, by which commit and how: a number; empty: nobody knows
};

SummaryRow summary_row(const std::string& name, const Grading& grading);

/// The rows of `folder`'s summary.json; none where there is no such file. Throws Error(usage) where it is no summary.
std::vector<SummaryRow> read_summary(const std::filesystem::path& folder);

/// Identifies what `submission` is now, and what would grade it: equal only if its files, the commit and the options
/// are; empty if that cannot be said, because the repository differs from its commit.
std::string fingerprint(const Paths& paths, const GradeOptions& options, const std::filesystem::path& submission);

/// `row` among the rows that are in `folder` already: in the place of the one of its name, else at the end. Both files
/// are written whole or not at all. Throws Error(usage) where they cannot be.
void join_summary(const std::filesystem::path& folder, const SummaryRow& row);

/// Writes into `folder`'s summary.json that these are about to be graded, in place of those of an earlier time.
void announce(const std::filesystem::path& folder, const std::vector<std::string>& names);

/// Submissions of the last announce() that have no row in `folder` yet.
std::vector<std::string> not_graded_yet(const std::filesystem::path& folder);

/// A field of a CSV: in quotes, on one line; what a spreadsheet would take for a formula is text.
std::string for_csv(const std::string& text);

/// A submission's file without its ending, as UTF-8: anna.tar.gz → anna.
std::string stem_of(const std::filesystem::path& submission);

/// The name of a submission in the results: its student's name, if a course system's file has it; else the file's, as
/// UTF-8 and without controls, short enough for a file's name, and unlike those in `taken`. handed-in/anna.zip → anna.
std::string name_for(const std::filesystem::path& submission, const std::vector<std::string>& taken);

}  // namespace lockstep::tools
