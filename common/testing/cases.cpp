#include "common/testing/cases.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <sstream>

#include "common/analysis/message_table.hpp"
#include "common/analysis/write_trace.hpp"
#include "common/runtime/trace/trace.hpp"
#include "common/support/text/counted.hpp"
#include "common/testing/drawn.hpp"
#include "common/testing/handed_over.hpp"
#include "common/testing/options.hpp"
#include "common/testing/verdict.hpp"
#include "common/testing/watch.hpp"

namespace lockstep::testing {

namespace {

constexpr std::size_t kTabledRanks = 8;  // nobody reads a table of every message of more

bool on_simulator() { return std::string_view(backend_name()) == "sim"; }

std::string exercise_id() {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  return test ? id_of_suite(test->test_suite_name()) : "";
}

RunOptions options_for(const Case& the_case, const CasePlan& plan, std::optional<std::uint64_t> perturb) {
  RunOptions options;
  options.ranks = the_case.ranks;
  options.threads = 1;  // the arrays are small
  options.machine.eager_bytes = 0;
  options.timeout_seconds = 10;  // the arrays are small
  options.trace = test_options().trace;
  constexpr int kDrawn = 16;  // nobody reads a thousand lines, and the file would have gigabytes
  if (the_case.ranks > 128) options.traced_ranks = kDrawn;
  options.perturb = perturb;
  if (plan.adjust) plan.adjust(the_case, options);
  return options;
}

/// True if there is no code to replay or to draw.
bool not_written(const Outcome& outcome) {
  return outcome.verdict == Verdict::not_implemented || outcome.verdict == Verdict::does_not_compile;
}

/// The options that ask for this case alone.
std::string options_of(const Case& the_case, std::optional<std::uint64_t> perturb) {
  const std::optional<std::uint64_t> seed = test_options().seed;
  return fmt::format("--ranks {} --size {}{}{}{}", the_case.ranks, the_case.size,
                     perturb ? fmt::format(" --perturb {}", *perturb) : "",
                     seed ? fmt::format(" --seed {}", *seed) : "",
                     on_simulator() ? "" : fmt::format(" --backend {}", backend_name()));
}

/// The commands that run this case again, first the one that shows it.
std::string replay(const Case& the_case, std::optional<std::uint64_t> perturb) {
  return fmt::format("see it: ./lab view {0}\nreplay: ./lab {0} --trace",
                     fmt::format("check {} {}", exercise_id(), options_of(the_case, perturb)));
}

/// "with 3 ranks and 7 elements per rank".
std::string words_of(const Case& the_case, const CasePlan& plan) {
  const std::string text = "with " + counted(static_cast<std::size_t>(the_case.ranks), "rank");
  if (!plan.which.empty()) return fmt::format("{}, {} {}", text, plan.which, the_case.size);
  return plan.unit.empty() ? text : fmt::format("{} and {}", text, counted(the_case.size, plan.unit));
}

/// Returns a chart and, for few ranks, the messages, unless queued work is perturbed. Tests that look at the same run
/// do not show it again.
std::string drawing(const Trace& trace, const std::string& title, bool perturbed) {
  const Trace drawn = analysis::without_set_up(trace);
  std::ostringstream chart;
  write_gantt_text(drawn, chart, 100);
  const std::string text =
      chart.str() + (trace.totals.size() <= kTabledRanks && !perturbed ? analysis::message_table(drawn) : "");
  static std::map<std::string, std::string> shown;  // in this program: the drawing, and the run that showed it
  const auto [known, fresh] = shown.try_emplace(text, title);
  if (!fresh) return fmt::format("{}: as in {}\n", title, known->second);
  const bool whole = drawn.events.size() == trace.events.size();
  return fmt::format("{}{}:\n{}", title, whole ? "" : ", after its set-up", text);
}

/// True if a case's chart is printed too: of many cases, those that failed.
bool is_drawn(const Outcome& outcome, const std::string& wrong) {
  const TestOptions& options = test_options();
  return options.ranks || options.size || !wrong.empty() || !outcome.passed();
}

/// Writes a file and a chart for each test and case; nothing if there is no code.
void write_trace(const Case& the_case, const Outcome& outcome, const std::string& wrong,
                 std::optional<std::uint64_t> perturb) {
  if (!test_options().trace || !is_judge() || not_written(outcome)) return;
  const std::string test = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  const std::string seed = perturb ? fmt::format("-perturb-{}", *perturb) : "";
  std::string file = test_options().trace_file;
  if (file.empty() || file.ends_with('/'))  // a folder
    file += fmt::format("{}trace-{}-{}-ranks-{}-size-{}{}.json", file.empty() ? "outputs/" : "", exercise_id(), test,
                        the_case.ranks, the_case.size, seed);
  const std::string title =
      fmt::format("{} {}, {} rank{}, size {}{}", exercise_id(), test, the_case.ranks, the_case.ranks == 1 ? "" : "s",
                  the_case.size, perturb ? fmt::format(", --perturb {}", *perturb) : "");
  const bool drawn = is_drawn(outcome, wrong);
  if (drawn) fmt::print("{}", drawing(outcome.trace, title, perturb.has_value()));
  try {
    std::error_code ignored;  // the write reports errors with the folder
    std::filesystem::create_directories(std::filesystem::path(file).parent_path(), ignored);
    Trace trace = outcome.trace;
    if (!wrong.empty()) trace.verdict = to_string(Verdict::fail), trace.message = wrong;
    lockstep::write_trace(trace, file, title);
    // ./lab view, which gives a folder, names its page instead.
    if (drawn && !test_options().trace_file.ends_with('/')) fmt::print("timeline: {}\n", file);
  } catch (const Error& error) {  // not rethrown: other processes would go to the next case without this one
    record_verdict(error.verdict(), error.what());
    ADD_FAILURE() << error.what();
  }
}

/// The message about a failed case.
std::string report(const Case& the_case, const CasePlan& plan, const Outcome& outcome, const std::string& wrong,
                   std::optional<std::uint64_t> perturb) {
  std::string text = words_of(the_case, plan);
  if (perturb)
    text += fmt::format(
        ", queued work run early or late (--perturb {}): the result depends on timing, so a wait is missing", *perturb);
  std::string seen = outcome.passed() ? wrong : outcome.message;
  const std::string cause = plan.cause ? plan.cause() : "";
  if (!cause.empty()) seen = fmt::format("{} Seen here: {}", cause, seen);
  return fmt::format("{}:\n{}\n{}", text, seen, replay(the_case, perturb));
}

/// Returns the error in a run that ended without one. A judge may throw its message; an error with another verdict ends
/// the test.
std::string judged(const Case& the_case, const Outcome& outcome, const CaseJudge& judge) {
  try {
    return judge(the_case, outcome);
  } catch (const Error& error) {
    if (error.verdict() != Verdict::fail) throw;
    return error.what();
  }
}

/// Adds to the virtual time of this test's runs, for ./lab grade (tools/grade/grade_seal.cpp).
void note_virtual_time(double seconds) {
  if (!on_simulator()) return;
  const auto& result = *::testing::UnitTest::GetInstance()->current_test_info()->result();
  for (int i = 0; i < result.test_property_count(); ++i)
    if (std::string_view(result.GetTestProperty(i).key()) == "virtual_seconds")
      seconds += std::stod(result.GetTestProperty(i).value());
  ::testing::Test::RecordProperty("virtual_seconds", fmt::format("{:.17g}", seconds));
}

/// Runs a case, or takes its outcome from the process that has the answer.
Outcome outcome_of(const Case& the_case, const RunOptions& options, const Program& program) {
  if (!test_options().outcomes_of.empty()) return handed_over(the_case, options.perturb);
  const OneOutcome whole;
  Outcome outcome = run(options, program);
  if (!test_options().outcomes_to.empty()) hand_over(the_case, options.perturb, outcome);
  return outcome;
}

/// Runs one case once; returns true if it passed.
bool passes(const Case& the_case, const CaseProgram& program, const CaseJudge& judge, const CasePlan& plan,
            std::optional<std::uint64_t> perturb, Location where) {
  const CaseThatRuns for_signals(words_of(the_case, plan), options_of(the_case, perturb));
  const Outcome outcome =
      outcome_of(the_case, options_for(the_case, plan, perturb), [&](Rank me) { return program(me, the_case); });
  const std::string wrong = outcome.passed() ? judged(the_case, outcome, judge) : "";
  const bool passed = outcome.passed() && wrong.empty();
  if (passed && !perturb) note_virtual_time(outcome.seconds);
  const bool only_case = test_options().ranks && test_options().size && !plan.together;
  if (!passed) {
    const std::string text = not_written(outcome) ? outcome.message : report(the_case, plan, outcome, wrong, perturb);
    record_verdict(outcome.passed() ? Verdict::fail : outcome.verdict, text);
    // On every process: a test that stops at its first failure stops on all of them, so that their runs stay the same.
    ADD_FAILURE_AT(where.file_name(), static_cast<int>(where.line())) << text;
  }
  if (!passed || only_case) write_trace(the_case, outcome, wrong, perturb);
  return passed;
}

/// Without streams besides main there is nothing to perturb.
std::vector<std::optional<std::uint64_t>> seeds_of(const CasePlan& plan) {
  if (test_options().perturb) return {test_options().perturb};
  if (!plan.queues || !on_simulator()) return {std::nullopt};
  return {std::nullopt, 1, 2, 3};
}

template <class Number>
void sort_once(std::vector<Number>& numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

/// Returns the requested one of a plan's numbers. With `any`, for the default sweep, it need not be among them.
template <class Number>
std::vector<Number> asked_of(std::vector<Number> numbers, std::optional<Number> asked, bool any) {
  sort_once(numbers);
  if (!asked) return numbers;
  const bool there = any || std::binary_search(numbers.begin(), numbers.end(), *asked);
  return there ? std::vector<Number>{*asked} : std::vector<Number>{};
}

bool sweeps_ranks(const CasePlan& plan) { return plan.ranks == CasePlan{}.ranks; }

bool sweeps_sizes(const CasePlan& plan) {
  using Sizes = std::vector<std::size_t> (*)(int);
  const Sizes* sizes = plan.sizes.target<Sizes>();
  return sizes && *sizes == &awkward_sizes;
}

std::vector<Case> cases_of(const CasePlan& plan, std::optional<int> ranks, std::optional<std::size_t> size) {
  std::vector<Case> cases;
  for (int p : asked_of(plan.ranks, ranks, sweeps_ranks(plan)))
    for (std::size_t n : asked_of(plan.sizes(p), size, sweeps_sizes(plan))) cases.push_back({p, n});
  return cases;
}

std::vector<Case> cases_asked_for(const CasePlan& plan) {
  if (plan.together) return cases_of(plan, {}, {});
  return cases_of(plan, test_options().ranks, test_options().size);
}

/// "1, 2, 4, 8". With fmt::join, all of fmt's templates for numbers would be compiled here.
template <class Number>
std::string listed(const std::vector<Number>& numbers) {
  std::string text;
  for (const Number number : numbers) text += fmt::format("{}{}", text.empty() ? "" : ", ", number);
  return text;
}

/// Explains why the test has no case for the request: "this test's ranks are 1, 2, 4, 8".
std::string why_no_case(const CasePlan& plan) {
  const std::optional<int> asked = test_options().ranks;
  std::vector<int> ranks = plan.ranks;
  sort_once(ranks);
  if (asked && asked_of(ranks, asked, sweeps_ranks(plan)).empty())
    return fmt::format("this test's ranks are {}", listed(ranks));
  std::vector<std::size_t> sizes;
  for (const Case& the_case : cases_of(plan, asked, {})) sizes.push_back(the_case.size);
  sort_once(sizes);
  const std::string with = asked ? fmt::format("with {} rank{} ", *asked, *asked == 1 ? "" : "s") : "";
  if (sizes.empty()) return with + "this test has no case";
  return fmt::format("{}this test's sizes are {}", with, listed(sizes));
}

}  // namespace

std::vector<std::size_t> awkward_sizes(int ranks) {
  const auto p = static_cast<std::size_t>(ranks);
  if (ranks > 256) return {p + 1};     // chunks of two lengths; a test's million messages should take seconds
  constexpr std::uint64_t kSizes = 1;  // the first argument of drawn(), different from all others
  return {0, 1, p - 1, p, p + 1, 7, 13, 31, 101 + drawn({kSizes, p}, 100)};
}

CaseProgram in_reverse_order(const CaseProgram& program) {
  return [program](Rank me, const Case& c) { return program(me.split(0, -me.rank()), c); };
}

CaseJudge in_reverse_order(const CaseJudge& judge) {
  return [judge](const Case& c, const Outcome& outcome) {
    Outcome reversed = outcome;
    std::reverse(reversed.values.begin(), reversed.values.end());
    std::reverse(reversed.ledgers.begin(), reversed.ledgers.end());
    const std::string wrong = judge(c, reversed);
    return wrong.empty() ? "" : "in a group of all ranks in reverse order: " + wrong;
  };
}

bool has_ranks(int ranks) {
  const int available = test_options().available_ranks;  // 0: any number
  return available == 0 || ranks <= available;
}

Outcome run_answered(const RunOptions& options, const Program& program) {
  return outcome_of({options.ranks, 0}, options, program);
}

void run_cases(const CaseProgram& program, const CaseJudge& judge, const CasePlan& plan, Location where) {
  if (!on_simulator() && !plan.simulator_only.empty()) GTEST_SKIP() << plan.simulator_only;
  const std::vector<Case> cases = cases_asked_for(plan);
  const bool asked = test_options().ranks || test_options().size;
  if (cases.empty() && asked) GTEST_SKIP() << why_no_case(plan);
  int ran = 0, needed = 0;
  for (const Case& the_case : cases) {
    if (!has_ranks(the_case.ranks)) {
      needed = std::max(needed, the_case.ranks);
      continue;
    }
    for (const auto& seed : seeds_of(plan))
      if (!passes(the_case, program, judge, plan, seed, where)) return;
    ++ran;
  }
  if (ran > 0) ::testing::Test::RecordProperty(kHasCases, "yes");
  if (needed == 0) return;
  const std::string words = fmt::format(
      "cases with up to {} ranks need as many processes; there are {} (no points are lost; --ranks {} runs them)",
      needed, test_options().available_ranks, needed);
  if (ran == 0) GTEST_SKIP() << words;
  static bool said = false;  // once per program, not per test
  if (is_judge() && !said) fmt::print("SKIPPED {}\n", words);
  said = true;
}

}  // namespace lockstep::testing
