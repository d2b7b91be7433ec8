// Tests the other files in a submission, and what answers have in common.
#include <gtest/gtest.h>

#include "common/support/tests/folder_testing.hpp"
#include "tools/course/process.hpp"
#include "tools/grade/class/class_page.hpp"
#include "tools/grade/class/feedback.hpp"
#include "tools/grade/grade_judge.hpp"
#include "tools/grade/grade_submission.hpp"
#include "tools/grade/grade_summary.hpp"

namespace lockstep::tools::handed_in_test {
namespace {

using Words = std::vector<std::string>;

TEST(HandedIn, ManyPrintedLinesAreCounted) {
  EXPECT_EQ(first_lines("a\nb\n", 2), "a\nb\n");
  EXPECT_EQ(first_lines("a\nb\nc\n", 2), "a\nb\n… 1 more line\n");
  EXPECT_EQ(first_lines("a\nb\nc\nd", 2), "a\nb\n… 2 more lines\n");
}

class OwnTests : public TestFolder {
 protected:
  void SetUp() override {
    for (const char* name : {"a_test.cpp", "b_test.cpp", "a.hpp", "b.hpp", "c.hpp"})
      put(std::string("suite/labs/week21_data_parallel/") + name, "ours\n");
    put("suite/tools/x.hpp", "ours\n");
    put("in/labs/week21_data_parallel/ddp.cpp", "// hers\n");
  }
  std::string remark(const char* from) const {
    fs::create_directories(folder_ / "scratch");
    const Course course = Course::read(fs::path(LOCKSTEP_SOURCE_DIR) / "labs" / "course.json");
    return read_submission(folder_ / from, course.select("").exercises, folder_ / "scratch")
        .differing_remark(folder_ / "suite");
  }
};

TEST_F(OwnTests, AreNamedWhereTheyDiffer) {
  put("in/labs/week21_data_parallel/a_test.cpp", "ours\r\n");
  put("in/labs/week21_data_parallel/mine.hpp", "hers\n");
  put("in/tools/x.hpp", "hers\n");
  EXPECT_EQ(remark("in"), "");
  put("in/labs/week21_data_parallel/b_test.cpp", "easier\n");
  EXPECT_EQ(remark("in"), "Ignored, differs from ours: b_test.cpp.\n");
  for (const char* name : {"a", "b", "c"}) put(std::string("in/labs/week21_data_parallel/") + name + ".hpp", "hers\n");
  EXPECT_EQ(remark("in"), "Ignored, differs from ours: a.hpp, b.hpp, b_test.cpp and 1 more.\n");
}

TEST_F(OwnTests, AreNamedInAnArchiveToo) {
  put("in/labs/week21_data_parallel/b_test.cpp", "easier\n");
  put("in/labs/week21_data_parallel/a.hpp", "ours\n");
  Command tar{.arguments = {"cmake", "-E", "tar", "cf", file("in.zip"), "--format=zip", "labs"},
              .folder = folder_ / "in"};
  ASSERT_TRUE(run_command(tar).ok());
  EXPECT_EQ(remark("in.zip"), "Ignored, differs from ours: b_test.cpp.\n");
}

TEST_F(OwnTests, AtMostThreeFilesNearTheMissingOneAreTold) {
  for (const char* name : {"a.cpp", "b.cpp", "c.cpp", "ring.cpp", "ring_allreduce_v.cpp"})
    put(fs::path("in") / name, "");
  fs::create_directories(folder_ / "scratch");
  const Course course = Course::read(fs::path(LOCKSTEP_SOURCE_DIR) / "labs" / "course.json");
  const Submission found = read_submission(folder_ / "in", course.select("").exercises, folder_ / "scratch");
  const std::string why = found.why_missing(course.exercise("21.2"));
  EXPECT_NE(why.find("\nFound: ring_allreduce_v.cpp, ring.cpp, "), why.npos) << why;
  EXPECT_NE(why.find(" and 3 more. Expected: "), why.npos) << why;
}

class SmallClass : public TestFolder {
 protected:
  void add(const std::string& name, const Grading& grading) const {
    write_results(folder_ / (name + ".json"), grading, "visible");
    join_summary(folder_, summary_row(name, grading));
  }
};

TEST_F(SmallClass, IdenticalFilesOfEverybodyAreNamed) {
  for (const char* name : {"anna", "ben", "cleo"}) {
    Grading grading{.rows = {{.id = "22.2", .title = "t", .points = 3, .most = 3, .verdict = "PASS"}}};
    grading.files["22.2"] = "zero.cpp 0123456789abcdef";
    grading.files["22.10"] = std::string("fsdp.cpp ") + name;
    add(name, grading);
  }
  const std::string page = class_page(read_class(folder_), "");
  EXPECT_NE(page.find("<p>Identical files: zero.cpp in 3 of 3 ("), page.npos) << page;
  EXPECT_EQ(page.find("fsdp.cpp"), page.npos);
  EXPECT_EQ(identical_files(read_class(folder_)).at(0).names, (Words{"anna", "ben", "cleo"}));
}

TEST_F(SmallClass, SaysWhatWasFoundAndWhatIsOnlyTheTestsOfAllParts) {
  const std::string reason = "T.x: 10 ms of computing and 8 ms of communication\n  found 0.444, expected 0.5556\nmore";
  add("ben", {.rows = {{.id = "21.5", .title = "t", .most = 5, .verdict = "FAIL", .reason = reason},
                       {.id = "22.2a", .title = "t", .most = 5, .verdict = "FAIL", .reason = "x"},
                       {.id = "22.2", .title = "All parts together (t)", .points = 3, .most = 3, .verdict = "PASS"}},
              .remarks = std::string(kIgnored) + "a_test.cpp.\n"});
  EXPECT_EQ(sentence_with_values({.verdict = "FAIL", .reason = "T.x: with 2 ranks:\nelement 3\n  found 1"}),
            "T.x: with 2 ranks: element 3: found 1");
  EXPECT_EQ(sentence_with_values({.verdict = "FAIL", .reason = "T.x: one. Two\n  found 1"}), "T.x: one.");
  EXPECT_EQ(sentence_with_values({.verdict = "PASS", .reason = "found 1"}), "");
  const ClassData data = read_class(folder_);
  const std::string page = class_page(data, ""), values = "8 ms of communication: found 0.444, expected 0.5556</li>";
  EXPECT_NE(page.find(values), page.npos) << page;
  EXPECT_NE(page.find("22.2 (all parts together)"), page.npos);
  EXPECT_NE(page.find("Ignored, differs from ours: a_test.cpp."), page.npos);
  EXPECT_NE(class_csv(data).find(",\"21.5\",\"22.2a\",\"22.2 (all parts together)\"\n"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::tools::handed_in_test
