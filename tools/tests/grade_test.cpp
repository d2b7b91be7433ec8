// Tests ./lab grade around its verdicts: names of results, reasons, progress, summaries, and requests that it refuses.
// Whole submissions: grade_test.sh.
#include "tools/grade/grade.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <optional>

#include "common/error.hpp"
#include "common/support/tests/folder_testing.hpp"
#include "common/support/tests/refusal_testing.hpp"
#include "tools/course/commands.hpp"
#include "tools/grade/grade_judge.hpp"
#include "tools/grade/grade_names.hpp"
#include "tools/grade/grade_run.hpp"
#include "tools/grade/grade_summary.hpp"
#include "tools/grade/heartbeat.hpp"
#include "tools/tests/course_testing.hpp"

namespace lockstep::tools {
namespace {

TEST(Grade, TheSummarySaysWhichFileToRename) {
  const GradedRow absent{.verdict = "NOT SUBMITTED", .reason = "there is no labs/x/a.cpp\nFound: b.cpp"};
  const GradedRow renamed{
      .verdict = "NOT SUBMITTED", .reason = "there is no x/a.cpp: rename A.cpp to a.cpp\nFound: A", .may_be = "A.cpp"};
  EXPECT_EQ(first_sentence(absent), "");
  EXPECT_EQ(first_sentence(renamed), "there is no x/a.cpp: rename A.cpp to a.cpp");
}

using GradedFolder = TestFolder;

TEST_F(GradedFolder, WhatIsMissingIsSaidBeforeAnythingIsBuilt) {
  put("labs/week21_data_parallel/ring_all_reduce_test.cpp", "");
  put("build/backends/sim", "");
  put("anna/ring_all_reduce.cpp", "");
  const Paths paths{.source = folder_, .build = folder_ / "build", .labs = folder_ / "labs", .course = the_course()};
  const auto refused = [&](const std::vector<std::string>& submissions) {
    return lockstep::refusal(
        [&] { grade(paths, {.submissions = submissions, .what = "21.2", .out = folder_ / "grades"}); });
  };
  EXPECT_EQ(refused({"no.zip"}), "There is no no.zip: nothing was graded.");
  EXPECT_EQ(refused({"no.zip", file("anna"), "in/*"}), "There is no no.zip, no in/*: nothing was graded.");
  EXPECT_FALSE(fs::exists(folder_ / "build" / "grade"));
  EXPECT_FALSE(fs::exists(folder_ / "grades"));
}

TEST(Grade, TheNewestOfAStudentCounts) {
  const std::string first = "in/lee_ann_LATE_1234_99_answers.zip", again = "in/lee_ann_1234_100_answers-1.zip";
  const std::string other = "in/leeann_77_98_answers.zip", plain = "in/leeann-1.zip";
  const std::vector<HandedIn> students = newest_of_each({plain, first, other, again, "in/leeann.zip"});
  ASSERT_EQ(students.size(), 4u) << "only Canvas's names say whose a file is";
  EXPECT_EQ(students[1].newest, again) << "100 comes after 99";
  EXPECT_EQ(students[1].older, std::vector<std::string>{first});
  EXPECT_EQ(students[2].newest, other);
  EXPECT_EQ(newest_of_each({again, first}).at(0).newest, again);
  for (const std::string& file : {first, again}) EXPECT_EQ(name_for(file, {}), "lee_ann_1234");
  EXPECT_TRUE(read_download(first)->late);
  EXPECT_FALSE(read_download(again)->late);
  EXPECT_EQ(name_for("in/Kim Lee_7_assignsubmission_file_/", {}), "Kim Lee_7");
  const std::string typed = "in/Kim Lee_7_assignsubmission_onlinetext_", files = "in/Kim Lee_7_assignsubmission_file_";
  const std::string only_typed = "in/Bo An_8_assignsubmission_onlinetext_";
  const std::vector<HandedIn> of_moodle = newest_of_each({typed, files, only_typed});
  ASSERT_EQ(of_moodle.size(), 2u);
  EXPECT_EQ(of_moodle[0].newest, files);
  EXPECT_EQ(of_moodle[0].typed, typed);
  EXPECT_EQ(of_moodle[1].newest, only_typed);
  EXPECT_EQ(stem_of("in/Kim Lee_7_assignsubmission_file_.tar.gz"), "Kim Lee_7_assignsubmission_file_");
  for (const char* name : {"anna.zip", "team_7.zip", "team_7_answers.zip", "7_8_x.zip"})
    EXPECT_FALSE(read_download(name)) << name;
}

TEST(Grade, AHeartbeatSaysWhichSubmissionAndWhat) {
  Heartbeat heartbeat(10);
  heartbeat.begin("anna");
  heartbeat.at("linking its answers");
  EXPECT_EQ(heartbeat.line(), "[1/10] anna: linking its answers");
  const Heartbeat::Part first(heartbeat, "21.2a");
  EXPECT_EQ(heartbeat.line(), "[1/10] anna: 21.2a");
  std::optional<Heartbeat::Part> second(std::in_place, heartbeat, "21.5");
  const Heartbeat::Part third(heartbeat, "21.6");
  EXPECT_EQ(heartbeat.line(), "[1/10] anna: 21.2a and 2 more") << "the one that takes longest";
  second.reset();
  EXPECT_EQ(heartbeat.line(), "[1/10] anna: 21.2a and 1 more");
}

TEST(Grade, AHeartbeatEstimatesByTheSubmissionsThatWereGraded) {
  using std::chrono::minutes;
  Heartbeat::Clock::time_point now{};
  Heartbeat heartbeat(10, [&] { return now; });
  const auto grade_for = [&](minutes time) { heartbeat.expect(2), heartbeat.step(), now += time; };
  heartbeat.begin("anna");
  now += minutes(30);  // the suite is built
  grade_for(minutes(2));
  EXPECT_EQ(heartbeat.line(), "[1/10] anna: reading it") << "the first knows nothing of the rest";
  heartbeat.begin("bob");  // was graded before, or cannot be read
  heartbeat.begin("carol");
  now += minutes(7);  // another ./lab grade is at it
  heartbeat.at("building the suite");
  EXPECT_EQ(heartbeat.line(), "[3/10] carol: building the suite, about 16 min left") << "8 of 2 min each";
  grade_for(minutes(4));
  EXPECT_EQ(heartbeat.line(), "[3/10] carol: building the suite, about 15 min left") << "half of it is done";
  for (const char* name : {"dan", "eve"}) heartbeat.begin(name);
  EXPECT_EQ(heartbeat.line(), "[5/10] eve: reading it, about 18 min left") << "6 of 3 min each";
}

TEST(Grade, ANameOfResultsIsShortAndReadable) {
  EXPECT_EQ(name_for("handed-in/anna.tar.gz", {}), "anna");
  EXPECT_EQ(name_for("more/anna.zip", {"anna"}), "anna-2");
  EXPECT_EQ(name_for("summary.zip", {}), "summary-2");
  const std::string half(125, 'n');
  const std::string first = name_for(half + "first.zip", {}), second = name_for(half + "second.zip", {});
  EXPECT_LT(first.size(), 150u);
  EXPECT_NE(first, second);
  EXPECT_EQ(first, name_for("elsewhere/" + half + "first.zip", {}));
  const std::string latin = name_for("caf\xe9\n.zip", {});
  EXPECT_TRUE(latin.starts_with("caf\uFFFD_-")) << latin;
  EXPECT_NE(latin, name_for("caf\xea\n.zip", {}));
}

TEST_F(GradedFolder, ASummaryIsForSpreadsheetsAndPrograms) {
  put("x", "");
  const Grading anna{
      .rows = {{.id = "21.1", .points = 5, .most = 5, .verdict = "PASS"},
               {.id = "21.2a",
                .most = 13,
                .verdict = "TIMEOUT",
                .reason = "Lab21_2a.Sums: with 2 ranks:\nrank 0 is late\x1b\xc2\x9b. It waits.\nreplay: no"}},
      .seconds = 2};
  const Grading bob{.rows = {}, .remarks = "nothing was graded: \"bob.zip\" is\nno archive\n", .graded = false};
  join_summary(folder_, summary_row("=an\xfcna", {.graded = false}));
  join_summary(folder_, summary_row("bob", bob));
  join_summary(folder_, summary_row("=an\xfcna", anna));
  EXPECT_EQ(read_text(folder_ / "summary.csv"),
            "submission,points,most,seconds,seed,21.1,21.2a,remarks,why\n"
            "\"'=an\uFFFDna\",5,18,2,\"0\",\"PASS\",\"TIMEOUT\",\"\",\"21.2a: Lab21_2a.Sums: with 2 ranks: rank 0 is "
            "late   .\"\n"
            "\"bob\",0,0,0,\"0\",\"\",\"\",\"nothing was graded: \"\"bob.zip\"\" is no archive\",\"\"\n");
  const std::string json = read_text(folder_ / "summary.json");
  for (const char* words : {"\"points\": 5", "\"21.2a\": \"TIMEOUT\"", "\"graded\": false", "an\uFFFDna"})
    EXPECT_NE(json.find(words), json.npos) << json;
}

TEST_F(GradedFolder, AFolderInPlaceOfTheFileIsRefusedBeforeAnythingIsJudged) {
  put("build/backends/sim", "");
  put("anna/x", "");
  const Paths paths{.source = folder_, .build = folder_ / "build", .labs = folder_, .course = the_course()};
  const auto expect_refused = [&](const std::function<void()>& command) {
    try {
      command();
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), "cannot write " + file("anna") + ": it is a folder");
    }
  };
  const std::string anna = file("anna");
  expect_refused([&] { check(paths, {.what = "21.2", .json = anna}); });
  EXPECT_EQ(lockstep::refusal([&] { grade(paths, {.submissions = {anna}, .what = "21.2", .out = anna}); }),
            "--out " + anna + " was handed in: choose another folder.");
  expect_refused(
      [&] { grade(paths, {.submissions = {anna}, .what = "21.2", .out = anna + "/r.json", .junit = anna}); });
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 2) << "a file was left";
  EXPECT_EQ(std::distance(fs::directory_iterator(anna), {}), 1) << "a file was left";
}

TEST(Grade, AFileThatIsGoneMeanwhileIsNotEndless) {
  const Scratch folder;
  std::ofstream(folder.path() / "words") << "three";
  const fs::directory_entry file(folder.path() / "words");
  EXPECT_EQ(bytes_of(file), 5u);
  fs::remove(file);
  EXPECT_EQ(bytes_of(file), 0u);
}

TEST(Grade, WordsForStudentsHaveNoFoldersOfTheGraders) {
  const fs::path source = LOCKSTEP_SOURCE_DIR;
  const Paths paths{.source = source, .build = source / "build" / "x", .labs = "/nowhere", .course = {}};
  const std::string scratch = (fs::temp_directory_path() / "lockstep_grade_aB3dE6").string();
  EXPECT_EQ(without_folders(paths, "in " + scratch + "/week21/ddp.cpp, of " + source.string() + "/labs/ddp.hpp and " +
                                       paths.build.string() + "/programs/x"),
            "in week21/ddp.cpp, of labs/ddp.hpp and programs/x");
  EXPECT_EQ(without_folders(paths, "cannot open [/home/course/in/anna/a.cpp]", "/home/course/in/anna"),
            "cannot open [anna/a.cpp]");
  EXPECT_EQ(without_folders(paths, scratch), "");  // and nothing behind it
}

TEST_F(GradedFolder, JUnitStaysWellFormed) {
  Grading grading;
  grading.rows.push_back(
      {.id = "21.2", .title = "a < b & \"c\"", .most = 3, .verdict = "FAIL", .reason = "]]>\x01\xff"});
  write_junit(file("junit.xml"), grading);
  std::string text = read_text(file("junit.xml"));
  EXPECT_NE(text.find("name=\"21.2 a &lt; b &amp; &quot;c&quot;\""), std::string::npos) << text;
  EXPECT_NE(text.find(">]]&gt;\xEF\xBF\xBD\xEF\xBF\xBD</failure>"), std::string::npos) << text;
  EXPECT_NE(text.find("tests=\"1\" failures=\"1\""), std::string::npos) << text;
}

}  // namespace
}  // namespace lockstep::tools
