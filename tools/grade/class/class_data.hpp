// A class's results: those that ./lab grade wrote for many submissions, read again, with their times.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/course/course.hpp"
#include "tools/grade/grade.hpp"
#include "tools/grade/similar.hpp"

namespace lockstep::tools {

struct ClassRow {
  std::string name;  ///< of the submission; chosen by its author
  std::string file;  ///< that was graded, without its ending; "": the name
  bool graded = true;
  std::string remarks;                       ///< on the whole, and why it was not graded
  std::vector<GradedRow> parts;              ///< as they were graded
  std::vector<std::string> look_at;          ///< in its answers, for a person: "21.2: line 3 …"
  std::string setting;                       ///< what was unusual about how it was graded
  std::string seed;                          ///< of its tests' inputs: not for students
  Answers answers;                           ///< their fingerprints
  std::map<std::string, std::string> files;  ///< by exercise: "ddp.cpp HASH" of files that are not the skeleton
  std::optional<std::int64_t> submitted;
  double extension_days = 0;
  std::int64_t late = 0;  ///< seconds after the deadline, or after the student's own
  int grace_left = 0;     ///< days late that cost nothing, before this deadline
  int grace_used = 0;     ///< of these, for this one
  double lost_share = 0;  ///< of the points, for the other days

  int points() const;
  int most() const;
  /// The points that are left, to a hundredth.
  double counted() const;
};

/// The cost of lateness.
struct LatePolicy {
  double percent_per_day = 0;  ///< begun
  int grace_days = 0;          ///< of everybody, in a term
};

struct ClassData {
  std::vector<ClassRow> rows;               ///< by name
  std::vector<std::string> not_graded_yet;  ///< what ./lab grade has still to do, or was interrupted before
  std::optional<std::int64_t> deadline;
  std::vector<std::pair<std::string, std::string>> unknown;  ///< names of a CSV that have no results, and what it says
  LatePolicy policy;
};

/// The results in `folder`: summary.json, and NAME.json of each submission. One whose results cannot be read has a row
/// that says so. Throws Error(usage) where there is no summary.
ClassData read_class(const std::filesystem::path& folder);

/// Counts what passed by the points of `course`, instead of those it was graded by, and leaves out what `course` does
/// not grade.
void count_anew(ClassData& data, const Course& course);

/// Gives some a later deadline, by so many days, from a CSV with `submission` and `days`. Throws like add_times, which
/// comes after it.
void add_extensions(ClassData& data, const std::string& csv, const std::string& name);

/// Says what lateness costs. `earlier`: the CSVs of the class's earlier deadlines, and their names; the grace days that
/// they say were used are gone. Throws like add_times, which comes before it.
void add_policy(ClassData& data, const LatePolicy& policy,
                const std::vector<std::pair<std::string, std::string>>& earlier);

/// Adds when each was handed in, from a CSV with a line of titles, `submission` and `time` among them. Throws
/// Error(usage) where it has not these columns, or a time is none.
void add_times(ClassData& data, const std::string& csv, const std::string& name, std::int64_t deadline);

/// Names that the CSVs have and the results have not, each once.
std::vector<std::string> without_results(const ClassData& data);

/// Submissions of which the CSV of times has none, where there is a deadline: they count as in time.
std::vector<std::string> without_time(const ClassData& data);

/// Seconds since 1970 of "2026-11-20T23:59", ":30" behind it or not, and Z, +01:00 or nothing (UTC). A blank does for
/// the T, and may stand before the zone. Throws Error(usage).
std::int64_t parse_time(std::string_view text);

/// "2 h 5 min", "3 d 1 h".
std::string describe_delay(std::int64_t seconds);

/// Counts of how a part went.
struct PartCount {
  std::string id, title;
  int most = 0;
  int passed = 0, failed = 0, missing = 0;  ///< missing: not submitted, or not written yet
  int submitted() const { return passed + failed; }
  std::string commonest;  ///< of the failures' first sentences, numbers aside
  int of_these = 0;       ///< how many say so
};

/// Counts for every part that was graded, in the order of the course.
std::vector<PartCount> count_parts(const ClassData& data);

/// A file that several submissions have, byte for byte, and their names.
struct SharedFile {
  std::string file;
  std::vector<std::string> names;
};
/// In the order of exercises. Skeletons are not among them.
std::vector<SharedFile> identical_files(const ClassData& data);

/// Numbers of submissions that have 0 to under 10 % of the points, …, 90 to 100 %.
std::vector<int> distribution(const ClassData& data);

/// Reasons for a person to look at it: it was not judged, or rejected; each reason once.
std::vector<std::string> doubts_of(const ClassRow& row);

}  // namespace lockstep::tools
