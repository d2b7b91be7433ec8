// The findings of ./lab grade, and how they are written for others.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::tools {

/// One part of an exercise, or an exercise without parts.
struct GradedRow {
  std::string id, title;
  int points = 0, most = 0;
  std::string verdict;  ///< in words; points are `most` for PASS, less where it is slow (Performance), else 0
  std::string reason;   ///< why there are none
  std::string may_be;   ///< where it was not submitted: the file that may be meant, at another place or of another name
  double seconds = 0;
  double virtual_seconds = 0;   ///< of all its tests' runs
  std::optional<double> times;  ///< the reference's, where points depend on them
};

/// In the order of a course: 21.2 before 21.10, and the parts of an exercise before its whole.
bool is_before(const std::string& id, const std::string& other);

/// Why there are no points, on one line: the report's first sentence. "" for PASS, and for what was not submitted
/// unless another file may be meant.
std::string first_sentence(const GradedRow& row);

/// The same, with the values behind a sentence that ends its line: "found 0.444, expected 0.5556".
std::string sentence_with_values(const GradedRow& row);

/// Beginning of a remark that names a submission's own tests and headers.
inline constexpr const char* kIgnored = "Ignored, differs from ours: ";

/// A message to several parts, such as those of one file that is rejected.
struct Said {
  std::string ids;  ///< "21.2a, 21.2b, 21.2"
  std::string verdict, why;
};
/// The verdict and first sentence of all rows that do not pass, each once, in the order of the rows.
std::vector<Said> said_once(const std::vector<GradedRow>& rows);

struct Grading {
  std::vector<GradedRow> rows;
  std::string remarks;                              ///< on the whole submission, for the student
  std::vector<std::string> look_at;                 ///< in the answers, for a person who grades: "21.2: line 3 …"
  std::string setting;                              ///< what was unusual about how it was graded; for instructors only
  bool graded = true;                               ///< else nothing could be judged, and the remarks say why
  double seconds = 0;                               ///< without the build of the suite
  std::uint64_t seed = 0;                           ///< of the tests' inputs; for instructors only
  std::map<std::string, std::string> fingerprints;  ///< of the answers, by exercise (similar.hpp)
  std::map<std::string, std::string> files;         ///< by exercise: "ddp.cpp HASH" of files that are not the skeleton

  int points() const;
  int most() const;
};

struct GradeOptions;
struct Paths;

/// Differences of this repository from its commit, apart from the answers in labs/: grades are then nobody else's.
std::string uncommitted(const Paths& paths);

/// Sentences on these differences, and on what is not confined; empty where all is as usual.
std::string setting_of(const std::string& uncommitted, const GradeOptions& options);

/// Configures the build with the tests of `options.tests`, or without any. Throws Error(usage) where they are not what
/// the course's hidden parts want, or the reference does not pass them.
void prepare_hidden_tests(const Paths& paths, const GradeOptions& options);

class Heartbeat;

/// Judges one submission. Throws nothing: where it cannot be judged, the remarks say why.
Grading grade_one(const Paths& paths, const GradeOptions& options, const std::string& submission, Heartbeat& heartbeat);

/// Gradescope's results.json: gradescope-autograders.readthedocs.io, "Autograder Specifications". `visibility`:
/// "visible", "hidden", "after_due_date" or "after_published", of every test. Throws Error(usage) where the file cannot
/// be written.
void write_results(const std::filesystem::path& file, const Grading& grading, std::string_view visibility);

/// Reads what such a file has of a grading: the rows without their seconds, what to look at, and the fingerprints.
/// Throws if it is not such a file.
Grading read_results(const std::filesystem::path& file);

/// JUnit's XML: a test suite, and in it a test case a row. Throws like write_results.
void write_junit(const std::filesystem::path& file, const Grading& grading);

}  // namespace lockstep::tools
