// Tests what ./lab grade takes from a submission, and what an answer's object may hold. Whole submissions:
// grade_test.sh.
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
#include "tools/course/process.hpp"
#include "tools/grade/grade_isolate.hpp"
#include "tools/grade/grade_judge.hpp"
#include "tools/grade/grade_names.hpp"
#include "tools/grade/grade_object.hpp"
#include "tools/grade/grade_run.hpp"
#include "tools/grade/grade_submission.hpp"
#include "tools/grade/grade_summary.hpp"
#include "tools/grade/heartbeat.hpp"

namespace lockstep::tools {
namespace {

Course the_course() { return Course::read(fs::path(LOCKSTEP_SOURCE_DIR) / "labs" / "course.json"); }

std::string id_at(const char* path) {
  auto all = the_course().select("").exercises;
  const Place place = place_of(all, path);
  return !place.exercise ? "" : place.exercise->id + (place.sure ? "" : "?");
}

TEST(Grade, KnowsAnAnswerByItsPath) {
  for (const char* path :
       {"ring_all_reduce.cpp", "week21_data_parallel/ring_all_reduce.cpp",
        "labs/week21_data_parallel/ring_all_reduce.cpp", "handed-in/week21_data_parallel/ring_all_reduce.cpp",
        "lockstep-main/labs/week21_data_parallel/ring_all_reduce.cpp"}) {
    EXPECT_EQ(id_at(path), "21.2") << path;
  }
  for (const char* path : {"anna/ring_all_reduce.cpp", "./anna/ring_all_reduce.cpp", "labs/ring_all_reduce.cpp"})
    EXPECT_EQ(id_at(path), "21.2?") << path;
}

TEST(Grade, TakesNothingElse) {
  for (const char* path :
       {"/labs/week21_data_parallel/ring_all_reduce.cpp", "../week21_data_parallel/ring_all_reduce.cpp",
        "labs/../solutions/week21_data_parallel/ring_all_reduce.cpp",
        "solutions/week21_data_parallel/ring_all_reduce.cpp", "build/week21_data_parallel/ring_all_reduce.cpp",
        "a/b/week21_data_parallel/ring_all_reduce.cpp", "a/b/ring_all_reduce.cpp", "build/ring_all_reduce.cpp",
        "__MACOSX/ring_all_reduce.cpp", "solutions/ring_all_reduce.cpp", "anna/ring_all_reduce.cpp/x",
        "week22_zero/ring_all_reduce.cpp", "week21_data_parallel/ring_all_reduce.hpp", "ring_all_reduce_test.cpp",
        "labs/week21_data_parallel/CMakeLists.txt", "labs/course.json",
        "__MACOSX/week21_data_parallel/ring_all_reduce.cpp", "ring_all_reduce.cpp/x", ""}) {
    EXPECT_EQ(id_at(path), "") << path;
  }
}

class Submitted : public TestFolder {
 protected:
  Submission submission(const fs::path& from) const {
    fs::create_directories(folder_ / "scratch");
    return read_submission(from, the_course().select("").exercises, folder_ / "scratch");
  }
  /// Packs what lies in the folder `from`.
  void pack(const char* from, const fs::path& archive) const {
    Command tar{.arguments = {"cmake", "-E", "tar", "cf", (folder_ / archive).string(), "--format=zip", "."},
                .folder = folder_ / from};
    fs::create_directories((folder_ / archive).parent_path());
    ASSERT_TRUE(run_command(tar).ok());
  }
};

TEST_F(Submitted, AnAnswerThatIsThereTwiceDoesNotCount) {
  put("ring_all_reduce.cpp", "// one\n");
  put("week21_data_parallel/ring_all_reduce.cpp", "// two\n");
  put("ddp.cpp", std::string(300'000, '/'));
  put("mine.cpp", "// a helper\n");
  Submission found = read_submission(folder_, the_course().select("").exercises, folder_);
  EXPECT_TRUE(found.answers.empty());
  EXPECT_NE(found.refused["21.2"].find("more than once"), std::string::npos);
  EXPECT_NE(found.refused["21.7"].find("300000 bytes"), std::string::npos);
  EXPECT_EQ(found.ignored, std::vector<std::string>{"mine.cpp"});
}

TEST(Grade, SaysWhereAnAnswerNamesWhatIsRefused) {
  const std::string answer =
      "// exit\nint now() { return puts(\"exit\"); }\nvoid f() {\n  std::random_device d;\n  std::exit(0);\n}\n";
  EXPECT_EQ(named_at(answer, "exit"), " (line 5)");
  EXPECT_EQ(named_at(answer, "std::random_device::_M_getval()"), " (line 4)");
  EXPECT_EQ(named_at(answer, "std::ifstream"), "");
  EXPECT_EQ(named_at(answer, "void std::call_once<void (&)()>(std::once_flag&)"), "");
  EXPECT_EQ(named_at("", "(anonymous namespace)::f()"), "");
}

TEST_F(Submitted, FilesInAFolderOfAnotherNameCountWhereNothingElseDoes) {
  put("in/anna/ring_all_reduce.cpp", "// anna's\n");
  put("in/anna/ddp.cpp", "// a draft\n");
  put("in/week21_data_parallel/ddp.cpp", "// the answer\n");
  put("in/anna/accumulation.cpp", "// one\n");
  put("in/old/accumulation.cpp", "// two\n");
  const Submission found = submission(folder_ / "in");
  EXPECT_EQ(found.answers, (std::map<std::string, std::string>{{"21.2", "// anna's\n"}, {"21.7", "// the answer\n"}}));
  EXPECT_NE(found.refused.at("21.6").find("more than once"), std::string::npos);
  EXPECT_EQ(found.misplaced, (std::map<std::string, std::string>{{"21.7", "anna/ddp.cpp"}}));
  EXPECT_TRUE(found.ignored.empty());
  EXPECT_EQ(submission(folder_ / "in" / "anna" / "ddp.cpp").answers.at("21.7"), "// a draft\n");
}

TEST_F(Submitted, WhatLiesTooDeepIsToldWithWhatIsExpected) {
  put("in/Assignment 1/anna/week21_data_parallel/ring_all_reduce.cpp", "// hers\n");
  put("in/Assignment 1/anna/week21_data_parallel/ring_all_reduce_test.cpp", "");
  put("in/Assignment 1/anna.zip", "");
  const Submission found = submission(folder_ / "in");
  const std::string deep = "Assignment 1/anna/week21_data_parallel/ring_all_reduce.cpp";
  EXPECT_TRUE(found.empty());
  EXPECT_EQ(found.misplaced, (std::map<std::string, std::string>{{"21.2", deep}}));
  EXPECT_EQ(found.archives, std::vector<std::string>{"Assignment 1/anna.zip"});
  const std::string why = found.why_missing(the_course().exercise("21.2"));
  EXPECT_TRUE(
      why.starts_with("there is no labs/week21_data_parallel/ring_all_reduce.cpp; there is " + deep +
                      ", which does not count: move it to week21_data_parallel/ring_all_reduce.cpp\nFound: " + deep))
      << why;
  EXPECT_NE(why.find("anna.zip. Expected: week21_data_parallel/ring_all_reduce.cpp at the top"), why.npos) << why;
  const Course course = the_course();
  EXPECT_EQ(
      found.found_instead({course.exercise("21.2")}),
      "No file of this submission is in an accepted place. Found: 3 files, among them " + deep +
          "; expected, for example, week21_data_parallel/ring_all_reduce.cpp at the top, below labs/ or below one "
          "more folder, or ring_all_reduce.cpp at the top.\n");
}

TEST_F(Submitted, AWholeHandoutHasNothingToRemarkOn) {
  put("in/lockstep/labs/week21_data_parallel/ddp.cpp", "// hers\n");
  put("in/lockstep/prebuilt/skeletons/ddp.cpp", "");
  put("in/lockstep/tools/scale/diagnosis.cpp", "");
  put("in/lockstep/common/cost.cpp", "");
  put("in/lockstep/labs/hers.cpp", ""), put("in/mine.cpp", "");
  put("in/old/week22_zero/zero2.cpp", ""), put("in/solutions/week22_zero/zero1.cpp", "");
  put("suite/tools/scale/diagnosis.cpp", ""), put("suite/common/cost.cpp", "");
  put("suite/solutions/week22_zero/zero1.cpp", "");
  Submission found = submission(folder_ / "in");
  found.leave_out_given_files(folder_ / "suite");
  EXPECT_EQ(found.answers.at("21.7"), "// hers\n");
  EXPECT_EQ(found.ignored, (std::vector<std::string>{"lockstep/labs/hers.cpp", "mine.cpp"}));
  EXPECT_EQ(found.misplaced, (std::map<std::string, std::string>{{"22.2", "solutions/week22_zero/zero1.cpp"}}));
}

TEST_F(Submitted, WhereFilesBelongIsToldOnceForAFolder) {
  const std::string week = "week21_data_parallel", deep = "Desktop/ml/lockstep/labs/" + week;
  for (const char* name : {"ring_all_reduce", "cost_model", "ddp"})
    put("in/" + deep + "/" + name + ".cpp", "// hers\n");
  put("in/old/one/backup/accumulation.cpp", "// hers\n");
  EXPECT_EQ(
      submission(folder_ / "in").where_they_belong(the_course()),
      "3 files in " + deep + " (move them to " + week + "), old/one/backup/accumulation.cpp (move it to " + week + ")");
}

TEST(Grade, TheSummarySaysWhichFileToRename) {
  const GradedRow absent{.verdict = "NOT SUBMITTED", .reason = "there is no labs/x/a.cpp\nFound: b.cpp"};
  const GradedRow renamed{
      .verdict = "NOT SUBMITTED", .reason = "there is no x/a.cpp: rename A.cpp to a.cpp\nFound: A", .may_be = "A.cpp"};
  EXPECT_EQ(first_sentence(absent), "");
  EXPECT_EQ(first_sentence(renamed), "there is no x/a.cpp: rename A.cpp to a.cpp");
}

TEST_F(Submitted, AFileThatIsNamedOtherwiseIsToBeRenamed) {
  for (const char* file : {"Ring_All_Reduce.cpp", "cost_model (1).cpp", "ddp.cpp.txt", "accumulation copy.cpp",
                           "scaling-laws-2.CPP", "naive.cpp", "my_ring_all_reduce.txt"})
    put("in/" + std::string(file), "// hers\n");
  const Submission found = submission(folder_ / "in");
  const auto near = [&](const char* id) { return found.near_miss(the_course().exercise(id)); };
  EXPECT_EQ(near("21.2"), "Ring_All_Reduce.cpp");
  EXPECT_EQ(near("21.5"), "cost_model (1).cpp");
  EXPECT_EQ(near("21.6"), "accumulation copy.cpp");
  EXPECT_EQ(near("21.7"), "ddp.cpp.txt");
  EXPECT_EQ(near("21.10"), "scaling-laws-2.CPP");
  EXPECT_EQ(near("21.1"), "");
  EXPECT_TRUE(
      found.why_missing(the_course().exercise("21.7"))
          .starts_with("there is no labs/week21_data_parallel/ddp.cpp: rename ddp.cpp.txt to ddp.cpp\nFound: "));
  const std::string instead = found.found_instead({the_course().exercise("21.2"), the_course().exercise("21.7")});
  EXPECT_NE(instead.find("Rename Ring_All_Reduce.cpp to ring_all_reduce.cpp.\nRename ddp.cpp.txt to ddp.cpp.\n"),
            instead.npos)
      << instead;
}

TEST_F(Submitted, TheDownloadOfAClassIsKnown) {
  put("canvas/annalee_1001_71_answers.zip", "");
  put("canvas/annalee_1001_72_answers-1.zip", "");
  pack("canvas", "one.zip");
  EXPECT_FALSE(submission(folder_ / "one.zip").is_download()) << "one student's, twice";
  put("canvas/bobray_1002_73_answers.zip", "");
  put("moodle/Anna Lee_1001_assignsubmission_file_/answers.zip", "");
  put("moodle/Bob Ray_1002_assignsubmission_file_/answers.zip", "");
  for (const char* system : {"canvas", "moodle"}) {
    pack(system, "both.zip");
    EXPECT_TRUE(submission(folder_ / "both.zip").is_download()) << system;
  }
}

TEST_F(Submitted, TheOnlyArchiveOfAFolderIsOpened) {
  put("week/labs/week21_data_parallel/ring_all_reduce.cpp", "// hers\n");
  put("week/deep/er/ddp.cpp", "// too deep\n");
  pack("week", "in/Kim_7_file_/answers.zip");
  put("in/Kim_7_file_/readme.txt", "see answers.zip\n");
  put("in/Kim_7_file_/__MACOSX/._answers.zip", "");
  const fs::path kim = folder_ / "in" / "Kim_7_file_";
  const Submission found = submission(kim);
  EXPECT_EQ(found.answers, (std::map<std::string, std::string>{{"21.2", "// hers\n"}}));
  EXPECT_EQ(found.opened, "answers.zip");
  EXPECT_EQ(found.misplaced.count("21.7"), 1u);
  EXPECT_EQ(found.files, 3u);

  // With the limits of an archive that is handed in as it is.
  put("week/labs/week21_data_parallel/ring_all_reduce.cpp", std::string(300'000, '/'));
  pack("week", "in/long/answers.zip");
  fs::remove_all(folder_ / "scratch");
  EXPECT_NE(submission(folder_ / "in" / "long").refused.at("21.2").find("more than 262144 bytes"), std::string::npos);
  put("in/broken/answers.zip", "My answers are below.\n");
  EXPECT_NE(
      lockstep::refusal([&] { submission(folder_ / "in" / "broken"); }).find("answers.zip is neither a complete .zip"),
      std::string::npos);
}

TEST_F(Submitted, TheOnlyArchiveOfAnArchiveIsOpened) {
  put("week/labs/week21_data_parallel/ring_all_reduce.cpp", "// hers\n");
  pack("week", "folder/answers.zip");
  put("folder/readme.txt", "see answers.zip\n");
  pack("folder", "in/kim.zip");
  const Submission found = submission(folder_ / "in" / "kim.zip");
  EXPECT_EQ(found.answers, (std::map<std::string, std::string>{{"21.2", "// hers\n"}}));
  EXPECT_EQ(found.opened, "answers.zip");
  EXPECT_EQ(found.files, 2u);

  // An archive of an archive of an archive is one too many, and of two the newest is not guessed.
  pack("in", "thrice/kim.zip");
  pack("thrice", "deep/kim.zip");
  fs::remove_all(folder_ / "scratch");
  EXPECT_TRUE(submission(folder_ / "deep" / "kim.zip").empty());
  pack("week", "folder/answers2.zip");
  pack("folder", "in/two.zip");
  fs::remove_all(folder_ / "scratch");
  EXPECT_TRUE(submission(folder_ / "in" / "two.zip").empty());
}

TEST_F(Submitted, WhatMacosAddsIsNotMentioned) {
  put("week/ring_all_reduce.cpp", "// hers\n");
  for (const char* file : {"._ring_all_reduce.cpp", "._notes.cpp", "__MACOSX/._ring_all_reduce.cpp", ".DS_Store"})
    put("week/" + std::string(file), "Mac OS X");
  pack("week", "in/anna.zip");
  pack("week", "in/kim/answers.zip");
  put("in/kim/._answers.zip", "Mac OS X");
  for (const char* place : {"week", "in/anna.zip", "in/kim"}) {
    fs::remove_all(folder_ / "scratch");
    const Submission found = submission(folder_ / place);
    EXPECT_EQ(found.answers, (std::map<std::string, std::string>{{"21.2", "// hers\n"}})) << place;
    EXPECT_EQ(found.files, 1u) << place;
    EXPECT_TRUE(found.ignored.empty() && found.archives.empty() && found.misplaced.empty()) << place;
  }
}

TEST(Grade, AnArchiveOfAHundredThousandEntriesIsNotRead) {
  const Course course = the_course();
  const auto refused = [&](const std::string& entry, int count) {
    std::string list;
    for (int i = 0; i < count; ++i) list += std::to_string(i) + "/" + entry + "\n";
    return lockstep::refusal([&] { read_list(list, course.select("").exercises); });
  };
  EXPECT_NE(refused("x", 100'000).find("more than 20000 files"), std::string::npos);
  EXPECT_NE(refused("ring_all_reduce.cpp", 10'000).find("more than 500 files"), std::string::npos);
  EXPECT_EQ(refused("x", 10'000), "");
}

TEST_F(Submitted, ADamagedEntryCostsItsOwnExercise) {
  std::string numbers;
  for (int i = 0; i < 2000; ++i) numbers += std::to_string(i * i) + "\n";
  put("week/accumulation.cpp", numbers);
  put("week/ring_all_reduce.cpp", "// hers\n");
  pack("week", "in/anna.zip");
  const fs::path archive = folder_ / "in" / "anna.zip";
  std::string bytes = read_text(archive);
  for (std::size_t at = 200; at < 300; ++at) bytes[at] = static_cast<char>(~bytes[at]);  // of the longer file
  write_text(archive, bytes);
  const Submission found = submission(archive);
  EXPECT_EQ(found.answers, (std::map<std::string, std::string>{{"21.2", "// hers\n"}}));
  ASSERT_EQ(found.refused.size(), 1u);
  EXPECT_NE(found.refused.at("21.6").find("it is damaged"), std::string::npos) << found.refused.at("21.6");
}

TEST_F(Submitted, AnArchiveMayHaveANameThatIsNotUtf8) {
  put("week/ring_all_reduce.cpp", "// hers\n");
  pack("week", "in/x.zip");
  const fs::path latin = folder_ / "in" / "caf\xe9.zip";
  fs::rename(folder_ / "in" / "x.zip", latin);
  EXPECT_EQ(submission(latin).answers, (std::map<std::string, std::string>{{"21.2", "// hers\n"}}));
}

TEST_F(Submitted, AnArchiveBesideAnswersOrAnotherOrALinkIsNotOpened) {
  put("week/ring_all_reduce.cpp", "// packed\n");
  for (const char* archive : {"in/beside/old.zip", "in/two/a.zip", "in/two/b.zip", "elsewhere.zip"})
    pack("week", archive);
  put("in/beside/ring_all_reduce.cpp", "// hers\n");
  const Submission beside = submission(folder_ / "in" / "beside");
  EXPECT_EQ(beside.answers.at("21.2"), "// hers\n");
  EXPECT_EQ(beside.archives, std::vector<std::string>{"old.zip"});
  EXPECT_EQ(lockstep::refusal([&] { submission(folder_ / "in" / "two"); }),
            "two archives and no lab file: leave one of a.zip, b.zip");
  fs::create_directories(folder_ / "in" / "link");
  fs::create_symlink(folder_ / "elsewhere.zip", folder_ / "in" / "link" / "answers.zip");
  EXPECT_TRUE(submission(folder_ / "in" / "link").empty());
}

TEST_F(Submitted, WhatIsMissingIsSaidBeforeAnythingIsBuilt) {
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

TEST_F(Submitted, ASummaryIsForSpreadsheetsAndPrograms) {
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

TEST_F(Submitted, AFolderInPlaceOfTheFileIsRefusedBeforeAnythingIsJudged) {
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

TEST_F(Submitted, WhatIsNoArchiveIsSaidInOneSentence) {
  for (const char* name : {"essay.zip", "essay.txt", "empty.tar.gz"}) {
    try {
      put(name, std::string_view(name) == "empty.tar.gz" ? "" : "My answers are below.\n");
      submission(folder_ / name);
      EXPECT_STREQ(name, "empty.tar.gz");  // an empty file is an empty archive
    } catch (const Error& error) {
      const std::string said = error.what();
      EXPECT_NE(said.find(std::string(name) + " is neither a complete .zip"), said.npos) << said;
      EXPECT_EQ(said.find('\n'), said.npos) << said;
      EXPECT_EQ(said.find("CMake"), said.npos) << said;
    }
  }
}

TEST(Grade, AnAnswerComputesAndPrints) {
  for (const char* symbol : {"_ZN8lockstep4Rank4waitENS_6TicketESt15source_location", "_ZNK8lockstep7Machine4betaEi",
                             "_ZNSt13runtime_errorD2Ev", "_ZSt17__throw_bad_allocv",
                             "_ZTVN10__cxxabiv117__class_type_infoE", "_ZTISt13runtime_error", "_Znwm", "_ZdlPvm",
                             "memcpy", "sqrtf", "log2", "ldiv", "printf", "__cxa_throw", "_ZSt4cout", "__popcountdi2",
                             "__udivti3", "_ZNSolsEi", "_ZN3fmt2v97vformatB5cxx11ENS0_17basic_string_viewIcEE"}) {
    EXPECT_TRUE(may_call(symbol)) << symbol;
  }
  for (const char* symbol : {"_exit", "exit", "quick_exit", "system", "fork", "open", "fopen", "write", "syscall",
                             "dlsym", "getenv", "environ", "_ZN7testing8UnitTest11GetInstanceEv",
                             "_ZN8lockstep7testing14record_verdictENS_7VerdictESt17basic_string_view",
                             "_ZNSt14basic_ofstreamIcSt11char_traitsIcEEC1EPKc",
                             "_ZNSt10filesystem6removeERKNS_7__cxx114pathE", "_Z4mainv"}) {
    EXPECT_FALSE(may_call(symbol)) << symbol;
  }
}

TEST(Grade, AnAnswerCallsWhatItsHeadersDeclare) {
  const Declared declared{"lockstep", "week21", "ring_all_reduce", "Rank", "start"};
  for (const char* symbol :
       {"_ZN8lockstep6week2115ring_all_reduceENS_4RankENS_5SliceE", "sqrtf", "_ZSt4cout",
        "_ZN8lockstep4Rank5startESt4spanIKNS_8TransferELm18446744073709551615EE", "_ZTVN8lockstep4RankE"})
    EXPECT_TRUE(is_declared(symbol, declared)) << symbol;
  for (const char* symbol : {"_ZN8lockstep16write_atomicallyERKNSt10filesystem7__cxx114pathE", "_ZN8lockstep3runEv",
                             "_ZNK8lockstep8Recorder6ledgerEv", "_ZN8lockstep4Rank4waitENS_6TicketE"})
    EXPECT_FALSE(is_declared(symbol, declared)) << symbol;
}

TEST(Grade, RanksShareNothingOfTheLibrary) {
  for (const char* symbol :
       {"rand", "srand", "_ZSt15set_new_handlerPFvvE", "_ZSt13set_terminatePFvvE", "_ZNSt8ios_base13_M_grow_wordsEib",
        "_ZNSt6locale6globalERKS_", "lockstep_private_at_exit"}) {
    EXPECT_FALSE(may_call(symbol)) << symbol;
  }
}

TEST(Grade, WhatOpensAFileHasItsName) {
  EXPECT_EQ(opened_with("_ZNSt14basic_ifstreamIcSt11char_traitsIcEEC1EPKcSt13_Ios_Openmode"), "std::ifstream");
  EXPECT_EQ(opened_with("_ZNSt13basic_filebufIcSt11char_traitsIcEE5closeEv"), "a stream such as std::ifstream");
  EXPECT_EQ(opened_with("_ZNSt10filesystem6statusERKNS_7__cxx114pathE"), "std::filesystem");
  EXPECT_EQ(opened_with("_ZSt4cout"), "");
}

TEST(Grade, WhatIsCalledIsFoundWhereItIsWritten) {
  const char* answer = "#include <thread>\n\n// a thread\nvoid f() { std::thread t([] {}); }\n";
  EXPECT_EQ(named_at(answer, "std::thread"), " (line 4)");
  EXPECT_EQ(named_at(answer, "std::jthread"), "");
}

TEST(Grade, AnAnswerHasTheSectionsOfACompiler) {
  for (const char* name : {".text", ".text.unlikely", ".data.rel.ro", ".bss", ".init_array", ".debug_line", ".group"})
    EXPECT_TRUE(may_have_section(name)) << name;
  for (const char* name : {".init", ".preinit_array", ".init_array.00101", ".fini_array", ".ctors", "lockstep_private",
                           ".gnu.linkonce.t.f", ".gnu.lto_main", ".tbss", ".gnu.warning.f", "mine", ".textual"})
    EXPECT_FALSE(may_have_section(name)) << name;
}

TEST(Grade, AnAnswerIncludesHeaders) {
  Paths paths{.source = LOCKSTEP_SOURCE_DIR, .build = "/nowhere", .labs = "/nowhere", .course = {}};
  for (const char* file :
       {"common/rank.hpp", "common/runtime/ledger/ledger.hpp", "labs/week21_data_parallel/ddp.hpp"}) {
    EXPECT_TRUE(may_include(paths, paths.source / file)) << file;
  }
  EXPECT_TRUE(may_include(paths, "/usr/include/c++/12/vector"));
  for (const char* file :
       {"solutions/week21_data_parallel/ddp.cpp", "labs/week21_data_parallel/ddp.cpp", "tools/course/judge.hpp",
        "common/testing/verdict.hpp", "common/devices/tests/reference.hpp", "common/backends/sim/world.hpp",
        "common/runtime/private_data.hpp", "common/runtime/rank.cpp", "solutions/ddp.hpp"}) {
    EXPECT_FALSE(may_include(paths, paths.source / file)) << file;
  }
  EXPECT_FALSE(may_include(paths, "/home/somebody/solutions/ddp.cpp"));
}

TEST(Grade, AFileThatIsGoneMeanwhileIsNotEndless) {
  const Scratch folder;
  std::ofstream(folder.path() / "words") << "three";
  const fs::directory_entry file(folder.path() / "words");
  EXPECT_EQ(bytes_of(file), 5u);
  fs::remove(file);
  EXPECT_EQ(bytes_of(file), 0u);
}

TEST(Grade, WhereFilesLieOnTheGradersComputerIsNotTold) {
  Paths paths{.source = LOCKSTEP_SOURCE_DIR, .build = "/nowhere", .labs = "/nowhere", .course = {}};
  const auto told = [&](const fs::path& file, const char* answer) { return told_file(paths, file, answer); };
  const char* by_name = "#include \"solutions/ddp.cpp\"\n#include \"../hidden/grades.csv\"\n";
  EXPECT_EQ(told(paths.source / "solutions/ddp.cpp", by_name), "solutions/ddp.cpp");
  EXPECT_EQ(told(paths.source / "labs/../solutions/ddp.cpp", by_name), "solutions/ddp.cpp");
  EXPECT_EQ(told("/home/grader/hidden/grades.csv", by_name), "grades.csv");
  EXPECT_EQ(told("/etc/passwd", "#include \"/etc/passwd\"\n"), "/etc/passwd");
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

TEST_F(Submitted, JUnitStaysWellFormed) {
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
