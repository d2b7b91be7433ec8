#include "tools/course/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <sstream>

#include "common/error.hpp"
#include "tools/course/compiler_error.hpp"
#include "tools/course/deeds.hpp"
#include "tools/course/process.hpp"
#include "tools/course/sayings.hpp"

namespace lockstep::tools {
namespace {

namespace fs = std::filesystem;

std::string filter_of(const std::vector<std::string>& ids) {
  std::string filter = "--gtest_filter=";
  for (const std::string& id : ids) filter += testing::suite_of_id(id) + ".*:";
  return filter;
}

std::string last_lines(const std::string& text, int count) {
  auto at = text.size();
  while (count-- > 0 && at > 0) at = at < 2 ? 0 : text.rfind('\n', at - 2) + 1;
  return text.substr(at);
}

/// A program's output. `hang`: the runtime's report, before it ended processes that did not end by themselves (the
/// first word is the verdict, the indented lines are the ranks).
struct Output {
  std::string hang;
  std::string rest;
};

Output read_output(const std::string& text) {
  constexpr std::string_view kEnd = "The run did not stop on its own after that. The job is terminated.";
  if (text.find(kEnd) == text.npos) return {.hang = "", .rest = text};
  Output output;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool headline = line.starts_with("DEADLOCK: ") || line.starts_with("TIMEOUT: ");
    if (headline) output.hang.clear();
    if (headline || (!output.hang.empty() && line.starts_with("  rank ")))
      output.hang += line + "\n";
    else if (line != kEnd)
      output.rest += line + "\n";
  }
  return output;
}

void each_line(const std::string& text, const std::function<void(std::string_view)>& f) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) f(line);
}

/// Says how long the program ran by the clock, if that is much longer than the limit on its own time.
std::string on_a_busy_computer(const Ended& ended, const JudgeOptions& options) {
  if (ended.seconds < 1.5 * options.timeout_seconds + 10) return "";
  return fmt::format(" of its own time, {:.0f} s on this busy computer", ended.seconds);
}

/// Describes the failed check of the standard library, or "": it checks under _GLIBCXX_ASSERTIONS, as in answers.
std::string failed_check(const std::string& output) {
  const auto at = output.find(": Assertion '"), begin = output.rfind('\n', at) + 1;
  if (at == output.npos) return "";
  const std::string check = output.substr(begin, output.find('\n', at) - begin);
  if (check.find("operator[](") != check.npos) {
    for (const std::string container : {"std::vector", "std::array", "std::span", "std::deque"})
      if (check.find(container + "<") < check.find("operator[](")) return "an index beyond the end of a " + container;
    return "an index beyond the end";
  }
  if (check.find("empty()' failed") != check.npos) return "front(), back() or pop_back() of an empty container";
  if (check.find("_M_is_engaged()' failed") != check.npos) return "the value of an empty std::optional";
  return "";
}

/// The file of the exercise; "" where the course has none of that id.
std::string name_of_answer(const Course& course, const std::string& id) {
  for (const Week& week : course.weeks())
    for (const Exercise& e : week.exercises)
      if (e.id == testing::exercise_of(id)) return e.name + ".cpp";
  return "";
}

/// Why a signal ended it, in sentences, each with a space before it; "" where nobody knows.
std::string why_it_died(int signal, const std::string& cause, const std::string& printed) {
  if (!cause.empty()) return " " + cause;
  if (const std::string check = failed_check(printed); signal == SIGABRT && !check.empty())
    return " The standard library stopped it: " + check + ".";
  if (signal == SIGSEGV)
    return " Common causes: a pointer that is null or was never set, an index beyond the end of a std::span or an "
           "array, or a closure that captures by reference ([&]) a variable that no longer exists when it runs.";
  if (signal == SIGKILL) return " The system does so when memory runs out: does a loop add to a list without end?";
  return "";
}

/// Number of a program's last lines that an explanation shows.
constexpr int kLastLines = 12;

/// The verdict on a program that ended without one. The row of the test it was in says where. `answer`: the file.
Judgement broken_off(Judgement running, const Ended& ended, const Output& output, const JudgeOptions& options,
                     const Sayings& said_of_it, const std::string& answer) {
  std::string test = running.test + (running.message.empty() ? "" : " (" + running.message + ")");
  if (!said_of_it.the_case().empty()) test += " " + said_of_it.the_case();
  const std::string check =
      fmt::format("./lab check {}{}{}", running.id, said_of_it.options().empty() ? "" : " ", said_of_it.options());
  bool too_long = ended.timed_out || ended.exit_code == 124;
  int signal = ended.exit_code > 128 ? ended.exit_code - 128 : 0;  // also what a launcher says of a rank
  running.verdict = std::string(to_string(too_long ? Verdict::timeout : Verdict::crash));
  running.failed = 1;
  if (!output.hang.empty()) {
    running.verdict = output.hang.substr(0, output.hang.find(':'));
    running.message = fmt::format("{}:\n{}", test, output.hang);
    return running;
  }
  if (too_long) {
    running.message = fmt::format("{} was still running after {:.0f} s{}: is there an infinite loop?{}", test,
                                  options.timeout_seconds, on_a_busy_computer(ended, options),
                                  said_of_it.last_call().empty() ? "" : " In it, " + said_of_it.last_call() + ".");
    if (has_processes(options.backend)) {
      running.message += fmt::format(
          " Or a deadlock? Run ./lab check {} on the simulator: it says which ranks wait, and where.", running.id);
    } else {
      running.message += "\nreplay: " + check;
    }
  } else if (signal) {
    const std::string place = said_of_it.place_in(answer);
    running.message = fmt::format(
        "{} was killed by signal {} ({}){}.{}\nreplay: {}; with --debug, gdb stops there, and `bt` lists the calls "
        "that led there",
        test, signal, strsignal(signal), place.empty() ? "" : " at " + place,
        why_it_died(signal, said_of_it.cause(), output.rest), check);
  } else {
    running.message = fmt::format("{} ended the process with exit code {}", test, ended.exit_code);
  }
  std::string said = last_lines(output.rest, kLastLines);
  if (!said.empty()) running.message += "\nThe last lines it printed:\n" + indented(said, "  ");
  return running;
}

Judgement does_not_compile(const Paths& paths, const Exercise& exercise, const std::string& log) {
  // The student's file compiles, or has a stub; so this is the linker's complaint, or the suite's own trouble.
  Judgement judgement{.id = exercise.id, .verdict = std::string(to_string(Verdict::does_not_compile)), .failed = 1};
  auto duplicate = log.find("multiple definition of");
  auto line_end = duplicate == log.npos ? log.npos : log.find('\n', duplicate);
  if (duplicate != log.npos) {
    judgement.message =
        explain("error: " + log.substr(duplicate, line_end - duplicate), paths.answer(exercise).string());
  } else if (std::string undefined = explain_undefined(log, paths.answer(exercise).string()); !undefined.empty()) {
    judgement.message = std::move(undefined);
  } else if (const std::string file = file_of_first_error(log); !file.empty()) {
    const fs::path inside = fs::path(file).lexically_relative(paths.source);  // answers have the names of references
    judgement.message = fmt::format(
        "its tests cannot be built, because a given file, {}, does not compile: {}\n"
        "If you changed it or a header, undo that (`git diff` shows it).",
        inside.empty() || *inside.begin() == ".." ? file : inside.string(), explain(log, file));
  } else {
    judgement.message = "its tests cannot be built:\n" + indented(last_lines(log, 20), "  ");
  }
  return judgement;
}

/// The tests of the same id that ran before are counted in a row of their own, and the first that failed is explained.
void add_to_its_row(std::vector<Judgement>& found, Judgement broken) {
  if (!found.empty() && found.back().id == broken.id) {
    Judgement before = std::move(found.back());
    found.pop_back();
    broken.passed = before.passed, broken.failed += before.failed;
    if (testing::severity(before.verdict) >= testing::severity(broken.verdict))
      broken.verdict = before.verdict, broken.message = before.message, broken.test = before.test;
  }
  found.push_back(std::move(broken));
}

/// Seconds that what follows a test without an end may take: often it has the same loop.
constexpr double kAfterAHang = 20;

/// The tests of a whole exercise call the part that did not end: they would take as long once more.
void leave_out_whole(std::vector<Judgement>& rows, std::vector<std::string>& pending) {
  const std::string part = rows.back().id, whole = testing::exercise_of(part);
  if (whole == part || std::erase(pending, whole) == 0) return;
  rows.push_back({.id = whole, .verdict = fmt::format("SKIPPED ({} timed out)", part)});
}

}  // namespace

std::vector<Judgement> run_tests(const Paths& paths, const fs::path& program, const std::vector<std::string>& ids,
                                 JudgeOptions options) {
  const RunFolder folder(paths);
  const fs::path file = folder.path() / "verdicts.json";
  std::vector<std::string> pending = ids;
  std::vector<Judgement> rows;
  while (!pending.empty()) {
    fs::remove(file);
    std::string output;
    Command command{
        .arguments = launch(
            paths, program,
            {.backend = options.backend, .processes = options.processes, .timeout_seconds = options.timeout_seconds}),
        .folder = paths.source};
    command.arguments.insert(command.arguments.end(), {filter_of(pending), "--verdict", file.string()});
    command.arguments.insert(command.arguments.end(), options.arguments.begin(), options.arguments.end());
    // The launcher of processes has the same limit and ends its processes itself; ours is for a launcher that hangs.
    command.processes = has_processes(options.backend) ? options.processes : 1;
    command.timeout_seconds = options.timeout_seconds + (has_processes(options.backend) ? 10 : 0);
    Sayings sayings(program, [&](const std::string& still) {
      const std::vector<Judgement> rows = testing::read_judgements(file);
      if (options.on_still && !rows.empty()) options.on_still(rows.back().test + " is " + still);
    });
    if (options.backend == "sim") {
      command.arguments.emplace_back("--say-what-runs");
      command.memory_bytes = options.memory_bytes;
    }
    command.on_line = [&](std::string_view line) {
      if (const auto rest = sayings.take(line)) output.append(*rest).append("\n");
    };
    Ended ended = run_command(command);
    if (ended.interrupted()) throw Interrupted("interrupted: these tests did not finish.");
    const Output read = read_output(output);
    if (ended.exit_code == NoDevice::kExitCode) throw Error(Verdict::usage, output.substr(0, output.find('\n')));
    if (!fs::exists(file)) {
      throw Error(Verdict::usage,
                  fmt::format("{} ended before its first test:\n{}", program.filename().string(), output));
    }
    std::vector<Judgement> found = testing::read_judgements(file);
    bool broke_off = !found.empty() && found.back().verdict == "RUNNING", hung = false;
    if (options.on_line) {  // what an explanation shows is not shown twice
      const std::size_t shown = broke_off && read.hang.empty() ? last_lines(read.rest, kLastLines).size() : 0;
      each_line(read.rest.substr(0, read.rest.size() - shown), options.on_line);
    }
    if (broke_off) {
      const std::string answer = name_of_answer(paths.course, found.back().id);
      Judgement broken = broken_off(found.back(), ended, read, options, sayings, answer);
      hung = broken.verdict != to_string(Verdict::crash);
      found.pop_back();
      add_to_its_row(found, broken);
    }
    for (const Judgement& row : found) {
      rows.push_back(row);
      std::erase(pending, row.id);
    }
    if (!broke_off) break;
    if (!hung) continue;
    leave_out_whole(rows, pending);
    options.timeout_seconds = std::min(options.timeout_seconds, kAfterAHang);
  }
  return rows;
}

std::string to_string(const std::vector<Borrowed>& borrowed) {
  std::string text;
  for (std::size_t i = 0; i < borrowed.size(); ++i) {
    text += (text.empty() ? "" : borrowed[i].verdict == borrowed[i - 1].verdict ? " " : ", ") + borrowed[i].id;
    const bool last_of_its_kind = i + 1 == borrowed.size() || borrowed[i + 1].verdict != borrowed[i].verdict;
    if (last_of_its_kind) text += fmt::format(" (yours: {})", borrowed[i].verdict);
  }
  return text;
}

bool Judge::keeps_verdicts() const {
  return options_.backend == "sim" && options_.arguments.empty() && needs_ == Needs::borrow;
}

Judged Judge::judge(const Exercise& exercise, const std::string& part, const fs::path& program) {
  std::vector<std::string> ids = part.empty() ? exercise.ids() : std::vector<std::string>{part};
  Judged judged{.exercise = exercise, .parts = {}, .whole = {}, .borrowed = {}};
  JudgeOptions options = options_;
  options.on_line = [&](std::string_view line) {
    judged.printed = true;
    if (options_.on_line) options_.on_line(line);
  };
  for (const Judgement& row : testing::with_exercises(run_tests(paths_, program, ids, options))) {
    if (row.id == exercise.id) {
      judged.whole = row;
    } else {
      judged.parts.push_back(row);
    }
  }
  if (judged.whole.id.empty()) {
    judged.whole = {.id = exercise.id, .verdict = "SKIPPED (no test of it ran)"};
  }
  return judged;
}

/// The verdict on what the student's file says now, without its tests where it is known already.
Judgement Judge::current_verdict(const Exercise& exercise) {
  if (!keeps_verdicts()) {
    if (!plain_)
      plain_ = std::make_unique<Judge>(
          paths_, JudgeOptions{.timeout_seconds = options_.timeout_seconds, .on_judging = options_.on_judging},
          Needs::borrow);
    return plain_->current_verdict(exercise);
  }
  if (const auto known = known_.find(exercise.id); known != known_.end()) return known->second;
  Judgement verdict;
  if (is_untouched(paths_, exercise)) {
    verdict = {.id = exercise.id, .verdict = std::string(to_string(Verdict::not_implemented))};
  } else if (const auto kept = kept_verdict(paths_, exercise, basis_of(exercise))) {
    verdict = *kept;
  } else {
    const RunFolder folder(paths_);
    const fs::path program = folder.path() / fmt::format("mine.{}_sim", exercise.id);
    if (options_.on_judging) options_.on_judging(exercise);
    verdict = judge_linked(exercise, "", link(exercise, program), program).whole;
  }
  return known_[exercise.id] = verdict;
}

Basis Judge::basis_of(const Exercise& exercise) {
  std::set<std::string> mine;
  for (const Exercise& need : paths_.course.all_needs(exercise.id))
    if (paths_.has(need) && current_verdict(need).ok()) mine.insert(need.id);
  if (!inputs_) inputs_.emplace(paths_);
  return inputs_->of(exercise, mine);
}

Choice Judge::choose(const std::vector<Exercise>& exercises) {
  Choice choice;
  for (const Exercise& exercise : exercises) {
    if (!paths_.has(exercise)) continue;
    const bool set_aside = needs_ == Needs::borrow && is_borrowed(paths_, exercise.id);
    const bool mine = needs_ == Needs::mine_only || (!set_aside && current_verdict(exercise).ok());
    if (mine)
      choice.mine.push_back(exercise.id);
    else
      choice.borrowed.push_back({exercise.id, set_aside ? "set aside" : current_verdict(exercise).verdict});
    write_if_different(paths_.mine() / "use" / exercise.id, mine ? "mine\n" : "reference\n");
  }
  return choice;
}

/// The needs that were compiled again since they were judged although their own text is unchanged: an include changed.
std::vector<Exercise> Judge::compiled_anew(const Exercise& exercise) {
  std::vector<Exercise> anew;
  if (needs_ == Needs::mine_only) return anew;
  for (const Exercise& need : paths_.course.all_needs(exercise.id))
    if (paths_.has(need) && !is_untouched(paths_, need) && was_compiled_anew(paths_, need)) anew.push_back(need);
  return anew;
}

void Judge::forget(const Exercise& exercise) {
  known_.erase(exercise.id);
  forget_verdict(paths_, exercise);
  if (plain_) plain_->forget(exercise);
}

/// The student's program with what its needs have come to; `program` becomes a copy of its own. The caller holds the
/// lock on these choices, which stand in the tree.
Judge::Linked Judge::link(const Exercise& exercise, const fs::path& program) {
  for (;;) {
    Linked linked = link_once(exercise, program);
    const std::vector<Exercise> anew = linked.built.ok ? compiled_anew(exercise) : std::vector<Exercise>{};
    if (anew.empty()) return linked;
    for (const Exercise& need : anew) forget(need);
    fs::remove(program);
  }
}

Judge::Linked Judge::link_once(const Exercise& exercise, const fs::path& program) {
  Linked linked;
  const std::string target = program.filename().string();
  linked.borrowed = choose(paths_.course.all_needs(exercise.id)).borrowed;
  if (keeps_verdicts()) linked.basis = basis_of(exercise);
  linked.built = build_targets(paths_, {target}, exercise.id);
  if (linked.basis && basis_of(exercise) != *linked.basis) linked.basis.reset();
  if (linked.built.ok) fs::copy_file(paths_.program(target), program);
  return linked;
}

Judged Judge::judge_linked(const Exercise& exercise, const std::string& part, const Linked& linked,
                           const fs::path& program) {
  Judged judged{.exercise = exercise, .parts = {}, .whole = {}, .borrowed = {}};
  const std::string bytes = linked.basis ? fingerprint_of_file(program) : "";
  const bool may_remember = linked.basis && part.empty() && !options_.again;
  if (const auto kept = may_remember ? kept_findings(paths_, exercise, *linked.basis, bytes) : std::nullopt) {
    known_[exercise.id] = kept->whole;
    return {.exercise = exercise,
            .parts = kept->parts,
            .whole = kept->whole,
            .borrowed = linked.borrowed,
            .remembered = true};
  }
  if (linked.built.ok) {
    judged = judge(exercise, part, program);
  } else {
    judged.whole = does_not_compile(paths_, exercise, linked.built.log);
  }
  judged.borrowed = linked.borrowed;
  if (part.empty() && linked.basis) {
    keep_verdict(
        paths_, exercise,
        {judged.whole, judged.parts, bytes, fingerprint_of_file(answers_object(paths_, exercise)), judged.printed},
        *linked.basis);
    known_[exercise.id] = judged.whole;
  }
  return judged;
}

Judged Judge::mine(const Exercise& exercise, const std::string& part) {
  const RunFolder folder(paths_);
  const fs::path program = folder.path() / fmt::format("mine.{}_{}", exercise.id, options_.backend);
  const Linked linked = [&] {
    FolderLock lock(paths_.mine() / "use", "linking " + exercise.id);
    return link(exercise, program);
  }();
  return judge_linked(exercise, part, linked, program);
}

Judged Judge::reference(const Exercise& exercise, const std::string& part) {
  std::string target = fmt::format("reference.week{}_{}", exercise.week, options_.backend);
  need_built(paths_, {target}, fmt::format("the reference of week {}", exercise.week));
  return judge(exercise, part, paths_.program(target));
}

}  // namespace lockstep::tools
