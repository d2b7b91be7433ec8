// The verdict on a program that holds an answer: its tests run confined, and only what they say under a seal counts.
// What passes is judged once more, from the values and ledgers of its runs, in a process that never held an answer.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/course/paths.hpp"
#include "tools/grade/grade.hpp"
#include "tools/grade/grade_run.hpp"

namespace lockstep::tools {

inline constexpr const char* kNoVerdict = "NO VERDICT";

/// At most so many lines of a text, and then "… 829 more lines".
std::string first_lines(const std::string& text, std::size_t most);

/// The number of tests in each suite of a week: "Lab21_2a" → 3. From the reference's program, which is built and holds
/// no student's code. Throws Error(usage) if it cannot say.
std::map<std::string, int> count_tests(const Paths& paths, int week);

/// `text` as a student reads it: without the folders of this computer, in which the suite, answers being compiled and
/// `submission`, where one is given, lie.
std::string without_folders(const Paths& paths, std::string text, const std::filesystem::path& submission = {});

class AnswerJudge {
 public:
  /// Asks the references' programs, which hold no student's code, what tests there are. `seed` draws their inputs.
  /// Throws Error(usage) where a program is missing.
  AnswerJudge(const Paths& paths, std::uint64_t seed, const std::vector<Exercise>& exercises);

  /// The number of tests of an exercise's part, or under its own id of the whole.
  int tests_of(const Exercise& exercise, const std::string& id) const;

  /// The virtual time of the reference's runs of these. Throws Error(usage) where it has none that could be compared.
  double reference_seconds(const Exercise& exercise, const std::string& id) const;

  /// Runs these in `program`, in a process and a folder of their own, for so many seconds. Throws Error(usage) where
  /// nothing can be said. May be called from several threads.
  GradedRow part(const Exercise& exercise, const std::string& id, const std::filesystem::path& program,
                 double seconds) const;

  /// A reason as its student reads it: without the seed, which may be told later, and without the folders of this
  /// computer.
  std::string for_student(std::string text) const;

 private:
  /// The tests of a part in `program`, confined to `folder`, with `more` options.
  Confined tests_in(const std::filesystem::path& program, const std::string& id, const std::filesystem::path& folder,
                    const std::vector<std::string>& more) const;
  /// Judges what passed in `row`, from the outcomes that its runs have handed over.
  void judge_apart(const Exercise& exercise, const std::string& id, const std::filesystem::path& outcomes,
                   double seconds, GradedRow& row) const;

  const Paths& paths_;
  std::string seed_;
  std::map<int, std::map<std::string, int>> tests_;  // by week and suite
};

}  // namespace lockstep::tools
