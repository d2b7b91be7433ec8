// Runs tests and says what they found, whatever happens to the process that runs them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/testing/verdict.hpp"
#include "tools/course/paths.hpp"

namespace lockstep::tools {

using testing::Judgement;

struct JudgeOptions {
  std::string backend = "sim";
  int processes = 4;                   ///< MPI and NCCL
  std::vector<std::string> arguments;  ///< for the test program: --ranks 3 --size 7 …
  double timeout_seconds = 60;
  std::function<void(std::string_view)> on_line;  ///< gets what the tests printed, once they ended; may be empty
};

/// What the tests under `ids` found: a row for each id that has tests. A crash or a time-out is the verdict of the id
/// whose test was running; the others are run on their own.
std::vector<Judgement> run_tests(const Paths& paths, const std::filesystem::path& program,
                                 const std::vector<std::string>& ids, const JudgeOptions& options);

/// The verdict on one exercise: its rows and the exercise's own, and what it borrowed.
struct Judged {
  Exercise exercise;
  std::vector<Judgement> parts;       ///< those that were tested
  Judgement whole;                    ///< of the exercise
  std::vector<std::string> borrowed;  ///< "21.2 (yours: NOT IMPLEMENTED)": needs that the reference stood in for
};

/// How an answer's earlier exercises are linked.
enum class Needs {
  borrow,     ///< the student's own where it passes, else the reference
  mine_only,  ///< always the student's own
};

class Judge {
 public:
  Judge(const Paths& paths, JudgeOptions options, Needs needs)
      : paths_(paths), options_(std::move(options)), needs_(needs) {}

  /// The student's answer. `part` (may be empty) restricts it to one part.
  Judged mine(const Exercise& exercise, const std::string& part = "");
  /// The reference's answer, from the week's program.
  Judged reference(const Exercise& exercise, const std::string& part = "");

 private:
  struct Linked {
    std::vector<std::string> borrowed;
    Built built;
  };
  Linked link(const Exercise& exercise, const std::filesystem::path& program);
  Judged judge_linked(const Exercise& exercise, const std::string& part, const Linked& linked,
                      const std::filesystem::path& program);
  Judgement current_verdict(const Exercise& exercise);
  std::vector<std::string> link_needs(const Exercise& exercise);
  Judged judge(const Exercise& exercise, const std::string& part, const std::filesystem::path& program);
  bool records(const std::string& part) const;

  const Paths& paths_;
  JudgeOptions options_;
  Needs needs_;
};

/// The last recorded verdict of the student's answer; `stale`: the file has been edited since.
struct Record {
  Judgement judgement;
  bool stale = false;
};
std::optional<Record> last_record(const Paths& paths, const Exercise& exercise);

}  // namespace lockstep::tools
