#include "tools/grade/grade_judge.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>

#include "common/error.hpp"
#include "common/support/text/counted.hpp"
#include "common/testing/verdict.hpp"
#include "tools/course/judge.hpp"
#include "tools/course/process.hpp"
#include "tools/course/sayings.hpp"

namespace lockstep::tools {

namespace fs = std::filesystem;
using testing::Judgement;

std::map<std::string, int> count_tests(const Paths& paths, int week) {
  std::map<std::string, int> tests;
  std::string suite;
  Command list{.arguments = {paths.program(fmt::format("reference.week{}_sim", week)).string(), "--gtest_list_tests"},
               .folder = {},
               .timeout_seconds = 60,
               .on_line = {}};
  list.on_line = [&](std::string_view line) {
    if (line.ends_with('.')) suite = line.substr(0, line.size() - 1);
    if (line.starts_with("  ")) ++tests[suite];
  };
  const std::string what = fmt::format("listing week {}'s tests", week);
  if (!run_uninterrupted(list, what).ok())
    throw Error(Verdict::usage, fmt::format("week {}'s tests cannot be listed", week));
  return tests;
}

namespace {

constexpr std::size_t kMostPrinted = 20;  // lines

Judgement spoken(const std::string& id, const fs::path& words) {
  constexpr std::uint64_t most = std::uint64_t{4} << 20;
  if (!fs::is_regular_file(fs::symlink_status(words))) throw Error(Verdict::usage, "there is no file of verdicts");
  if (fs::file_size(words) > most)
    throw Error(Verdict::usage, fmt::format("its messages have more than {} bytes: what does it throw?", most));
  for (const Judgement& row : testing::read_judgements(words)) {
    if (row.id == id) return row;
  }
  throw Error(Verdict::usage, "the file of verdicts has no entry for " + id);
}

/// A line for each score of an open task. They are words: worth a place on the scoreboard, and no points.
std::string scores_of(const Judgement& judgement) {
  std::string text;
  for (const std::string& note : judgement.notes)
    if (testing::score_in(note)) text += note + "\n";
  return text;
}

bool is_of(const Exercise& exercise, const std::string& id) {
  const std::vector<std::string> ids = exercise.ids();
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

/// Takes what a program said of itself while it ran out of what it printed. These are its own words, which an answer
/// may have written: they explain, and decide nothing.
Sayings take_sayings(const fs::path& program, ConfinedEnd& end) {
  Sayings said(program, {});
  std::string rest;
  for (const std::string& line : lines_of(end.output))
    if (const auto kept = said.take(line)) rest.append(*kept).append("\n");
  end.output = rest;
  return said;
}

/// " with 3 ranks and 7 elements per rank at ring_all_reduce.cpp:20 (f). Why", as far as the program says so, and how
/// to see it again.
std::string how_it_died(const Sayings& said, const fs::path& program, const Exercise& exercise, const std::string& id) {
  std::string place;
  if (const std::vector<std::string> command = said.command_for_place(); !command.empty()) {
    const Scratch folder;
    const ConfinedEnd end =
        run_confined({.arguments = command, .folder = folder.path(), .rules = Rules::reader, .may_read = {program}});
    place = Sayings::place_in(lines_of(end.output), exercise.name + ".cpp");
  }
  return fmt::format("{}{}{}{}.{}{}\nreplay: ./lab check {}{}{}", said.the_case().empty() ? "" : " ", said.the_case(),
                     place.empty() ? "" : " at ", place, said.cause().empty() ? "" : " ", said.cause(), id,
                     said.options().empty() ? "" : " ", said.options());
}

int signal_of(const ConfinedEnd& end) { return end.exit_code > 128 ? end.exit_code - 128 : 0; }

bool ran_out_of_time(const ConfinedEnd& end) { return end.timed_out || signal_of(end) == SIGXCPU; }

/// Says how tests ended that did not end by themselves; "" for others. `seconds`: their limit.
std::string how_they_were_ended(const ConfinedEnd& end, double seconds) {
  if (ran_out_of_time(end)) return fmt::format("its tests were still running after {:.0f} s", seconds);
  if (end.printed_too_much) return "its tests printed without end";
  if (end.wrote_too_much) return "its tests wrote more files than they need";
  const int signal = signal_of(end);
  return signal == 0 ? "" : fmt::format("its tests were killed by signal {} ({})", signal, strsignal(signal));
}

/// PASS only if everything says so: the program's end, the seal and the counts under it, and the verdict's words.
/// The words alone are worth nothing; a student's code could have written them.
GradedRow verdict(const Exercise& exercise, const std::string& id, const ConfinedEnd& end, const fs::path& words,
                  double seconds, int expected, const Sayings& sayings, const fs::path& program) {
  GradedRow row;
  std::string printed =
      end.output.empty() ? "" : "\nIt printed:\n" + indented(first_lines(end.output, kMostPrinted), "  ");
  auto no_verdict = [&](std::string why) {
    row.verdict = kNoVerdict, row.reason = why + printed;
    return row;
  };
  const std::string ended = how_they_were_ended(end, seconds);
  if (ran_out_of_time(end)) {
    row.verdict = to_string(Verdict::timeout);
    row.reason = ended;
    if (!sayings.the_case().empty()) row.reason += " " + sayings.the_case();
    if (!sayings.last_call().empty()) row.reason += ": " + sayings.last_call();
    row.reason += printed;
    return row;
  }
  if (end.printed_too_much || end.wrote_too_much) return no_verdict(ended);
  if (!ended.empty()) {
    row.verdict = to_string(Verdict::crash);
    row.reason = ended + how_it_died(sayings, program, exercise, id) + printed;
    return row;
  }
  if (!end.sealed) return no_verdict(fmt::format("{} (exit code {})", end.without_seal, end.exit_code));
  Judgement said = spoken(id, words);
  const std::string counts = fmt::format("passed {} failed 0 skipped 0 virtual ", expected);
  bool all = expected > 0 && end.under_seal.starts_with(counts) && end.exit_code == 0;
  if (all) row.virtual_seconds = std::stod(end.under_seal.substr(counts.size()));
  if (said.ok() != all) {
    return no_verdict(fmt::format("its output says {}, but the tests: {} (exit code {}; there are {} tests)",
                                  said.verdict, end.under_seal, end.exit_code, expected));
  }
  const std::string blocked = "BLOCKED BY ";
  if (said.verdict.starts_with(blocked) && !is_of(exercise, said.verdict.substr(blocked.size()))) {
    // Not by what it needs, which is the reference's.
    row.verdict = to_string(Verdict::not_implemented);
    row.reason = fmt::format("{}: it throws what the skeleton of another exercise throws: {}", said.test, said.message);
    return row;
  }
  row.verdict = said.verdict, row.reason = said.ok() ? scores_of(said) : said.test + ": " + said.message + printed;
  return row;
}

/// Virtual seconds of all runs that a program's tests have judged, by its report.
double virtual_seconds_in(const fs::path& report) {
  const std::string text = read_text(report), name = "<property name=\"virtual_seconds\" value=\"";
  double seconds = 0;
  for (auto at = text.find(name); at != text.npos; at = text.find(name, at + 1))
    seconds += std::stod(text.substr(at + name.size(), 40));
  return seconds;
}

/// Each `told`, and `more` characters behind it.
void replace_all(std::string& text, const std::string& told, const std::string& instead, std::size_t more = 0) {
  for (std::size_t at = 0; (at = text.find(told, at)) != text.npos; at += instead.size())
    text.replace(at, told.size() + more, instead);
}

}  // namespace

std::string first_lines(const std::string& text, std::size_t most) {
  const std::vector<std::string> lines = lines_of(text);
  if (lines.size() <= most) return text;
  return fmt::format("{}\n… {}\n", fmt::join(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(most), "\n"),
                     counted(lines.size() - most, "more line"));
}

std::string without_folders(const Paths& paths, std::string text, const fs::path& submission) {
  const fs::path handed_in = submission.empty() ? fs::path() : fs::absolute(submission).parent_path();
  for (const fs::path& folder : {paths.build, paths.source, handed_in})
    if (!folder.empty()) replace_all(text, folder.string() + "/", "");
  replace_all(text, Scratch::prefix(), "", Scratch::kDrawn + 1);
  return text;
}

AnswerJudge::AnswerJudge(const Paths& paths, std::uint64_t seed, const std::vector<Exercise>& exercises)
    : paths_(paths), seed_(std::to_string(seed)) {
  for (const Exercise& e : exercises)
    if (tests_.count(e.week) == 0) tests_[e.week] = count_tests(paths, e.week);
}

int AnswerJudge::tests_of(const Exercise& exercise, const std::string& id) const {
  const auto& of_week = tests_.at(exercise.week);
  const auto counted = of_week.find(testing::suite_of_id(id));
  return counted == of_week.end() ? 0 : counted->second;
}

double AnswerJudge::reference_seconds(const Exercise& exercise, const std::string& id) const {
  const Scratch folder;
  const fs::path words = folder.path() / "report.xml";
  Command command{.arguments = {paths_.program(fmt::format("reference.week{}_sim", exercise.week)).string(),
                                fmt::format("--gtest_filter={}.*", testing::suite_of_id(id)), "--seed", seed_,
                                "--gtest_output=xml:" + words.string()},
                  .timeout_seconds = 600,
                  .on_line = [](std::string_view) {}};
  if (!run_uninterrupted(command, "timing the reference of " + id).ok())
    throw Error(Verdict::usage, "the reference does not pass the tests of " + id);
  const double seconds = virtual_seconds_in(words);
  if (!(seconds > 0))
    throw Error(Verdict::usage,
                fmt::format("{}: performance: its tests run nothing whose virtual time could be compared", id));
  return seconds;
}

Confined AnswerJudge::tests_in(const fs::path& program, const std::string& id, const fs::path& folder,
                               const std::vector<std::string>& more) const {
  Confined command{
      .arguments = {program.string(), fmt::format("--gtest_filter={}.*", testing::suite_of_id(id)), "--seed", seed_},
      .folder = folder,
      .may_read = {program, paths_.source / "bench" / "machines", paths_.source / "data"}};
  command.arguments.insert(command.arguments.end(), more.begin(), more.end());
  return command;
}

void AnswerJudge::judge_apart(const Exercise& exercise, const std::string& id, const fs::path& outcomes, double seconds,
                              GradedRow& row) const {
  const Scratch folder;
  const fs::path words = folder.path() / "verdict.json", report = folder.path() / "report.xml";
  const fs::path own = folder.path() / "outcomes";
  const fs::path program = paths_.program(fmt::format("reference.week{}_sim", exercise.week));
  write_text(own, "");  // it stays so where nothing ran
  if (fs::is_regular_file(fs::symlink_status(outcomes))) fs::rename(outcomes, own);
  Confined command =
      tests_in(program, id, folder.path(),
               {"--outcomes-of", own.string(), "--verdict", words.string(), "--gtest_output=xml:" + report.string()});
  command.rules = Rules::reader;
  command.limits.wall_seconds = std::max(command.limits.wall_seconds, seconds);
  command.limits.cpu_seconds = std::max(command.limits.cpu_seconds, static_cast<std::uint64_t>(std::ceil(seconds)));
  const ConfinedEnd end = run_confined(command);
  const Judgement said = fs::exists(words) ? spoken(id, words) : Judgement{};
  if (end.exit_code == 0 && said.ok() && said.passed == tests_of(exercise, id)) {
    row.virtual_seconds = virtual_seconds_in(report), row.reason = scores_of(said);
    return;
  }
  const std::string ended = how_they_were_ended(end, command.limits.wall_seconds);
  row.verdict = kNoVerdict;
  row.reason = "its tests pass in its own process, but not when judged from the outcomes that it handed over: " +
               (ended.empty() ? said.message + "\n" + end.output : ended);
}

GradedRow AnswerJudge::part(const Exercise& exercise, const std::string& id, const fs::path& program,
                            double seconds) const {
  const Scratch folder;
  const fs::path words = folder.path() / "verdict.json", outcomes = folder.path() / "outcomes";
  Confined command = tests_in(program, id, folder.path(),
                              {"--verdict", words.string(), "--outcomes-to", outcomes.string(), "--say-what-runs"});
  command.limits.file_bytes = command.limits.folder_bytes;  // 25.2 hands over 100 MB
  command.limits.wall_seconds = seconds;
  command.limits.cpu_seconds = static_cast<std::uint64_t>(std::ceil(seconds));
  const auto begin = std::chrono::steady_clock::now();
  ConfinedEnd end = run_confined(command);
  const Sayings sayings = take_sayings(program, end);
  GradedRow row = verdict(exercise, id, end, words, seconds, tests_of(exercise, id), sayings, program);
  if (row.verdict == to_string(Verdict::pass)) judge_apart(exercise, id, outcomes, seconds, row);
  row.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return row;
}

std::string AnswerJudge::for_student(std::string text) const {
  replace_all(text, "--seed " + seed_, "--seed SEED");
  return without_folders(paths_, std::move(text));
}

}  // namespace lockstep::tools
