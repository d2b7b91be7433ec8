// ./lab check, and the line on the student's answers that ends every ctest.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>
#include <utility>

#include "common/error.hpp"
#include "common/support/text/columns.hpp"
#include "common/support/text/counted.hpp"
#include "common/support/text/files.hpp"
#include "tools/course/answer_language.hpp"
#include "tools/course/commands.hpp"
#include "tools/course/compiler_error.hpp"
#include "tools/course/deeds.hpp"
#include "tools/course/drill.hpp"
#include "tools/course/handed_out.hpp"
#include "tools/course/judge.hpp"
#include "tools/course/mine.hpp"
#include "tools/course/predict.hpp"
#include "tools/course/printed.hpp"
#include "tools/course/process.hpp"
#include "tools/course/record.hpp"
#include "tools/course/scores.hpp"
#include "tools/course/states.hpp"
#include "tools/course/status_line.hpp"

namespace lockstep::tools {
namespace {

/// The test program's arguments, without the filter.
std::vector<std::string> arguments_of(const CheckOptions& options) {
  std::vector<std::string> arguments;
  if (options.ranks) arguments.insert(arguments.end(), {"--ranks", std::to_string(*options.ranks)});
  if (options.size) arguments.insert(arguments.end(), {"--size", std::to_string(*options.size)});
  if (options.perturb) arguments.insert(arguments.end(), {"--perturb", std::to_string(*options.perturb)});
  if (options.seed) arguments.insert(arguments.end(), {"--seed", std::to_string(*options.seed)});
  if (options.trace || !options.trace_folder.empty()) arguments.push_back("--trace");
  if (!options.trace_folder.empty()) arguments.push_back(options.trace_folder);
  return arguments;
}

std::string coloured(const std::string& verdict) {
  Style s = style();
  int severity = testing::severity(verdict);
  const std::string& colour = severity == 0 ? s.good : severity == 4 ? s.bad : s.open;
  return colour + verdict + s.off;
}

/// `together`: how many of the row's tests are of no single part. `only`: the part that was asked for, "" for all.
void print_row(const std::string& indent, const std::string& title, const Judgement& row, int together = 0,
               const std::string& only = "") {
  const std::string label = label_of_check(indent, row.id, title);
  std::string tests;
  if (row.ok()) tests = fmt::format("  {}, {:.2f} s", counted(row.passed, "test"), row.seconds);
  if (row.ok() && together > 0) tests += fmt::format("; {} of all parts together", together);
  if (row.ok() && !only.empty()) tests += fmt::format("; of {} only", only);
  if (row.ok() && row.skipped > 0) tests += fmt::format("; {} skipped: {}", row.skipped, row.left_out);
  fmt::print("{} {}{}{}{}\n", label, coloured(row.verdict), style().faint, tests, style().off);
}

void print_table(const Paths& paths, const Judged& judged, const std::string& part_asked_for) {
  int of_parts = 0;
  for (const Judgement& row : judged.parts) of_parts += row.passed;
  print_row("", judged.exercise.title, judged.whole, judged.parts.empty() ? 0 : judged.whole.passed - of_parts,
            part_asked_for);
  for (const Judgement& row : judged.parts) {
    auto part = std::find_if(judged.exercise.parts.begin(), judged.exercise.parts.end(),
                             [&](const Part& p) { return p.id == row.id; });
    print_row("  ", part == judged.exercise.parts.end() ? "" : part->title, row);
  }
  const std::string borrowed =
      whose_are_the_references(paths, judged.borrowed, paths.course.all_needs(judged.exercise.id));
  if (!borrowed.empty()) fmt::print("  borrowed from the reference: {}\n", borrowed);
  if (judged.remembered)
    fmt::print("  {}nothing has changed since these tests ran{}{}\n", style().faint,
               seen_at_once() ? "; --again runs them again" : "", style().off);
  std::fflush(stdout);
}

/// Warns of what ./lab grade rejects or does not see, so that nobody learns it from a grade.
void warn_of_grading(const Paths& paths, const HandedOut& handed_out, const Exercise& exercise) {
  const std::filesystem::path answer = paths.answer(exercise);
  if (!std::filesystem::exists(answer)) return;
  const auto warn = [](const std::string& words) {
    fmt::print("  {}warning:{} {}\n", style().open, style().off, words);
  };
  const auto outside = outside_the_language(read_text(answer));
  if (outside) warn(fmt::format("grading rejects {}.cpp: {}", exercise.name, outside->sentence()));
  for (const std::string& words : handed_out.differences(exercise))
    if (!outside || !words.starts_with(outside->what)) warn(words);
}

/// Prints the compiler's warnings about the current answer, which CTest would not show.
void print_warnings(const Paths& paths, const Exercise& exercise) {
  const std::string log = read_text(answers_object(paths, exercise).string() + ".warnings");
  for (const std::string& warning : warnings_in(log, paths.answer(exercise).string()))
    fmt::print("  {}the compiler warns:{} {}\n", style().open, style().off, warning);
}

/// Prints measurements for the handout's tables, but only if all tests passed: a wrong answer's numbers mislead.
void print_notes(const Judged& judged) {
  if (!judged.whole.ok()) return;
  std::vector<Judgement> rows = judged.parts;
  rows.push_back(judged.whole);
  std::set<std::string> told;
  for (const Judgement& row : rows)
    for (const std::string& line : row.notes)
      if (told.insert(line).second) fmt::print("  {}measured:{} {}\n", style().faint, style().off, line);
}

/// False where the verdict is about the file and not about a test of it.
bool about_a_test(const Judgement& row) {
  return testing::severity(row.verdict) == 4 && row.verdict != to_string(Verdict::does_not_compile);
}

/// Prints each error with its hint, once per part or, without parts, for the exercise. For an exercise that is not
/// begun, prints where to begin.
void print_explanation(const Paths& paths, const Judged& judged) {
  std::vector<Judgement> rows = judged.parts;
  rows.push_back(judged.whole);
  std::vector<std::string> told;
  for (const Judgement& row : rows) {
    bool known = std::find(told.begin(), told.end(), row.message) != told.end();
    if (testing::severity(row.verdict) < 3 || row.message.empty() || known) continue;
    told.push_back(row.message);
    std::string message = indented(row.message, "  ");
    if (isatty(STDOUT_FILENO)) message = wrapped_lines(message, terminal_columns(STDOUT_FILENO));
    fmt::print("\n{} {}{}\n{}", row.id, coloured(row.verdict), about_a_test(row) ? " in " + row.test : "", message);
    if (about_a_test(row) && !testing::out_of_memory(row.verdict, row.message))
      fmt::print("  a hint: ./lab hint {}\n", row.id);
  }
  if (judged.whole.verdict == to_string(Verdict::not_implemented))
    fmt::print("  {}\n  a hint: ./lab hint {}\n", where_to_work(paths, judged.exercise), judged.exercise.id);
}

/// The time of an exercise begins where it is asked for, and ends once its verdict is that it passes.
std::string keep_time(const Paths& paths, bool asked, const Exercise& exercise) {
  const bool passes = state_of(paths, exercise).passes;
  if (asked && !passes) start_time(paths, exercise.id);
  const auto time = own_time(read_deeds(paths), exercise.id);
  if (!time || !time->running) return "";
  if (!passes) return asked ? fmt::format("  your time for {} runs until it passes\n", exercise.id) : "";
  end_time(paths, exercise.id);
  return fmt::format("  your time: {}; the estimate is {} minutes, and {} for a newcomer\n",
                     in_words(OwnTime{.minutes = time->minutes}), exercise.minutes, kTimesIfNew * exercise.minutes);
}

JudgeOptions judge_options_of(const CheckOptions& options) {
  JudgeOptions judge{.backend = options.backend, .arguments = arguments_of(options)};
  judge.again = options.again;
  judge.processes = options.ranks.value_or(options.backend == "nccl" ? gpus_here() : 4);
  if (has_processes(options.backend)) check_processes({.backend = options.backend, .processes = judge.processes});
  const bool many = options.ranks.value_or(0) > 256;
  judge.timeout_seconds = options.timeout_seconds.value_or(many ? 240 : 60);
  if (many) judge.memory_bytes = 0;  // each rank has a stack
  return judge;
}

int debug(const Paths& paths, const CheckOptions& options, const Selection& selection) {
  if (find_program("gdb").empty()) throw Error(Verdict::usage, "gdb is not installed: sudo apt-get install gdb");
  if (options.backend != "sim" || selection.exercises.size() != 1) {
    throw Error(Verdict::usage,
                "--debug needs a single exercise on the simulator, where all ranks are in one process.");
  }
  const Exercise& exercise = selection.exercises[0];
  std::string program =
      options.solution ? fmt::format("reference.week{}_sim", exercise.week) : fmt::format("mine.{}_sim", exercise.id);
  Built built = build_targets(paths, {program}, exercise.id);
  if (!built.ok) throw Error(Verdict::usage, built.log);
  std::string id = selection.part.empty() ? exercise.id + "*" : selection.part;
  // It stops where an error is thrown: on the failing rank, with its stack above.
  std::vector<std::string> command{"gdb", "-q", "-ex", "catch throw", "-ex", "run", "--args"};
  command.push_back(paths.program(program).string());
  command.push_back("--gtest_filter=" + testing::suite_of_id(id) + ".*");
  for (const std::string& argument : arguments_of(options)) command.push_back(argument);
  become(command);
}

void print_next(const Paths& paths, const Exercise& passed) {
  if (const auto drill = next_drill(paths)) fmt::print("next: {}\n", describe_next(*drill));
  if (const auto next = next_exercise(paths, passed)) fmt::print("next: {}\n", describe_next(*next));
}

}  // namespace

int check(const Paths& paths, const CheckOptions& options) {
  check_backend(paths, options.backend);
  Selection selection = paths.course.select(options.what);
  if (options.debug) return debug(paths, options, selection);
  if (options.time && selection.exercises.size() != 1)
    throw Error(Verdict::usage, "--time is for one exercise: ./lab check 21.2 --time");
  if (!options.json.empty()) make_folders_of(options.json), check_writable(options.json);

  JudgeOptions judge_options = judge_options_of(options);
  std::optional<HandedOut> handed_out;  // only answers are warned of
  if (!options.solution) handed_out.emplace(paths);
  Printed printed(options.trace);
  judge_options.on_line = [&printed](std::string_view line) { printed.add(line); };
  if (seen_at_once()) judge_options.on_still = [](const std::string& text) { fmt::print(stderr, "{}\n", text); };
  Judge judge(paths, judge_options, options.borrow ? Needs::borrow : Needs::mine_only);
  std::vector<Judged> all;
  std::vector<std::string> later;  // for each: output of tests that explain the error, which comes before it
  for (const Exercise& exercise : selection.exercises) {
    if (!paths.has(exercise)) {
      fmt::print("{} SKIPPED ({})\n", label_of_check("", exercise.id, exercise.title), why_missing(paths));
      continue;
    }
    const bool again = !options.solution && state_of(paths, exercise).words.find("PASS") != std::string::npos;
    all.push_back(options.solution ? judge.reference(exercise, selection.part) : judge.mine(exercise, selection.part));
    print_table(paths, all.back(), selection.part);
    if (!options.solution) print_warnings(paths, exercise);
    if (handed_out && exercise.graded) warn_of_grading(paths, *handed_out, exercise);
    print_notes(all.back());
    later.push_back(printed.take());
    if (all.back().whole.ok()) fmt::print("{}", std::exchange(later.back(), ""));
    if (!options.solution && selection.part.empty() && all.back().whole.ok())
      fmt::print("{}{}", keep_scores(paths, all.back().whole), format_predictions(paths, exercise, again));
    if (!options.solution) fmt::print("{}", keep_time(paths, options.time, exercise));
  }
  if (!selection.part.empty() && !options.solution)
    fmt::print(
        "The result of a single part is not recorded. ./lab check {} runs the full test, and ./lab list shows its "
        "result.\n",
        selection.exercises.front().id);
  std::vector<Judgement> rows;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Judged& judged = all[i];
    print_explanation(paths, judged);
    fmt::print("{}", later[i]);
    rows.insert(rows.end(), judged.parts.begin(), judged.parts.end());
    rows.push_back(judged.whole);
  }
  if (!options.json.empty()) testing::write_judgements(options.json, rows);
  if (options.trace) fmt::print("./lab view TIMELINE animates one of these; ui.perfetto.dev opens it, too.\n");
  if (std::none_of(rows.begin(), rows.end(), [](const Judgement& j) { return j.passed + j.failed > 0; })) {
    fmt::print("Nothing was tested.\n");
    return 2;
  }
  const bool passed =
      std::all_of(rows.begin(), rows.end(), [](const Judgement& j) { return testing::severity(j.verdict) < 2; });
  if (passed && !options.solution && selection.part.empty() && options.backend == "sim")
    print_next(paths, selection.exercises.back());
  return passed ? 0 : 1;
}

int expect_not_implemented(const Paths& paths, const std::string& program) {
  std::vector<std::string> ids;
  for (const Exercise& exercise : paths.course.select("").exercises) {
    auto more = exercise.ids();
    ids.insert(ids.end(), more.begin(), more.end());
  }
  auto rows = run_tests(paths, program, ids, {.timeout_seconds = 30});
  bool fine = !rows.empty();
  for (const Judgement& row : rows) {
    fmt::print("{} {}\n", padded(row.id, 8), row.verdict);
    int severity = testing::severity(row.verdict);
    if (severity != 2 && severity != 3) fine = false, fmt::print("{}\n", row.message);
  }
  return fine ? 0 : 1;
}

int mine_summary(const Paths& paths) {
  // CTest's log so far. It gets its final name only at the very end.
  const std::filesystem::path log = paths.build / "Testing/Temporary/LastTest.log.tmp";
  if (std::filesystem::exists(log) && read_text(log).find("Testing: mine.") == std::string::npos)
    return 0;  // nothing, of which CTest says so itself, or the reference's alone
  int passed = 0, count = 0;
  std::string others;
  for (const Exercise& exercise : paths.course.select("").exercises) {
    if (!paths.has(exercise)) continue;
    ++count;
    const State state = state_of(paths, exercise);
    passed += state.passes;
    if (!state.passes && !state.untouched)
      others += fmt::format("{} {} {}", others.empty() ? "; begun:" : ",", exercise.id, state.words);
  }
  fmt::print("mine: {} of {} exercises pass{} (`./lab list` shows them)\n", passed, count, others);
  return 0;
}

}  // namespace lockstep::tools
