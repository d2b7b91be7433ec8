// Tests that headers of a student's own, which grading does not see, are told by ./lab check and by the grade.
#include <gtest/gtest.h>

#include "tools/course/compiler_error.hpp"
#include "tools/course/handed_out.hpp"
#include "tools/course/process.hpp"
#include "tools/tests/small_course.hpp"

namespace lockstep::tools::own_headers_test {
namespace {

using Words = std::vector<std::string>;

class OwnHeaders : public SmallCourse {
 protected:
  void SetUp() override {
    SmallCourse::SetUp();
    put("labs/week1/part_1.hpp", "int f();\n");
    put("labs/week1/part_1.cpp",
        "// #include \"labs/week1/none.hpp\"\n#include \"labs/week1/part_1.hpp\"\n#include \"labs/week1/mine.hpp\"\n"
        "#include \"mine.hpp\"\n#include \"common/rank.hpp\"\n#include <vector>\nint f() { return 1; }\n");
  }
  Words differences() const { return HandedOut(paths_).differences(first()); }
  void add_and_change() const {
    put("labs/week1/mine.hpp", "int helper();\n");
    put("labs/week1/part_1.hpp", "long f();\n");
    put("labs/week1/part_1_test.cpp", "// easier\n");
  }
};

TEST_F(OwnHeaders, AreKnownInAHandoutByItsList) {
  put("prebuilt/platform.txt", "");
  add_and_change();
  EXPECT_EQ(differences(), Words{}) << "a handout without a list";
  SetUp();
  fs::remove(folder_ / "labs/week1/mine.hpp");
  put("prebuilt/handed_out.txt", list_handed_out(folder_));
  EXPECT_EQ(differences(), Words{});
  add_and_change();
  EXPECT_EQ(differences(), (Words{"part_1.hpp differs from the handout's; grading uses the original",
                                  "includes mine.hpp, which is not handed in",
                                  "part_1_test.cpp differs from the handout's; grading uses the original"}));
}

TEST_F(OwnHeaders, AreKnownInACloneByGit) {
  add_and_change();
  EXPECT_EQ(differences(), Words{}) << "neither a handout nor a clone";
  if (find_program("git").empty()) GTEST_SKIP() << "git is not installed";
  SetUp();
  fs::remove(folder_ / "labs/week1/mine.hpp");
  for (const Words& arguments : {Words{"init", "-q"}, Words{"add", "."}, Words{"commit", "-q", "-m", "x"}}) {
    Command git{.arguments = {"git", "-c", "user.name=x", "-c", "user.email=x@x"}, .folder = folder_};
    git.arguments.insert(git.arguments.end(), arguments.begin(), arguments.end());
    ASSERT_TRUE(run_command(git).ok());
  }
  EXPECT_EQ(differences(), Words{});
  add_and_change();
  EXPECT_EQ(differences(), (Words{"part_1.hpp differs from its commit; grading uses the original",
                                  "includes mine.hpp, which is not handed in",
                                  "part_1_test.cpp differs from its commit; grading uses the original"}));
  const Command forget{.arguments = {"git", "rm", "-q", "--cached", "labs/week1/part_1_test.cpp"}, .folder = folder_};
  ASSERT_TRUE(run_command(forget).ok());
  EXPECT_EQ(differences(), Words{}) << "whose test is new is a new exercise";
}

TEST(Compiled, AMissingHeaderIsTheStudentsOwn) {
  EXPECT_EQ(explain_alone("a.cpp:3:10: fatal error: labs/x/mine.hpp: No such file or directory\n", "a.cpp"),
            "a.cpp:3: labs/x/mine.hpp: No such file or directory — Only lab files are graded: move what it needs into "
            "this file.");
  EXPECT_NE(explain_alone("a.cpp:3:10: fatal error: 'mine.hpp' file not found\n", "a.cpp").find("Only lab files"),
            std::string::npos);
  const std::string systems = "a.cpp:3:10: fatal error: vectr: No such file or directory\n";
  EXPECT_EQ(explain_alone(systems, "a.cpp"), explain(systems, "a.cpp"));
  EXPECT_NE(explain(systems, "a.cpp").find("does not exist"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::tools::own_headers_test
