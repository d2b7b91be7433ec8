// Words: verdicts of exercises, the course's list, the nearest known name, and how a program's end is told.
#include "common/testing/verdict.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <future>
#include <memory>
#include <set>
#include <thread>

#include "common/support/tests/folder_testing.hpp"
#include "common/support/tests/refusal_testing.hpp"
#include "common/support/text/nearest.hpp"
#include "labs/week23_tensor_parallel/shard_testing.hpp"
#include "tools/course/course.hpp"
#include "tools/course/judge.hpp"
#include "tools/course/paths.hpp"
#include "tools/course/printed.hpp"
#include "tools/course/process.hpp"
#include "tools/course/sayings.hpp"

namespace lockstep::tools {
namespace {

using testing::Judgement;

TEST(Verdict, SuitesAreNamedAfterExercises) {
  EXPECT_EQ(testing::id_of_suite("Lab21_2a"), "21.2a");
  EXPECT_EQ(testing::id_of_suite("Simulator"), "");
  EXPECT_EQ(testing::suite_of_id("21.10"), "Lab21_10");
  EXPECT_EQ(testing::exercise_of("21.2a"), "21.2");
  EXPECT_EQ(testing::exercise_of("21.10"), "21.10");
}

TEST(Verdict, AMissingPartBlocksOthersAndNotItself) {
  const char* message = "rank 0: exercise 21.2a is not implemented yet: add — at f.cpp:1 (f)";
  EXPECT_EQ(testing::word_for("21.2a", Verdict::not_implemented, message), "NOT IMPLEMENTED");
  EXPECT_EQ(testing::word_for("21.2", Verdict::not_implemented, message), "NOT IMPLEMENTED");
  EXPECT_EQ(testing::word_for("21.2b", Verdict::not_implemented, message), "BLOCKED BY 21.2a");
  EXPECT_EQ(testing::word_for("21.7", Verdict::not_implemented, message), "BLOCKED BY 21.2a");
  const char* stub = "exercise 21.2 does not compile: f.cpp:3: error";
  EXPECT_EQ(testing::word_for("21.2b", Verdict::does_not_compile, stub), "DOES NOT COMPILE");
  EXPECT_EQ(testing::word_for("21.7a", Verdict::does_not_compile, stub), "BLOCKED BY 21.2");
  EXPECT_EQ(testing::verdict_in(stub), Verdict::does_not_compile);
}

TEST(Verdict, WhatIsMissingInAFileIsNoRanks) {
  EXPECT_EQ(testing::without_rank("rank 0: exercise 21.2 does not compile: f.cpp:3"),
            "exercise 21.2 does not compile: f.cpp:3");
  EXPECT_EQ(testing::without_rank("rank 12: a"), "a");
  for (const char* other : {"rank: a", "ranks 0: a", "rank 0 waits", "a rank 0: b", ""})
    EXPECT_EQ(testing::without_rank(other), other);
}

TEST(Verdict, TheTestsOwnSentenceComesFirst) {
  const auto said = [](const ::testing::AssertionResult& compared) {
    return testing::sentence_first(std::string(compared.message()) + "\nthe rate is √k");
  };
  using namespace ::testing::internal;
  EXPECT_EQ(said(CmpHelperEQ("a", "b", 1, 2)), "the rate is √k\n  a is 1, expected 2");
  EXPECT_EQ(said(CmpHelperFloatingPointEQ("a", "b", 0.006, 0.25)), "the rate is √k\n  a is 0.006, expected 0.25");
  EXPECT_EQ(said(CmpHelperFloatingPointEQ("a", "b", 1.0 / 3, 1.0 / 3 + 1e-14)),
            "the rate is √k\n  a is 0.33333333333333331, expected 0.33333333333334331");
  EXPECT_EQ(said(CmpHelperEQ("share(1.5)", "2", 1, 2)), "the rate is √k\n  share(1.5) is 1, expected 2");
  // Names of a test's own variables tell a learner nothing.
  for (const char* member : {"d.rate", "of(step).rate", "all[0].rate", "d->rate"})
    EXPECT_EQ(said(CmpHelperEQ(member, "2", 1, 2)), "the rate is √k\n  rate is 1, expected 2");
  for (const char* other :
       {"a[i]", "d.y[i]", "1 - d.rate / 2.5", "d.rate + d.more", "all.size()", "of(step).size()", "of(step)"})
    EXPECT_EQ(said(CmpHelperEQ(other, "2", 1, 2)), "the rate is √k\n  found 1, expected 2");
  EXPECT_EQ(said(CmpHelperEQ("a", "b", std::string("x\ny"), std::string("x\nz"))),
            "the rate is √k\n  a is \"x\\ny\", expected \"x\\nz\"");
  EXPECT_EQ(said(CmpHelperLT("a", "b", 3, 2)), "the rate is √k\n  a is 3, expected less than 2");
  EXPECT_EQ(said(CmpHelperLE("a", "b", 3, 2)), "the rate is √k\n  a is 3, expected at most 2");
  EXPECT_EQ(said(CmpHelperGT("a", "b", 2, 3)), "the rate is √k\n  a is 2, expected more than 3");
  EXPECT_EQ(said(CmpHelperGE("a", "b", 2, 3)), "the rate is √k\n  a is 2, expected at least 3");
  EXPECT_EQ(said(CmpHelperNE("a", "b", 3, 3)), "the rate is √k\n  a is 3, expected anything but 3");
  EXPECT_EQ(said(DoubleNearPredFormat("a", "b", "c", 1.25, 2, 0.5)),
            "the rate is √k\n  a is 1.25, expected 2 to within 0.5");
  enum class Kind : std::uint8_t { one, two };
  EXPECT_EQ(said(CmpHelperEQ("a", "b", Kind::one, Kind::two)), "the rate is √k");
  const std::string was = GetBoolAssertionFailureMessage(::testing::AssertionFailure(), "a", "false", "true");
  EXPECT_EQ(said(::testing::AssertionFailure() << was), "the rate is √k");
  EXPECT_EQ(testing::sentence_first("Expected: f() throws an exception of type Error.\n  Actual: it throws nothing.\n"
                                    "too few times"),
            "too few times");
  for (const char* alone :
       {"", "a sentence\nand one more", "Value of: a\n  Actual: false\nExpected: true", was.c_str()})
    EXPECT_EQ(testing::sentence_first(alone), alone);
  EXPECT_EQ(testing::sentence_first("Failed\nthe rate is √k"), "the rate is √k");
}

TEST(Verdict, NumbersThatAreNoneAreWords) {
  using testing::numbers_in_words;
  EXPECT_EQ(numbers_in_words("element 3 is -nan, expected 5"), "element 3 is not a number, expected 5");
  EXPECT_EQ(numbers_in_words("nan"), "not a number");
  EXPECT_EQ(numbers_in_words("(inf) or -inf."), "(infinity) or minus infinity.");
  EXPECT_EQ(numbers_in_words("nan nan\nnan"), "not a number not a number\nnot a number");
  for (const char* kept :
       {"financial nanny info", "refused with \"nan is not a time\"", "nan/inf.cpp:3", "nano 1nan", ""})
    EXPECT_EQ(numbers_in_words(kept), kept);
}

TEST(Verdict, RawTextOfTheTestLibraryIsFound) {
  using namespace ::testing::internal;
  enum class Kind : std::uint8_t { one, two };
  for (const ::testing::AssertionResult& raw :
       {CmpHelperEQ("a", "b", 1, 2), CmpHelperEQ("a", "b", Kind::one, Kind::two), CmpHelperLT("a", "b", 3, 2),
        DoubleNearPredFormat("a", "b", "c", 1.25, 2, 0.5),
        ::testing::AssertionFailure() << GetBoolAssertionFailureMessage(::testing::AssertionFailure(), "a", "false",
                                                                        "true")}) {
    EXPECT_NE(testing::raw_text_in(raw.message()), "") << raw.message();
    const std::string said = testing::sentence_first(std::string(raw.message()) + "\nthe rate is √k");
    EXPECT_EQ(testing::raw_text_in(said), "") << said;
  }
  for (const char* raw : {"vector::_M_range_check: __n (which is 3) >= this->size()", "the rate is -nan, expected 1",
                          "C++ exception with description \"x\" thrown in the test body.",
                          "with 1 rank:\n  rank 0: rank 0: x[0] is 2, expected 1", "DEADLOCK: DEADLOCK: 2 ranks wait"})
    EXPECT_NE(testing::raw_text_in(raw), "") << raw;
  for (const char* plain : {"", "the rate is 3, expected 4", "the information in a nanosecond", "says \"nan\"",
                            "rank 0: x: 1, y: 1", "rank 0: x\nrank 0: y"})
    EXPECT_EQ(testing::raw_text_in(plain), "") << plain;
}

TEST(Verdict, AnExerciseIsCalledWhatIsWrongBeforeWhatIsMissing) {
  std::vector<Judgement> rows{{.id = "21.2a", .verdict = "PASS", .passed = 3},
                              {.id = "21.2b", .verdict = "NOT IMPLEMENTED", .failed = 1},
                              {.id = "21.2", .verdict = "DEADLOCK", .message = "why", .failed = 1}};
  auto joined = testing::with_exercises(rows);
  ASSERT_EQ(joined.size(), 3u);
  EXPECT_EQ(joined.back().id, "21.2");
  EXPECT_EQ(joined.back().verdict, "DEADLOCK");
  EXPECT_EQ(joined.back().message, "why");
  EXPECT_EQ(joined.back().passed, 3);
  EXPECT_EQ(joined.back().failed, 2);
}

TEST(Verdict, PartsStandInTheirOrder) {
  const auto joined = testing::with_exercises({{.id = "21.9e", .verdict = "PASS"},
                                               {.id = "21.9c", .verdict = "FAIL", .message = "c", .failed = 1},
                                               {.id = "21.9", .verdict = "FAIL", .message = "whole", .failed = 1},
                                               {.id = "21.9a", .verdict = "FAIL", .message = "a", .failed = 1},
                                               {.id = "21.10", .verdict = "PASS"}});
  std::vector<std::string> ids;
  for (const Judgement& row : joined) ids.push_back(row.id);
  EXPECT_EQ(ids, (std::vector<std::string>{"21.9a", "21.9c", "21.9e", "21.10", "21.9"}));
  EXPECT_EQ(joined.back().message, "a") << "the first part that is wrong explains the exercise";
}

TEST(Verdict, WhatIsSkippedBesideAPassIsCounted) {
  const Judgement skipped{
      .id = "21.3a", .verdict = "SKIPPED (its ranks are 2)", .skipped = 2, .left_out = "its ranks are 2"};
  const Judgement passed{.id = "21.3b", .verdict = "PASS", .passed = 1};
  const Judgement both = testing::with_exercises({skipped, passed}).back();
  EXPECT_TRUE(both.ok()) << both.verdict;
  EXPECT_EQ(both.skipped, 2);
  EXPECT_EQ(both.left_out, "its ranks are 2");
  EXPECT_EQ(testing::with_exercises({skipped}).back().verdict, "SKIPPED (its ranks are 2)");
  EXPECT_EQ(testing::with_exercises({passed, {.id = "21.3", .verdict = "FAIL", .failed = 1}}).back().verdict, "FAIL");
}

TEST(Verdict, WhatPartsMeasuredIsTheExercisesToo) {
  const auto rows = testing::with_exercises({{.id = "21.7c", .verdict = "PASS", .passed = 1, .notes = {"1 ms"}},
                                             {.id = "21.7", .verdict = "PASS", .passed = 1, .notes = {"2 ms"}}});
  EXPECT_EQ(rows.back().notes, (std::vector<std::string>{"1 ms", "2 ms"}));
}

TEST(Verdict, FilesKeepWhatWasWritten) {
  auto file = fs::path(::testing::TempDir()) / "verdict_test.json";
  testing::write_judgements(file, {{.id = "21.2",
                                    .verdict = "FAIL",
                                    .message = "line\n\"quoted\" \xff",
                                    .failed = 1,
                                    .notes = {"3 ms of \"work\"", "4 ms"}}});
  auto rows = testing::read_judgements(file);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].verdict, "FAIL");
  EXPECT_EQ(rows[0].notes, (std::vector<std::string>{"3 ms of \"work\"", "4 ms"}));
  EXPECT_TRUE(rows[0].message.starts_with("line\n\"quoted\" "));
  fs::remove(file);
  EXPECT_THROW(testing::read_judgements(file), Error);
}

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

TEST(Verdict, AnExplanationIsWholeHoweverMuchTheAnswerShows) {
  Printed printed(/*drawings=*/false);
  for (int line = 0; line < 994; ++line)
    printed.add("[rank 0, first_messages.cpp:10 (ring_of_hellos)] theirs (1 × f32): 1");
  printed.add("DEADLOCK: 2 ranks wait for each other in a cycle: 0 → 1 → 0.");
  const std::string text = printed.take();
  EXPECT_NE(text.find("  DEADLOCK: 2 ranks wait"), text.npos) << text;
  EXPECT_NE(text.find("… and 914 lines more; --ranks"), text.npos) << text;
  EXPECT_EQ(printed.take(), "");
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

TEST(Nearest, SuggestsWhatWasMeant) {
  const std::vector<std::string> known{"dgx_h100", "laptop", "pcie_box"};
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("ab", "ba"), 1u);
  EXPECT_EQ(nearest("DGX_H10", known), "dgx_h100");
  EXPECT_EQ(unknown_name("machine", "loptap", known),
            "unknown machine 'loptap': did you mean 'laptop'? Known: dgx_h100, laptop, pcie_box.");
  EXPECT_EQ(unknown_name("machine", "z", {}), "unknown machine 'z'.");
  const std::vector<std::string> models{"gpt-1t", "gpt3-13b", "gpt3-175b"};
  EXPECT_EQ(nearest_of("gpt3", models, 1), std::vector<std::string>{nearest("gpt3", models)});
  EXPECT_EQ(nearest_of("x", models, 99).size(), models.size()) << "no more than there are";
  EXPECT_EQ(nearest("gpt3", models), "gpt3-13b") << "its beginning is nearer than two letters wrong";
  EXPECT_NE(unknown_name("machine", "dgx", {known}).find("did you mean 'dgx_h100'?"), std::string::npos);
}

TEST(Nearest, AnOptionIsFoundByItsNameOrByItsHelp) {
  const std::vector<OptionName> known{{"--help", "This text"}, {"--data", "A text, or a token file"}, {"--steps", ""}};
  EXPECT_EQ(unknown_option("--stesp=4", known),
            "unknown option '--stesp': did you mean '--steps'? --help lists them all.");
  EXPECT_EQ(unknown_option("--text", known), "unknown option '--text': did you mean '--data'? --help lists them all.");
  EXPECT_EQ(unknown_option("--qwzzk", known), "unknown option '--qwzzk'; --help lists them all.");
  EXPECT_EQ(unknown_option("--", {}), "unknown option '--'; --help lists them all.");
}

/// True if labs/ has a test of this exercise or part.
bool has_tests(const Exercise& exercise, const std::string& id) {
  const auto folder = fs::path(LOCKSTEP_SOURCE_DIR) / "labs" / exercise.folder;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(exercise.name + "_") || !name.ends_with("test.cpp")) continue;
    if (read_text(entry.path()).find("(" + testing::suite_of_id(id) + ",") != std::string::npos) return true;
  }
  return false;
}

TEST(Course, ReadsTheListAndSelectsFromIt) {
  Course course = Course::read(LOCKSTEP_SOURCE_DIR "/labs/course.json");
  EXPECT_EQ(course.select("21.2").exercises.at(0).name, "ring_all_reduce");
  EXPECT_EQ(course.select("21.2a").part, "21.2a");
  EXPECT_GE(course.select("21").exercises.size(), 7u);
  EXPECT_THROW(course.select("21.22"), Error);
  const auto with = [](const std::string& exercises) {
    return Course::parse(R"({"weeks": [{"number": 1, "folder": "w", "title": "t", "exercises": [)" + exercises + "]}]}",
                         "c");
  };
  const std::string rest = R"("name": "n", "title": "t", "minutes": 1, "needs": [)";
  EXPECT_EQ(with("{\"id\": \"1.1\", " + rest + "\"1.2\"]}, {\"id\": \"1.2\", " + rest + "]}").all_needs("1.1").size(),
            1u);
  const std::string chain = "{\"id\": \"1.1\", " + rest + "\"1.2\"]}, {\"id\": \"1.3\", " + rest +
                            "]}, {\"id\": \"1.2\", \"only_tests_need\": [\"1.3\"], " + rest + "\"1.3\"]}";
  EXPECT_EQ(with(chain).all_needs("1.1").size(), 1u) << "1.2's answer does not call 1.3";
  EXPECT_EQ(with(chain).all_needs("1.2").size(), 1u) << "but its tests do";
  EXPECT_THROW(with("{\"id\": \"1.1\", " + rest + "\"1.2\"]}, {\"id\": \"1.2\", " + rest + "\"1.1\"]}"), Error);
  EXPECT_THROW(with("{\"id\": \"1.1\", " + rest + "\"1.3\"]}"), Error);
  EXPECT_THROW(with("{\"id\": \"1.1\", " + rest + "]}, {\"id\": \"1.1\", " + rest + "]}"), Error);
  const Selection several = course.select("22,21.8,21.3");  // in the course's order
  EXPECT_EQ(several.exercises.at(0).id, "21.3");
  EXPECT_EQ(several.exercises.at(1).id, "21.8");
  EXPECT_EQ(several.exercises.size(), 2 + course.select("22").exercises.size());
  for (const char* weeks : {"22-23", "22–23"})
    EXPECT_EQ(course.select(weeks).exercises.size(), course.select("22,23").exercises.size()) << weeks;
  EXPECT_EQ(course.select("22:extra,22:core").exercises.size(), course.select("22").exercises.size());
  EXPECT_EQ(course.select("Decay").exercises.at(0).id, "22.10");
  const auto complaint = [&](const char* what) { return refusal([&] { course.select(what); }); };
  EXPECT_EQ(complaint("21.3,21.8a"), "unknown part '21.8a': 21.8 has no parts.");
  EXPECT_EQ(complaint("22.10d"), "unknown part '22.10d': 22.10 has the parts 22.10a, 22.10b, 22.10c.");
  EXPECT_EQ(complaint("21.99a"), "unknown exercise '21.99a': did you mean '21.9'? ./lab list shows all of them.");
  EXPECT_EQ(complaint("22.12"), "unknown exercise '22.12': week 22 has 22.1 to 22.11.");
  EXPECT_EQ(complaint("2210"), "unknown exercise '2210': did you mean '22.10'? ./lab list shows all of them.");
  EXPECT_EQ(complaint("22,10"), "unknown exercise '10': did you mean '22.10'? ./lab list shows all of them.");
  EXPECT_EQ(complaint("25-26"), "unknown week '26': there are weeks 21 to 25.");
  EXPECT_EQ(complaint("23-22"), "'23-22' has no weeks: the first is after the last.");
  EXPECT_EQ(complaint("21,,22"), "unknown exercise ''. ./lab list shows all of them.");
  EXPECT_NE(complaint("21.2a,21.3").find("21.2a is a part, which must be the only argument"), std::string::npos);
  int core_drills = 0;
  for (const Week& week : course.weeks())
    for (const Drill& drill : week.drills) {
      EXPECT_EQ(drill.minutes, 20) << drill.id;
      EXPECT_EQ(drill.id.substr(0, 2), std::to_string(week.number));
      core_drills += drill.core;
    }
  EXPECT_EQ(core_drills, 3);
  for (const Week& week : course.weeks()) {  // no number is left out
    std::set<std::string> ids;
    for (const Exercise& exercise : week.exercises) ids.insert(exercise.id);
    const int first = ids.contains(fmt::format("{}.0", week.number)) ? 0 : 1;
    for (std::size_t i = 0; i < ids.size(); ++i)
      EXPECT_TRUE(ids.contains(fmt::format("{}.{}", week.number, first + i))) << week.number << ", " << first + i;
  }
  for (const Exercise& exercise : course.select("").exercises) {
    EXPECT_GT(exercise.minutes, 0) << exercise.id;
    for (const Exercise& need : course.all_needs(exercise.id)) EXPECT_NE(need.id, exercise.id);
    // Parts with tests have points, and nothing else has.
    for (const std::string& id : exercise.ids())
      EXPECT_EQ(exercise.points_of(id) > 0, exercise.graded && has_tests(exercise, id)) << id;
    // A ladder of three levels: on the exercise, or on each part.
    for (const Part& part : exercise.parts) EXPECT_EQ(part.hints.size(), 3u) << part.id;
    EXPECT_TRUE(!exercise.parts.empty() || exercise.hints.size() == 3u) << exercise.id;
  }
}

TEST(Course, AFileThatIsNoCourseIsOneSentence) {
  auto file = fs::path(::testing::TempDir()) / "course_test.json";
  std::ofstream(file) << "{\"weeks\": [{\"number\": 21}]}";
  EXPECT_THROW(Course::read(file), Error);
  fs::remove(file);
  EXPECT_THROW(Course::read(file), Error);
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
}

TEST(WrongTensor, IsNamedByWhatItIsInstead) {
  const auto told = [](std::vector<Values> seen) {
    Outcome outcome;
    outcome.values = std::move(seen);
    return week23::differs(outcome, {week23::same_on_all("dx", 2)}, {3, -5}, 1);
  };
  EXPECT_EQ(told({{3, -5}, {3, -5}}), "");
  EXPECT_NE(told({{1, -4}, {2, -1}}).find("the sum over the ranks is missing"), std::string::npos);
  EXPECT_NE(told({{6, -10}, {6, -10}}).find("2 times too large"), std::string::npos);
  EXPECT_NE(told({{4, -5}}).find("not a missing sum"), std::string::npos);
  EXPECT_EQ(told({{4, -5}, {3, -5}}), "rank 0: dx, element 0 of its 2, is 4; on one rank it is 3");
}

TEST(Sayings, APlaceNamesItsFunction) {
  const std::string place = "/s/labs/week22_zero/zero1.cpp:73";
  EXPECT_EQ(Sayings::place_in({"lockstep::week22::(anonymous namespace)::Zero1::gather(int)", place}, "zero1.cpp"),
            "zero1.cpp:73 (gather)");
  EXPECT_EQ(Sayings::place_in({"void lockstep::week21::f(lockstep::Rank)", place}, "zero1.cpp"), "zero1.cpp:73 (f)");
}

}  // namespace
}  // namespace lockstep::tools
