// Runs tests and reports their findings, whatever happens to the process that runs them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/testing/verdict.hpp"
#include "tools/course/paths.hpp"
#include "tools/course/process.hpp"
#include "tools/course/record.hpp"

namespace lockstep::tools {

struct JudgeOptions {
  std::string backend = "sim";
  int processes = 4;                   ///< MPI and NCCL
  std::vector<std::string> arguments;  ///< for the test program: --ranks 3 --size 7 …
  double timeout_seconds = 60;
  std::uint64_t memory_bytes = memory_of_tests();    ///< on the simulator
  std::function<void(std::string_view)> on_line;     ///< gets what the tests printed, once they ended; may be empty
  std::function<void(const std::string&)> on_still;  ///< gets what runs, in words, now and then; may be empty
  std::function<void(const Exercise&)> on_judging;   ///< before an exercise that is only needed is judged; may be empty
  bool again = false;                                ///< runs the tests also where nothing has changed since they ran
};

/// Findings of the tests under `ids`: a row for each id that has tests. A crash or a time-out is the verdict of the id
/// whose test was running; the others are run on their own.
std::vector<Judgement> run_tests(const Paths& paths, const std::filesystem::path& program,
                                 const std::vector<std::string>& ids, JudgeOptions options);

/// An exercise for which the reference stands in.
struct Borrowed {
  std::string id;
  std::string verdict;  ///< on the learner's own answer
};
/// "21.2 21.3 (yours: NOT IMPLEMENTED), 22.4 (yours: FAIL)".
std::string to_string(const std::vector<Borrowed>& borrowed);

/// The verdict on one exercise: its parts' rows, its own, and the needs it borrowed.
struct Judged {
  Exercise exercise;
  std::vector<Judgement> parts;    ///< those that were tested
  Judgement whole;                 ///< of the exercise
  std::vector<Borrowed> borrowed;  ///< its needs
  bool printed = false;            ///< the tests, or the answer, anything
  bool remembered = false;         ///< from an earlier run of the same program
};

enum class Needs {
  borrow,     ///< the student's own where it passes, else the reference
  mine_only,  ///< always the student's own
};

/// The exercises of which the learner's answers are linked, and those that are borrowed.
struct Choice {
  std::vector<std::string> mine;  ///< ids
  std::vector<Borrowed> borrowed;
};

class Judge {
 public:
  Judge(const Paths& paths, JudgeOptions options, Needs needs)
      : paths_(paths), options_(std::move(options)), needs_(needs) {}

  /// The student's answer. `part` (may be empty) restricts it to one part.
  Judged mine(const Exercise& exercise, const std::string& part = "");
  /// The reference's answer, from the week's program.
  Judged reference(const Exercise& exercise, const std::string& part = "");
  /// Decides whose answer to each of `exercises` is linked from now on by targets with chosen.ID. The caller holds the
  /// lock on these choices, which stand in the tree, until those targets are built.
  Choice choose(const std::vector<Exercise>& exercises);

 private:
  struct Linked {
    std::vector<Borrowed> borrowed;
    Built built;
    std::optional<Basis> basis;  ///< of the program; nothing where a file was saved while it was built
  };
  Linked link(const Exercise& exercise, const std::filesystem::path& program);
  Linked link_once(const Exercise& exercise, const std::filesystem::path& program);
  std::vector<Exercise> compiled_anew(const Exercise& exercise);
  void forget(const Exercise& exercise);
  Judged judge_linked(const Exercise& exercise, const std::string& part, const Linked& linked,
                      const std::filesystem::path& program);
  Judgement current_verdict(const Exercise& exercise);
  Basis basis_of(const Exercise& exercise);
  Judged judge(const Exercise& exercise, const std::string& part, const std::filesystem::path& program);
  bool keeps_verdicts() const;

  const Paths& paths_;
  JudgeOptions options_;
  Needs needs_;
  std::map<std::string, Judgement> known_;  ///< of this command
  std::optional<Inputs> inputs_;
  std::unique_ptr<Judge> plain_;  ///< judges needs, whatever backend or size was asked for
};

}  // namespace lockstep::tools
