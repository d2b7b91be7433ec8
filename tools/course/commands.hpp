// The commands of ./lab, each a function from its options to an exit code: 0 fine, 1 something did not pass, 2 bad
// input. tools/lab_command.cpp reads the command line.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/course/paths.hpp"

namespace lockstep::tools {

struct CheckOptions {
  std::string what;  ///< "", "21", "21.2" or "21.2a"
  std::string backend = "sim";
  bool solution = false;  ///< the reference instead of the student's answer
  bool borrow = true;     ///< needs whose own answer does not pass, from the reference
  bool debug = false;     ///< in gdb
  std::optional<int> ranks;
  std::optional<std::uint64_t> size, perturb, seed;
  bool trace = false;
  std::string trace_folder;               ///< with a / at its end; empty: outputs/
  std::optional<double> timeout_seconds;  ///< else 60, and 240 for more than 256 ranks
  std::string json;                       ///< verdicts also into this file
  bool time = false;                      ///< from now on, until it passes, in outputs/course.log
  bool again = false;                     ///< also where nothing has changed since the tests ran
};
/// Judges and prints a table of verdicts, in words, with explanations of errors below it. 0 if all pass.
int check(const Paths& paths, const CheckOptions& options);

struct GradeOptions {
  std::vector<std::string> submissions;  ///< folders or archives
  std::string what;                      ///< weeks and exercises; empty: all
  std::string out;                       ///< of one: results.json; of several, a folder: grades
  std::string junit;
  std::string visibility = "visible";
  std::string tests;            ///< a folder of hidden tests, in addition to the suite's; empty: none
  std::string backend = "sim";  ///< else: what passes in the simulator must pass there too, and is not confined there
  double timeout_seconds = 60;  ///< of one part's tests
  double total_seconds = 1800;  ///< of a submission: what has not begun by then has no verdict
  /// Draws the tests' inputs and sizes. Without one, a secret one is drawn for all submissions; only the summary and
  /// the terminal tell it.
  std::optional<std::uint64_t> seed;
  int jobs = 1;            ///< exercises of a submission that are compiled and run at a time
  bool resume = false;     ///< of several: those that were graded as they are stay as they are
  bool hide_seed = false;  ///< what the terminal shows is for students
  std::string setting;     ///< not typed: setting_of(), which is asked once for all submissions
  /// False only to test what comes after such a look.
  bool check_language = true, look_at_objects = true;
};
/// Judges a submission, apart from everything else, and writes results.json. 0 where that was possible, whatever the
/// points. Where it was not, the file says so, with 0 points, and the exit code is 2. Several submissions each get a
/// file of their name in a folder, with a summary; one that cannot be judged does not stop the others.
int grade(const Paths& paths, const GradeOptions& options);

struct ClassOptions {
  std::string folder;              ///< of ./lab grade's results: grades
  std::string out;                 ///< the page; empty: class.html in the folder; a CSV of its name next to it
  std::string deadline, times;     ///< both or neither: a time, and a CSV with submission and time
  std::string extensions;          ///< a CSV with submission and days: so much later is the deadline of some
  double penalty = 0;              ///< per cent of the points for each day late that has begun
  int grace_days = 0;              ///< of everybody in a term, that cost nothing
  std::vector<std::string> spent;  ///< the class's CSVs of earlier weeks, with the grace days that were used
  std::string lms, column;         ///< a CSV that Canvas or Moodle exported, and the column for the points
  std::string feedback;            ///< a folder for a page for each student; empty: none
};
/// Writes a class's results on one page. 0.
int class_results(const Paths& paths, const ClassOptions& options);

struct HandoutOptions {
  std::string out;    ///< a .zip
  std::string weeks;  ///< "21-23"
  int hints = 3;      ///< levels of hints that are in it
};
/// The suite for students, without the reference's text, into an archive. 0.
int handout(const Paths& paths, const HandoutOptions& options);
/// True if this tree is a handout.
bool is_handout(const Paths& paths);
/// Why this tree has no tests of some exercise: "not in this handout".
std::string why_missing(const Paths& paths);
/// Throws Error(usage) with that, in a handout that lacks the exercise.
void need_handed_out(const Paths& paths, const Exercise& exercise);

/// Judges once, and again whenever an answer is saved: of `options.what`, or of any exercise. Ends with Ctrl-C.
[[noreturn]] int watch(const Paths& paths, CheckOptions options);

/// Prints the learner's progress and the next step.
int status(const Paths& paths);

/// The course's exercises with minutes, points, what became of them, and how long that took where it was asked for.
int list(const Paths& paths, const std::string& what);

/// The hints of an exercise or part, up to `level` (1 to 3).
int hint(const Paths& paths, const std::string& what, int level);

/// Prints the reference's answers, and keeps a record of it.
int reveal(const Paths& paths, const std::string& what);

/// From now on the reference stands in for the selected exercises, whatever became of the answers; or, `back`, no more.
int borrow(const Paths& paths, const std::string& what, bool back);

/// Fault drills: lists them, plays one, or judges an answer; see `kHelp` in drill.cpp.
int drill(const Paths& paths, const std::vector<std::string>& arguments);

/// Design cards: lists them, shows one, or judges an answer; see `kCardHelp` in card.cpp.
int card(const Paths& paths, const std::vector<std::string>& arguments);

/// Asks what the learner expects, then measures it and shows both. Earlier predictions stay unchanged.
int predict(const Paths& paths, const std::string& what);

/// Restores answers to what was handed out or, `hard`, to their interface alone. The old answers are kept in
/// outputs/answers.
int reset(const Paths& paths, const std::string& what, bool hard = false);

/// Writes skeletons of the selected exercises into the labs folder: only missing ones, unless `overwrite`. With
/// `compare` nothing is written and a difference is a failure.
int skeletons(const Paths& paths, const std::string& what, bool overwrite, bool compare);

/// Plants each mistake of tools/mutants in the reference and runs the exercise's tests: every one must be found,
/// with a message that points at it, and with `points` each that fails a test must cost some. Runs the other right
/// answers of tools/alternatives as well: every one must pass.
int mutants(const Paths& paths, const std::string& what, bool points = false);

/// Runs a program of tests and expects every verdict to be NOT IMPLEMENTED (or BLOCKED BY such a one).
int expect_not_implemented(const Paths& paths, const std::string& program);

/// For ./lab report --mine: `programs` under their own names in mine/programs, those that run exercises with the
/// learner's answers in them; the others must be built.
int link_mine(const Paths& paths, const std::vector<std::string>& programs, bool borrow);

/// One line on the student's answers, from the last verdicts, or that CTest, whose last command this is, ran no test.
int mine_summary(const Paths& paths);

/// The programs behind a command that forwards all it is given: "memory" → "bench_memory", "train" → "train".
std::string target_of(const std::string& command);

/// The backend that a program runs on, and the number of ranks it wants there; 0: its command line does not say.
struct Start {
  std::string backend = "sim";
  int ranks = 0;
};
/// Start of the program TARGET_BACKEND with these arguments. For train, the axes of the mesh and --config count, too.
Start start_of(const Paths& paths, const std::string& target, std::vector<std::string> arguments);

/// Throws Error(usage) where `target`, the program behind ./lab `command`, needs weeks that are not in this handout.
void need_in_handout(const Paths& paths, const std::string& target, const std::string& command);

/// Builds and becomes the program TARGET_BACKEND, handing over `arguments`: bench_all_reduce_sim, train_mpi. --backend
/// (default sim) is read from them and removed, as are --launcher, --nodes and --hostfile, which say how the processes
/// of MPI and NCCL start, as many as start_of() says (default: 2, or the GPUs). `around`: a command that runs it, in
/// each process.
int forward(const Paths& paths, const std::string& target, std::vector<std::string> arguments,
            const std::vector<std::string>& around = {});

/// ./lab why and ./lab diff: runs the program that reads traces. `why train …` first trains, with a trace.
int trace_tool(const Paths& paths, const std::string& command, std::vector<std::string> arguments);

/// Refuses a benchmark that this build has not.
void check_benchmark(const Paths& paths, const std::string& name);
/// The value of "--flag VALUE" or "--flag=VALUE", or `otherwise`; erased from `arguments` if `take`.
std::string option(std::vector<std::string>& arguments, const std::string& flag, const std::string& otherwise,
                   bool take);

/// The same as a part of a command: returns its exit code.
int run_forward(const Paths& paths, const std::string& target, std::vector<std::string> arguments);

/// Runs ./lab check with these arguments so that its traces come into `folder`, whose name ends with a /.
using CheckInto = std::function<int(const std::string& folder, const std::vector<std::string>& arguments)>;
/// ./lab view FILE | A B | check … | train … | bench … | pipeline …: a page that plays the run.
int view(const Paths& paths, std::vector<std::string> arguments, const CheckInto& check);

/// ./lab bench NAME …: forwards to bench_NAME; without a name, lists the benchmarks.
int bench(const Paths& paths, std::vector<std::string> arguments, const std::vector<std::string>& around = {});

/// ./lab calibrate …: forwards to bench_calibrate, on MPI where no --backend is named.
int calibrate(const Paths& paths, std::vector<std::string> arguments);

/// ./lab profile bench NAME …, or train …: the same under Nsight Systems, a report for each rank in outputs/profile/.
int profile(const Paths& paths, std::vector<std::string> arguments);

}  // namespace lockstep::tools
