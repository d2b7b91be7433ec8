// ./lab grade: points for a submission. Nothing of it but its named lab files is looked at, and they are compiled
// apart; tests, headers and the answers it needs are this repository's. What it cannot prove to be right is worth 0
// points.
#include "tools/grade/grade.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "common/error.hpp"
#include "common/support/text/columns.hpp"
#include "common/support/text/fnv.hpp"
#include "common/testing/verdict.hpp"
#include "tools/course/answer_language.hpp"
#include "tools/course/commands.hpp"
#include "tools/course/judge.hpp"
#include "tools/course/process.hpp"
#include "tools/course/skeleton.hpp"
#include "tools/grade/grade_compile.hpp"
#include "tools/grade/grade_judge.hpp"
#include "tools/grade/grade_run.hpp"
#include "tools/grade/grade_submission.hpp"
#include "tools/grade/heartbeat.hpp"
#include "tools/grade/similar.hpp"

namespace lockstep::tools {
namespace {

namespace fs = std::filesystem;
using testing::Judgement;

constexpr const char* kRefused = "REFUSED";
constexpr std::size_t kMostRemarked = 20;  // files
// A part that never ends has its whole time; the exercise's other parts are then likely to hang as well.
constexpr double kSecondsAfterAHang = 10;

/// what(0) to what(count − 1), so many at a time. Of what they throw, the first is thrown on once all have ended.
void at_a_time(int jobs, std::size_t count, const std::function<void(std::size_t)>& what) {
  std::atomic<std::size_t> next = 0;
  std::mutex throwing;
  std::exception_ptr thrown;
  const auto work = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) what(i);
    } catch (...) {
      const std::lock_guard lock(throwing);
      if (!thrown) thrown = std::current_exception();
      next = count;
    }
  };
  {
    std::vector<std::jthread> others;
    for (int job = 1; job < jobs && static_cast<std::size_t>(job) < count; ++job) others.emplace_back(work);
    work();
  }
  if (thrown) std::rethrow_exception(thrown);
}

Look look(const GradeOptions& options) {
  if (!options.look_at_objects) return Look::nothing;
  return options.check_language ? Look::everything : Look::beyond_language;
}

/// One submission, from its files to its points.
class Grader {
 public:
  Grader(const Paths& paths, const GradeOptions& options, std::string submission, Heartbeat& heartbeat)
      : paths_(paths),
        options_(options),
        heartbeat_(heartbeat),
        name_(std::move(submission)),
        compiler_(paths, look(options), std::clamp(options.timeout_seconds, 20.0, 60.0)) {
    const Selection selection = paths.course.select(options.what);
    part_ = selection.part;
    for (const Exercise& e : selection.exercises) {
      if (e.graded && paths.has(e)) exercises_.push_back(e);
    }
    if (exercises_.empty()) throw Error(Verdict::usage, fmt::format("nothing in {} is graded", options.what));
    check_backend(paths, options.backend);
    if (elsewhere() && !options.look_at_objects)
      throw Error(Verdict::usage,
                  "--backend runs answers unconfined, once they have been inspected, so it cannot be combined with "
                  "--without-look");
  }

  /// Waits for others that grade in this tree, and builds what all submissions share.
  void prepare() {
    lock_.emplace(root(), "grading " + name_, [this](std::string_view line) { wait(line); });
    heartbeat_.at("building the suite");
    build_the_suite();
  }

  /// Adds to `grading` row by row.
  void run(Grading& grading) {
    began_ = std::chrono::steady_clock::now();
    fs::create_directory(scratch_.path() / "unpacked");
    submission_ = read_submission(name_, paths_.course.select("").exercises, scratch_.path() / "unpacked");
    submission_.leave_out_given_files(paths_.source);
    heartbeat_.expect(2 * exercises_.size());  // each is compiled, and run
    grading.remarks = remarks(), grading.setting = options_.setting;
    for (const auto& [id, text] : submission_.answers)
      for (const Outside& found : worth_a_look(text))
        grading.look_at.push_back(fmt::format("{}: line {} {}", id, found.line, found.what));
    if (submission_.empty() && submission_.misplaced.empty())
      throw Error(Verdict::usage, "nothing in it is an answer. " + grading.remarks);
    take_fingerprints(grading);
    compile_the_answers();
    link_the_answers();
    judge_the_answers(grading);
  }

 private:
  fs::path root() const { return paths_.build / "grade"; }
  bool elsewhere() const { return options_.backend != "sim"; }
  std::string program(const Exercise& e) const { return fmt::format("graded.{}_sim", e.id); }

  /// Says at once, and as long as it takes, that another one grades in this tree.
  void wait(std::string_view line) {
    heartbeat_.at("waiting until another ./lab grade has ended");
    const auto quiet = heartbeat_.quiet();
    fmt::print(stderr, "{}\n", line);
  }

  void build_the_suite() {
    std::vector<std::string> targets{"lockstep_grade_seal", "lockstep_grade_start"};
    for (const Exercise& e : exercises_) {
      targets.push_back("tests." + e.id);
      std::string week = fmt::format("reference.week{}_sim", e.week);
      if (std::find(targets.begin(), targets.end(), week) == targets.end()) targets.push_back(week);
    }
    const Built built = heartbeat_.quiet_while([&] { return build_targets(paths_, targets, "the suite"); });
    if (!built.ok) throw Error(Verdict::usage, "the suite cannot be built:\n" + built.log);
    judge_.emplace(paths_, *options_.seed, exercises_);
    for (const Exercise& e : exercises_)
      for (const std::string& id : e.ids())
        if (e.performance_of(id) && (part_.empty() || part_ == id))
          reference_seconds_[id] = judge_->reference_seconds(e, id);
  }

  /// Takes each answer's fingerprints, so that ./lab class can compare those of different submissions, and of those
  /// that are begun the hash.
  void take_fingerprints(Grading& grading) const {
    std::set<std::string> api;
    for (const char* header : {"rank", "slice", "arithmetic", "chunk", "dtype"})
      api.merge(names_in(read_text(paths_.source / "common" / (std::string(header) + ".hpp"))));
    for (const Exercise& e : exercises_) {
      const auto answer = submission_.answers.find(e.id);
      if (answer == submission_.answers.end()) continue;
      std::set<std::string> names = names_in(read_text(paths_.source / "labs" / e.folder / (e.name + ".hpp")));
      names.insert(api.begin(), api.end());
      const std::string file = paths_.solution(e).string(), solution = read_text(file);
      grading.fingerprints[e.id] = to_text(fingerprints(answer->second, given_text(solution, file), names));
      if (answer->second != skeleton(solution, file))
        grading.files[e.id] = fmt::format("{}.cpp {:016x}", e.name, Fnv1a(answer->second).value());
    }
  }

  /// Each answer of the submission to an object, or to the reason why there is none.
  void compile_the_answers() {
    for (const Exercise& e : exercises_) {
      fs::remove(paths_.program(program(e)));
      if (submission_.answers.count(e.id)) compiled_[e.id] = {kNoVerdict, "it was not compiled"};
    }
    at_a_time(options_.jobs, exercises_.size(), [this](std::size_t i) {
      const auto answer = submission_.answers.find(exercises_[i].id);
      if (answer == submission_.answers.end()) return heartbeat_.step();
      const Heartbeat::Part part(heartbeat_, fmt::format("compiling {}", exercises_[i].id));
      compiled_.at(answer->first) = failing_closed<Compiled>([&] {
        need_time();
        const Scratch folder;
        return compiler_.compile(exercises_[i], answer->second, folder.path());
      });
      heartbeat_.step();
    });
  }

  /// Holds nothing of the submission but objects that were looked at.
  ConfinedEnd build(const std::vector<std::string>& programs) {
    FolderLock lock(paths_.mine(), "building the answers of " + name_);
    Confined command{.arguments = {"cmake", "--build", paths_.build.string(), "--target"}, .folder = paths_.source};
    command.arguments.insert(command.arguments.end(), programs.begin(), programs.end());
    command.arguments.insert(command.arguments.end(), {"--", "-k", "0"});
    command.rules = Rules::limits_only;
    command.limits.wall_seconds = 120.0 + 60.0 * static_cast<double>(programs.size());
    command.limits.file_bytes = std::uint64_t{1} << 30;
    return run_confined(command);
  }
  void link_the_answers() {
    std::vector<std::string> programs;
    for (const auto& [id, compiled] : compiled_)
      if (compiled.verdict.empty()) programs.push_back(program(paths_.course.exercise(id)));
    heartbeat_.at("linking its answers");
    if (!programs.empty()) build(programs);  // which of them are there says how it went
  }

  std::string remarks() const {
    std::string text;
    if (submission_.empty()) text += submission_.found_instead(exercises_);
    if (!submission_.opened.empty())
      text += fmt::format("The answers are those of {}, an archive in it.\n", submission_.opened);
    if (!submission_.archives.empty())
      text += fmt::format("These archives inside it were not opened: {}.\n", fmt::join(submission_.archives, ", "));
    if (submission_.empty() && submission_.is_download())
      text += "It looks like the download of a whole class: unpack it, and grade what is in it.\n";
    if (!submission_.misplaced.empty() && !(submission_.empty() && submission_.misplaced.size() == 1))
      text += fmt::format("These lab files are not in a place where they count: {}.\n",
                          submission_.where_they_belong(paths_.course));
    std::vector<std::string> others = submission_.ignored;
    std::erase_if(others, [this](const std::string& file) { return is_explained(file); });
    others.resize(std::min(others.size(), kMostRemarked));
    if (!others.empty() && !(submission_.empty() && submission_.ignored.size() == 1))
      text += fmt::format("These files are not lab files and were ignored: {}.\n", fmt::join(others, ", "));
    text += submission_.differing_remark(paths_.source);
    if (elsewhere()) text += fmt::format("What passed in the simulator ran on {} too.\n", options_.backend);
    return text;
  }

  /// True for a file that needs no remark: the reason of an exercise that was not submitted says how to rename it.
  bool is_explained(const std::string& file) const {
    return std::any_of(exercises_.begin(), exercises_.end(), [&](const Exercise& e) {
      return !submission_.empty() && !submission_.answers.count(e.id) && submission_.near_miss(e) == file;
    });
  }

  /// Why nothing of the exercise is run; the verdict is empty where it is.
  GradedRow not_run(const Exercise& e) {
    GradedRow row;
    if (auto refused = submission_.refused.find(e.id); refused != submission_.refused.end()) {
      row.verdict = kRefused, row.reason = refused->second;
    } else if (!submission_.answers.count(e.id)) {
      row.verdict = "NOT SUBMITTED", row.reason = submission_.why_missing(e), row.may_be = submission_.may_be(e);
    } else if (const Compiled& compiled = compiled_.at(e.id); !compiled.verdict.empty()) {
      const bool names_no_file = compiled.verdict == kRefused || compiled.reason.starts_with("line ");
      row.verdict = compiled.verdict;
      row.reason = names_no_file ? fmt::format("{}.cpp: {}", e.name, compiled.reason) : compiled.reason;
    } else if (!fs::exists(paths_.program(program(e)))) {
      row.verdict = to_string(Verdict::does_not_compile);
      row.reason = "its tests cannot be linked:\n" + build({program(e)}).output;
    }
    return row;
  }

  /// Several at a time, where they are processes of this computer; told in order, each as soon as those before it are.
  void judge_the_answers(Grading& grading) {
    std::vector<std::optional<std::vector<GradedRow>>> judged(exercises_.size());
    std::mutex telling;
    std::size_t told = 0;
    at_a_time(elsewhere() ? 1 : options_.jobs, exercises_.size(), [&](std::size_t i) {
      std::vector<GradedRow> rows = rows_of(exercises_[i]);
      heartbeat_.step();
      const std::lock_guard lock(telling);
      judged[i] = std::move(rows);
      const auto quiet = heartbeat_.quiet();
      for (; told < judged.size() && judged[told]; ++told)
        tell(*judged[told]), grading.rows.insert(grading.rows.end(), judged[told]->begin(), judged[told]->end());
    });
  }

  /// The rows of an exercise, each reason once. On a terminal a row is a line.
  static void tell(const std::vector<GradedRow>& rows) {
    constexpr std::size_t kOthers = 33, kTitle = 76;  // columns, with a verdict such as DOES NOT COMPILE
    const bool terminal = isatty(STDOUT_FILENO);
    const std::size_t wide = terminal ? terminal_columns(STDOUT_FILENO) : kOthers + kTitle;
    const std::size_t title = std::clamp<std::size_t>(wide, kOthers + 20, kOthers + kTitle) - kOthers;
    std::set<std::string> told;
    for (const GradedRow& row : rows) {
      fmt::print("{} {} {:>3}/{:<3} {}\n", padded(row.id, 6), fitted(row.title, title), row.points, row.most,
                 row.verdict);
      const std::string why = sentence_with_values(row);
      if (why.empty() || !told.insert(why).second) continue;
      fmt::print("{}\n", terminal ? wrapped_lines("       " + why, wide) : "       " + why);
    }
    std::fflush(stdout);
  }

  std::vector<GradedRow> rows_of(const Exercise& e) {
    // The tests of an exercise that has parts are about all of them together.
    const std::string title = e.parts.empty() ? e.title : fmt::format("All parts together ({})", e.title);
    const GradedRow whole{.id = e.id, .title = title, .most = e.points_of(e.id)};
    std::vector<GradedRow> rows;
    for (const Part& part : e.parts) rows.push_back({.id = part.id, .title = part.title, .most = part.points});
    if (whole.most > 0 || judge_->tests_of(e, e.id) > 0) rows.push_back(whole);
    if (!part_.empty()) std::erase_if(rows, [&](const GradedRow& row) { return row.id != part_; });
    GradedRow refusal = failing_closed([&] { return not_run(e); });
    double seconds = options_.timeout_seconds;
    for (GradedRow& row : rows) {
      const Heartbeat::Part part(heartbeat_, row.id);
      GradedRow found = refusal.verdict.empty() ? failing_closed([&] {
        need_time();
        return judge_->part(e, row.id, paths_.program(program(e)), seconds);
      })
                                                : refusal;
      if (found.verdict == to_string(Verdict::timeout)) seconds = std::min(seconds, kSecondsAfterAHang);
      if (elsewhere() && found.verdict == to_string(Verdict::pass))
        found = failing_closed([&] { return judge_elsewhere(e, row.id, found); });
      row.verdict = found.verdict, row.reason = judge_->for_student(found.reason), row.seconds = found.seconds;
      row.may_be = found.may_be;
      if (row.verdict == to_string(Verdict::pass)) award(e, found.virtual_seconds, row);
    }
    return rows;
  }

  /// The points of what passes, and where they depend on its virtual time, why there are no more.
  void award(const Exercise& e, double virtual_seconds, GradedRow& row) const {
    if (const auto reference = reference_seconds_.find(row.id); reference != reference_seconds_.end()) {
      row.times = virtual_seconds / reference->second;
      const Performance asked = *e.performance_of(row.id);
      row.reason += fmt::format("virtual time: {:.4g} times the reference's; {} of {} points for it\n", *row.times,
                                asked.at(*row.times), asked.points);
    }
    row.points = e.points_for_passing(row.id, row.times);
  }

  /// Throws Error(usage) where the submission has had its time.
  void need_time() const {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - began_;
    if (passed.count() > options_.total_seconds)
      throw Error(Verdict::usage,
                  fmt::format("this submission has had its {:.0f} s (--total)", options_.total_seconds));
  }

  template <class Found = GradedRow, class Do>
  static Found failing_closed(const Do& what) {
    try {
      return what();
    } catch (const Interrupted&) {
      throw;
    } catch (const std::exception& error) {
      return {.verdict = kNoVerdict, .reason = fmt::format("running its tests failed: {}", error.what())};
    }
  }

  /// The same tests on another backend. Its processes and drivers cannot be confined; nothing of the answer's object
  /// was refused, and the simulator's verdict stands under a seal.
  GradedRow judge_elsewhere(const Exercise& e, const std::string& id, const GradedRow& in_simulator) {
    const std::string name = fmt::format("graded.{}_{}", e.id, options_.backend);
    const ConfinedEnd end = build({name});
    if (end.exit_code != 0) throw Error(Verdict::usage, name + " cannot be built:\n" + end.output);
    JudgeOptions options{.backend = options_.backend,
                         .arguments = {"--seed", std::to_string(*options_.seed)},
                         .timeout_seconds = options_.timeout_seconds};
    if (options_.backend == "nccl") options.processes = gpus_here();
    GradedRow row = in_simulator;
    const std::vector<Judgement> rows = run_tests(paths_, paths_.program(name), {id}, options);
    if (rows.empty()) throw Error(Verdict::usage, fmt::format("no test of it ran on {}", options_.backend));
    // A test that only the simulator can judge is skipped elsewhere.
    if (rows.front().ok() || rows.front().verdict.starts_with("SKIPPED")) return row;
    row.verdict = rows.front().verdict;
    row.reason = fmt::format("it passes in the simulator, but on {}: {}: {}", options_.backend, rows.front().test,
                             rows.front().message);
    return row;
  }

  const Paths& paths_;
  const GradeOptions& options_;
  Heartbeat& heartbeat_;
  std::string name_;  // of the submission
  std::string part_;  // the only one; empty: all
  Scratch scratch_;
  std::optional<FolderLock> lock_;
  std::chrono::steady_clock::time_point began_;
  std::vector<Exercise> exercises_;
  Submission submission_;
  AnswerCompiler compiler_;
  std::map<std::string, Compiled> compiled_;         // by exercise
  std::optional<AnswerJudge> judge_;                 // once the suite is built
  std::map<std::string, double> reference_seconds_;  // virtual, by exercise or part, where points depend on them
};

}  // namespace

std::string uncommitted(const Paths& paths) {
  std::vector<std::string> answers;
  for (const Exercise& e : paths.course.select("").exercises)
    answers.push_back("labs/" + e.folder + "/" + e.name + ".cpp");
  std::string changed;
  if (find_program("git").empty() || !fs::exists(paths.source / ".git")) return "";
  Command status{
      .arguments = {"git", "status", "--porcelain", "--untracked-files=no"}, .folder = paths.source, .on_line = {}};
  status.on_line = [&](std::string_view line) {
    std::string file(line.substr(std::min<std::size_t>(3, line.size())));
    if (std::find(answers.begin(), answers.end(), file) == answers.end())
      changed += (changed.empty() ? "" : ", ") + file;
  };
  return run_command(status).ok() ? changed : "";  // git refuses another user's repository
}

std::string setting_of(const std::string& changed, const GradeOptions& options) {
  std::vector<std::string> all;
  if (!changed.empty()) all.push_back(fmt::format("The suite used for grading differs from its commit: {}.", changed));
  if (const std::string missing = missing_confinement(); !missing.empty())
    all.push_back(fmt::format("On this computer, {}.", missing));
  if (options.backend != "sim") all.push_back(fmt::format("On {}, answers are not confined.", options.backend));
  return fmt::format("{}", fmt::join(all, " "));
}

Grading grade_one(const Paths& paths, const GradeOptions& options, const std::string& submission,
                  Heartbeat& heartbeat) {
  auto begin = std::chrono::steady_clock::now();
  Grading grading;
  try {
    need_submission(submission);  // before minutes of building
    Grader grader(paths, options, submission, heartbeat);
    grader.prepare();
    begin = std::chrono::steady_clock::now();  // the first of a class would have the suite's minutes
    grader.run(grading);
  } catch (const Interrupted&) {
    throw;  // it has no row, and no other submission is begun
  } catch (const std::exception& error) {
    grading = {.rows = {},
               .remarks = "nothing was graded: " + without_folders(paths, error.what(), submission),
               .graded = false};
    const auto quiet = heartbeat.quiet();
    std::fflush(stdout);  // where both go into one file, what was printed before comes before
    if (!grading.remarks.ends_with('\n')) grading.remarks += '\n';  // others may follow
    fmt::print(stderr, "{}", grading.remarks);
  }
  grading.seed = *options.seed;
  grading.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return grading;
}

}  // namespace lockstep::tools
