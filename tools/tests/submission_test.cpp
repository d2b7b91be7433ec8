// Tests what ./lab grade takes from a submission.
#include <gtest/gtest.h>

#include "common/error.hpp"
#include "common/support/tests/folder_testing.hpp"
#include "common/support/tests/refusal_testing.hpp"
#include "common/support/text/files.hpp"
#include "tools/course/process.hpp"
#include "tools/grade/grade_submission.hpp"
#include "tools/tests/course_testing.hpp"

namespace lockstep::tools {
namespace {

std::string id_at(const char* path) {
  auto all = the_course().select("").exercises;
  const Place place = place_of(all, path);
  return !place.exercise ? "" : place.exercise->id + (place.sure ? "" : "?");
}

TEST(Submissions, KnowsAnAnswerByItsPath) {
  for (const char* path :
       {"ring_all_reduce.cpp", "week21_data_parallel/ring_all_reduce.cpp",
        "labs/week21_data_parallel/ring_all_reduce.cpp", "handed-in/week21_data_parallel/ring_all_reduce.cpp",
        "lockstep-main/labs/week21_data_parallel/ring_all_reduce.cpp"}) {
    EXPECT_EQ(id_at(path), "21.2") << path;
  }
  for (const char* path : {"anna/ring_all_reduce.cpp", "./anna/ring_all_reduce.cpp", "labs/ring_all_reduce.cpp"})
    EXPECT_EQ(id_at(path), "21.2?") << path;
}

TEST(Submissions, TakesNothingElse) {
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

TEST(Submissions, AnArchiveOfAHundredThousandEntriesIsNotRead) {
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

}  // namespace
}  // namespace lockstep::tools
