// labs/course.json, read: the weeks, their exercises and parts.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::tools {

/// The share of a part's points for the virtual time of its runs, compared to the reference's: all of them up to
/// `full_at` times as long, none from `none_at` times on, and in between their share, in whole points.
struct Performance {
  int points = 0;
  double full_at = 1, none_at = 2;
  /// Points, of `points`, for an answer that takes so many times as long.
  int at(double times) const;
};

struct Part {
  std::string id;  ///< "21.2a"
  std::string title;
  int points = 0;
  std::vector<std::string> hints;          ///< level 1 first
  bool hidden = false;                     ///< judged by tests that students do not have (./lab grade --tests)
  std::optional<Performance> performance;  ///< where an instructor's file asks for it
};

/// A value that a learner predicts before it is measured: `field`, times `factor` in `unit`, of the first row that has
/// what `where` asks for, in the results of ./lab `run`. The formula's answer is the row's field predicted_FIELD, if
/// any.
struct Question {
  std::string ask, unit, run, field;
  std::string rule;  ///< the formula behind the answer, and its convention; shown after it, "" if there is none
  double factor = 1;
  std::vector<std::pair<std::string, std::string>> where;  ///< field, value
};

/// The course's minutes are for somebody who knows the field; who is new to it needs so many times as long.
constexpr int kTimesIfNew = 2;

struct Exercise {
  std::string id;    ///< "21.2"
  std::string name;  ///< of its files: "ring_all_reduce"
  std::string title;
  int week = 0;
  std::string folder;  ///< below labs/ and solutions/: "week21_data_parallel"
  bool core = true;
  bool graded = true;
  bool early = false;  ///< its page has it before others of its week that have smaller numbers
  int minutes = 0;
  int reference_lines = 0;
  int points = 0;
  std::vector<std::string> needs;            ///< ids of exercises that this one's answer or tests call
  std::vector<std::string> only_tests_need;  ///< those that the answer does not
  std::vector<Part> parts;
  std::vector<std::string> hints;
  std::vector<Question> questions;
  std::optional<Performance> performance;  ///< of its tests that belong to no part

  /// Its points; 0 where it is not graded.
  int counted_points() const { return graded ? points : 0; }
  /// The page that it is on, in its week's folder.
  const char* page() const { return core ? "README.md" : "extras.md"; }
  /// Its own id and those of its parts: what its tests are filed under.
  std::vector<std::string> ids() const;
  /// Points of a part. For the exercise's own id, of its tests that belong to no part: what the parts leave.
  int points_of(std::string_view row) const;
  std::optional<Performance> performance_of(std::string_view row) const;
  /// Points of a row that passes; `times` as long as the reference, where that was measured.
  int points_for_passing(std::string_view row, std::optional<double> times) const;
};

/// A run with a planted fault that is to be found: ./lab drill ID.
struct Drill {
  std::string id;
  std::string title;
  bool core = true;
  int minutes = 0;
};

struct Week {
  int number = 0;
  std::string folder;
  std::string title;
  std::vector<Drill> drills;
  std::vector<Exercise> exercises;
};

/// Exercises that a command line names, and for "21.2a" the one part of the one exercise.
struct Selection {
  std::vector<Exercise> exercises;
  std::string part;  ///< empty: all parts
};

/// 21, 22 and 23 for "21-23", with the hyphen of a keyboard or the dash of a text; 21 for "21"; none for a word that is
/// neither. Throws Error(usage) where the first week is after the last.
std::vector<int> weeks_in(std::string_view word);

class Course {
 public:
  /// Throws Error(usage) where the file is missing, no JSON, or lacks a field; where an id is there twice, or an
  /// exercise needs itself, directly or not, or needs an id that is no exercise.
  static Course read(const std::filesystem::path& file);
  /// The same of a file's text; `name` is what messages call it.
  static Course parse(const std::string& text, const std::string& name);

  /// Points, minutes and more from an instructor's file, {"21.2": {"points": 30, "core": false}, "21.2a": {"points":
  /// 12, "performance": {"points": 3, "none_at": 2}}, "21.2h": {"hidden": true, "title": "Uneven links", "points": 5}}.
  /// Hidden parts come on top of the exercise's points. Throws Error(usage) where an id or a field is unknown, or parts
  /// have more points than their exercise.
  void change(const std::string& text, const std::string& name);
  /// The texts that changed it; "" where it is as it was read.
  const std::string& changes() const { return changes_; }

  const std::vector<Week>& weeks() const { return weeks_; }
  /// "21" (a week), "21-23" (several), "21:core" or "21:extra" (its core or extra exercises; "core": those of all
  /// weeks), "21.2" or "ring" (an exercise), "21.2a" (a part), several weeks and exercises with commas, or ""
  /// (everything). In the course's order. Throws Error(usage) with the nearest known id where there is none.
  Selection select(std::string_view what) const;
  const Exercise& exercise(std::string_view id) const;
  /// The id of the exercise whose name is `word`, begins with it or has it in it: "ring" for ring_all_reduce. `word`
  /// itself where there is none. Of several, the one that is of the core; else Error(usage) with their names.
  std::string id_of(std::string_view word) const;
  /// The exercises that `id` needs, or that answers to these call, in an order in which each comes after its own needs.
  std::vector<Exercise> all_needs(std::string_view id) const;

 private:
  void check() const;

  std::vector<Week> weeks_;
  std::string changes_;
};

}  // namespace lockstep::tools
