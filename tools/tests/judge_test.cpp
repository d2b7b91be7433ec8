// Tests how test programs are run and judged: how they end, how that is reported, and folders that runs lock.
#include "tools/course/judge.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "common/error.hpp"
#include "common/support/tests/folder_testing.hpp"
#include "common/testing/verdict.hpp"
#include "tools/course/paths.hpp"
#include "tools/course/process.hpp"

namespace lockstep::tools {
namespace {

using testing::Judgement;

/// Runs of a test program, lines of a shell: its first argument is the filter, its third the file for judgements.
class TheVerdict : public TestFolder {
 protected:
  fs::path test_program(const std::string& lines, const std::string& place = "program") const {
    return script(place, "cd " + folder_.string() + "\n" + lines);
  }
  const Paths paths_{.source = folder_, .build = folder_, .labs = folder_, .course = {}};
};

TEST_F(TheVerdict, OfAPartThatDoesNotEndLeavesOutItsWhole) {
  const auto row = [](const char* id, const char* verdict, const char* test) {
    return Judgement{.id = id, .verdict = verdict, .message = "labs/x_test.cpp:7", .test = test};
  };
  testing::write_judgements(folder_ / "a.json", {row("21.3a", "RUNNING", "Lab21_3a.Sums")});
  testing::write_judgements(folder_ / "b.json", {row("21.3b", "PASS", "")});
  // The test program: 21.3a does not end, and 21.3 is not asked for again.
  const auto program = test_program(
      "echo \"$1\" >> asked\ncase $1 in *Lab21_3a.*) cp a.json \"$3\"; exec sleep 20;; esac\ncp b.json \"$3\"\n");
  const auto rows = run_tests(paths_, program, {"21.3a", "21.3b", "21.3"}, {.timeout_seconds = 0.3});
  EXPECT_EQ(read(folder_ / "asked"), "--gtest_filter=Lab21_3a.*:Lab21_3b.*:Lab21_3.*:\n--gtest_filter=Lab21_3b.*:\n");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].verdict, "TIMEOUT");
  EXPECT_TRUE(rows[0].message.starts_with("Lab21_3a.Sums (labs/x_test.cpp:7) was still running after"))
      << rows[0].message;
  EXPECT_EQ(rows[1].verdict, "SKIPPED (21.3a timed out)");
  EXPECT_EQ(rows[2].verdict, "PASS");
}

TEST_F(TheVerdict, OfAnIndexBeyondTheEndSaysSo) {
  testing::write_judgements(folder_ / "a.json", {{.id = "21.1", .verdict = "RUNNING", .test = "Lab21_1.Orders"}});
  const auto explained = [&](const std::string& check) {  // what libstdc++ prints
    const auto program =
        test_program("cp a.json \"$3\"\necho \"/usr/include/x.h:7: " + check + " failed.\" >&2\nkill -ABRT $$\n");
    const auto rows = run_tests(paths_, program, {"21.1"}, {.timeout_seconds = 20});
    return rows.at(0).verdict + ": " + rows.at(0).message;
  };
  for (const auto& [check, words] : std::vector<std::pair<std::string, std::string>>{
           {"int& std::vector<_Tp>::operator[](size_type) [with _Tp = int]: Assertion '__n < this->size()'",
            "an index beyond the end of a std::vector"},
           {"int& std::span<_Type>::operator[](size_type) const [with _Type = std::vector<int>]: Assertion '__idx < "
            "size()'",
            "an index beyond the end of a std::span"},
           {"int& std::vector<_Tp>::back(): Assertion '!this->empty()'", "of an empty container"}}) {
    const std::string told = explained(check);
    EXPECT_TRUE(told.starts_with("CRASH: ")) << told;
    EXPECT_NE(told.find("The standard library stopped it: "), told.npos) << told;
    EXPECT_NE(told.find(words), told.npos) << told;
  }
  EXPECT_EQ(explained("f(): Assertion 'x'").find("The standard library stopped it"), std::string::npos);
}

TEST_F(TheVerdict, OfACrashSaysWhyAndInWhichCaseAndShowsItsLastLinesOnce) {
  testing::write_judgements(folder_ / "a.json", {{.id = "21.2a", .verdict = "RUNNING", .test = "Lab21_2a.Sums"}});
  const auto program = test_program(
      "cp a.json \"$3\"\nfor i in 1 2 3 4 5 6 7 8 9 10 11 12 13; do echo \"line $i\"; done\nprintf "
      "'lockstep-died: It tripped.\\twith 3 ranks\\t--ranks 3 --size 7\\n' >&2\nkill -FPE $$\n");
  std::string printed;
  const auto rows = run_tests(paths_, program, {"21.2a"},
                              {.timeout_seconds = 20, .on_line = [&](std::string_view line) { printed += line; }});
  EXPECT_EQ(rows.at(0).verdict, "CRASH");
  const std::string& told = rows.at(0).message;
  EXPECT_TRUE(told.starts_with("Lab21_2a.Sums with 3 ranks was killed by signal 8 (")) << told;
  EXPECT_NE(told.find("). It tripped.\nreplay: ./lab check 21.2a --ranks 3 --size 7; with --debug"), told.npos) << told;
  EXPECT_TRUE(
      told.ends_with("The last lines it printed:\n  line 2\n  line 3\n  line 4\n  line 5\n  line 6\n  line 7\n"
                     "  line 8\n  line 9\n  line 10\n  line 11\n  line 12\n  line 13\n"))
      << told;
  EXPECT_EQ(printed, "line 1");
}

TEST_F(TheVerdict, OfAnEndlessLoopNamesTheLastCall) {
  testing::write_judgements(folder_ / "a.json", {{.id = "21.2a", .verdict = "RUNNING", .test = "Lab21_2a.Sums"}});
  const auto program = test_program(
      "cp a.json \"$3\"\nprintf 'shown lockstep-still: 7\\t1\\t/a b/lock step/ring.cpp:20\\tvoid "
      "lockstep::ring(lockstep::Rank, int)\\twith 3 ranks\\t--ranks 3\\n' >&2\nexec sleep 600\n");
  std::string still, printed;
  const auto rows = run_tests(paths_, program, {"21.2a"},
                              {.timeout_seconds = 1,
                               .on_line = [&](std::string_view line) { printed += line; },
                               .on_still = [&](const std::string& text) { still += text; }});
  EXPECT_EQ(still, "Lab21_2a.Sums is still running after 7 s: rank 1 last called the runtime at ring.cpp:20 (ring)");
  EXPECT_EQ(printed, "") << "an explanation has it";
  EXPECT_EQ(rows.at(0).verdict, "TIMEOUT");
  const std::string& told = rows.at(0).message;
  EXPECT_TRUE(told.starts_with("Lab21_2a.Sums with 3 ranks was still running after 1 s")) << told;
  EXPECT_NE(
      told.find("infinite loop? In it, rank 1 last called the runtime at ring.cpp:20 (ring).\nreplay: ./lab check "
                "21.2a --ranks 3\nThe last lines it printed:\n  shown \n"),
      told.npos)
      << told;
}

TEST_F(TheVerdict, OfTwoRunsAtATimeAreApart) {
  // Two test programs of one name: the first one waits until the second one has written its verdict, and has ended.
  const auto wait_for = [](const char* file) { return fmt::format("until [ -e {} ]; do sleep 0.01; done\n", file); };
  const auto first = test_program("cp one.json \"$3\"\ntouch written\n" + wait_for("over"), "one/program");
  const auto second = test_program(wait_for("written") + "cp two.json \"$3\"\n", "two/program");
  testing::write_judgements(folder_ / "one.json", {{.id = "21.2", .verdict = "PASS", .passed = 1}});
  testing::write_judgements(folder_ / "two.json", {{.id = "21.2", .verdict = "FAIL", .failed = 1}});
  auto one =
      std::async(std::launch::async, [&] { return run_tests(paths_, first, {"21.2"}, {.timeout_seconds = 20}); });
  const auto two = run_tests(paths_, second, {"21.2"}, {.timeout_seconds = 20});
  put("over", "");
  EXPECT_EQ(two.at(0).verdict, "FAIL");
  EXPECT_EQ(one.get().at(0).verdict, "PASS");
  EXPECT_TRUE(fs::is_empty(paths_.mine() / "running"));
}

using Locks = TheVerdict;

TEST_F(Locks, AFolderThatWasLeftIsRemovedOnceNobodyUsesIt) {
  const auto left = paths_.mine() / "running" / "left", used = paths_.mine() / "running" / "used";
  const FolderLock lock(used, "running");
  put(left / "program", "");
  for (const auto& folder : {left, used})
    fs::last_write_time(folder, fs::file_time_type::clock::now() - std::chrono::minutes(1));
  const RunFolder mine(paths_), other(paths_);
  EXPECT_FALSE(fs::exists(left));
  for (const auto& folder : {used, mine.path(), other.path()}) EXPECT_TRUE(fs::exists(folder)) << folder;
}

TEST_F(Locks, WhoWaitsIsToldForWhom) {
  auto first = std::make_unique<FolderLock>(folder_, "building 21.2");
  std::string told;
  const FolderLock second(folder_, "building 21.3", [&](std::string_view line) {
    told = line;
    first.reset();
  });
  EXPECT_EQ(told, fmt::format("waiting: process {} is building 21.2 (it has locked {})", getpid(), file("lock")));
}

TEST(Process, SecondsOfALimitPassMoreSlowlyWhereOthersUseTheCores) {
  EXPECT_EQ(slowdown(0, 2, 1), 1) << "nobody else is there";
  EXPECT_EQ(slowdown(2, 2, 1), 1) << "each has a core";
  EXPECT_EQ(slowdown(4, 2, 4), 1) << "its own processes are what the limit was made for";
  EXPECT_EQ(slowdown(12, 2, 1), 6);
  EXPECT_EQ(slowdown(12, 2, 4), 3);
  EXPECT_EQ(slowdown(1000, 2, 1), 10) << "what never ends must be ended";
  WorkClock clock(1);
  const double begin = clock.seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  EXPECT_GT(clock.seconds(), begin);
}

TEST(Process, TellsHowAProgramEnded) {
  std::string lines;
  auto shell = [&](const char* script, double seconds = 0) {
    lines.clear();
    Command command{.arguments = {"sh", "-c", script}, .folder = {}, .timeout_seconds = seconds, .on_line = {}};
    command.on_line = [&lines](std::string_view line) { lines.append(line).append("|"); };
    return run_command(command);
  };
  EXPECT_TRUE(shell("echo one; echo two >&2; printf three").ok());
  EXPECT_EQ(lines, "one|two|three|");
  EXPECT_EQ(shell("exit 3").exit_code, 3);
  EXPECT_EQ(shell("kill -SEGV $$").signal, 11);
  EXPECT_TRUE(shell("exec sleep 20", 0.1).timed_out);
  EXPECT_THROW(run_command({.arguments = {"/no/such/program"}, .folder = {}, .on_line = {}}), Error);
  try {
    run_command({.arguments = {"no-such-program"}, .folder = {}, .on_line = {}});
    FAIL() << "it ran";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "cannot start no-such-program: it is not installed");
  }
}

TEST(Process, LinesThatAreEmptyStaySo) { EXPECT_EQ(indented("a\n\n b\n", "  "), "  a\n\n   b\n"); }

}  // namespace
}  // namespace lockstep::tools
