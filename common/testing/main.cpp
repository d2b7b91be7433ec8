// The main of every lab test. Options: GoogleTest's flags, and those that --help lists.
// Exit code 0: everything passed; 1: a test failed; 2: bad input, reported in one sentence, or no test matches; 77:
// skipped, because this computer lacks what the backend needs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <exception>

#include "common/runtime/run.hpp"
#include "common/support/text/parse_number.hpp"
#include "common/testing/handed_over.hpp"
#include "common/testing/listener.hpp"
#include "common/testing/options.hpp"
#include "common/testing/watch.hpp"

namespace lockstep::testing {
namespace {

constexpr const char* kHelp =
    "  --gtest_filter='Lab21_2a*'   only these tests, and GoogleTest's other flags\n"
    "  --ranks P, --size N          only this case\n"
    "  --perturb SEED               run queued work early or late, by this seed\n"
    "  --seed SEED                  draw inputs and sizes by this seed\n"
    "  --trace [FILE]               record the timeline\n"
    "  --verdict FILE               write the verdicts as JSON\n"
    "  --outcomes-to FILE           hand over the outcomes of all runs, for\n"
    "  --outcomes-of FILE           judge these, and run nothing in their place\n"
    "  --say-what-runs              say every few seconds which rank computes, and of a crash where it was\n";

TestOptions& options() {
  static TestOptions the_options;
  return the_options;
}

template <class Number>
Number parse(std::string_view flag, std::string_view text, Number smallest) {
  const std::optional<Number> value = parse_number<Number>(text);
  if (!value || *value < smallest) {
    throw Error(Verdict::usage, fmt::format("{} needs a whole number of at least {}, not '{}'", flag, smallest, text));
  }
  return *value;
}

/// Parses the options that GoogleTest has left.
void read_options(int argc, char** argv) {
  TestOptions& o = options();
  for (int i = 1; i < argc; ++i) {
    std::string_view flag = argv[i];
    auto value = [&] {
      if (i + 1 >= argc) throw Error(Verdict::usage, fmt::format("{} needs a value", flag));
      return std::string_view(argv[++i]);
    };
    if (flag == "--ranks") {
      o.ranks = parse<int>(flag, value(), 1);
    } else if (flag == "--size") {
      o.size = parse<std::size_t>(flag, value(), 0);
    } else if (flag == "--perturb") {
      o.perturb = parse<std::uint64_t>(flag, value(), 0);
    } else if (flag == "--seed") {
      o.seed = parse<std::uint64_t>(flag, value(), 0);
    } else if (flag == "--verdict") {
      o.verdict_file = value();
    } else if (flag == "--outcomes-to") {
      o.outcomes_to = value();
    } else if (flag == "--outcomes-of") {
      o.outcomes_of = value();
    } else if (flag == "--say-what-runs") {
      say_what_runs();
    } else if (flag == "--trace") {
      o.trace = true;
      if (i + 1 < argc && argv[i + 1][0] != '-') o.trace_file = value();
    } else {
      throw Error(Verdict::usage, fmt::format("unknown option '{}'", flag));
    }
  }
}

/// Replaces GoogleTest's listeners. Processes that do not judge print and write nothing. If the verdicts go to a file,
/// its reader reports them.
void listen() {
  auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  if (!is_judge()) delete listeners.Release(listeners.default_xml_generator());
  listeners.Append(
      new VerdictListener(is_judge() ? options().verdict_file : "", is_judge() && options().verdict_file.empty()));
}

int run_tests(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--help") {
    fmt::print("{}", kHelp);
    return 0;
  }
  Session session(argc, argv);
  ::testing::InitGoogleTest(&argc, argv);
  read_options(argc, argv);
  options().available_ranks = session.available_ranks();
  listen();
  if (!options().outcomes_of.empty()) never_judged();  // a file that cannot be read is no error of a test
  const int code = RUN_ALL_TESTS();
  if (const std::string more = options().outcomes_of.empty() ? "" : never_judged(); !more.empty())
    throw Error(Verdict::usage, "more outcomes were handed over than belong to " + more);
  // An empty run proves nothing: a filter that matches no test must not pass.
  const bool empty = ::testing::UnitTest::GetInstance()->test_to_run_count() == 0;
  return code == 0 && empty ? 2 : code;
}

}  // namespace

const TestOptions& test_options() { return options(); }

}  // namespace lockstep::testing

int main(int argc, char** argv) {
  try {
    return lockstep::testing::run_tests(argc, argv);
  } catch (const lockstep::NoDevice& error) {
    if (lockstep::is_judge()) fmt::print("SKIPPED {}\n", error.what());
    return lockstep::NoDevice::kExitCode;
  } catch (const std::exception& error) {
    if (lockstep::is_judge()) fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
