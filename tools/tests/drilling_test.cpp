// Tests ./lab drill: a run is kept until another is asked for, and right answers are remembered.
#include <gtest/gtest.h>

#include <sstream>

#include "common/error.hpp"
#include "tools/course/commands.hpp"
#include "tools/course/deeds.hpp"
#include "tools/course/drill.hpp"
#include "tools/course/mine.hpp"
#include "tools/course/states.hpp"
#include "tools/tests/small_course.hpp"

namespace lockstep::tools {
namespace {

/// A program `drill` that writes down its arguments, makes its folder, and finds an answer right where it says so.
class Drilling : public SmallCourse {
 protected:
  void SetUp() override {
    SmallCourse::SetUp();
    script(paths_.program("drill"),
           "echo \"$*\" > " + said().string() +
               "\n[ \"$1\" = run ] || { grep -q right \"$4\"; exit; }\nmkdir -p \"$4\"; echo wrong > "
               "\"$4/answer.txt\"\n");
  }
  std::filesystem::path said() const { return paths_.source / "said"; }
  std::filesystem::path folder() const { return paths_.source / "outputs" / "drills" / "1"; }
  std::string states() const {
    std::string all;
    std::istringstream lines(format_drills(paths_, paths_.course.weeks()[0].drills));
    for (std::string line; std::getline(lines, line);) all += line.substr(line.rfind(' ') + 1) + ";";
    return all;
  }
};

TEST_F(Drilling, AVariantIsKeptUntilAnotherIsAskedFor) {
  EXPECT_EQ(play_drill(paths_, {"1"}), 0);
  const std::string first = read_text(said());
  EXPECT_EQ(first.find("run 1 --out " + folder().string() + " --seed "), 0u) << first;
  EXPECT_EQ(play_drill(paths_, {"1"}), 0);
  EXPECT_EQ(read_text(said()), first);
  write_text(folder() / "answer.txt", "kind: mine\n");
  EXPECT_EQ(play_drill(paths_, {"1", "--new"}), 0);
  EXPECT_NE(read_text(said()), first);
  EXPECT_EQ(read_text(folder().string() + ".1/answer.txt"), "kind: mine\n") << "what was there is kept";
  EXPECT_EQ(play_drill(paths_, {"1", "--seed", "7"}), 0);
  EXPECT_EQ(read_text(said()), "run 1 --out " + folder().string() + " --seed 7\n");
  Paths neighbour = paths_;
  neighbour.source /= "neighbour";
  EXPECT_EQ(play_drill(neighbour, {"1"}), 0);
  const auto seed_of = [](const std::string& text) { return text.substr(text.rfind(' ')); };
  EXPECT_NE(seed_of(read_text(said())), seed_of(first));
}

TEST_F(Drilling, AWeeksDrillIsNextOnceItsCoreIsDone) {
  EXPECT_FALSE(next_drill(paths_));
  keep_verdict(paths_, first(), {.whole = {.id = "1.1", .verdict = "PASS"}}, Inputs(paths_).of(first(), {}));
  EXPECT_FALSE(next_drill(paths_)) << "1.2 is open";
  EXPECT_EQ(borrow(paths_, "1.2", false), 0);
  EXPECT_EQ(describe_next(next_drill(paths_).value()), "drill 1 gone wrong, 20 minutes: ./lab drill 1");
  add_deed(paths_, "solved", "drill-1");
  EXPECT_FALSE(next_drill(paths_)) << "the other is an extra";
}

TEST_F(Drilling, ARightAnswerIsRememberedAndAWrongOneIsNot) {
  EXPECT_EQ(states(), "-;-;");
  EXPECT_THROW(play_drill(paths_, {"check", "1"}), Error) << "not run yet";
  EXPECT_EQ(play_drill(paths_, {"1", "--seed", "3"}), 0);
  EXPECT_EQ(states(), "begun;-;");
  EXPECT_EQ(play_drill(paths_, {"check", "1"}), 1);
  EXPECT_EQ(count_drills(paths_), "0 of 1 core drills solved");
  write_text(folder() / "answer.txt", "right\n");
  EXPECT_EQ(play_drill(paths_, {"check", "1"}), 0);
  EXPECT_EQ(read_text(said()), "check 1 --answer " + (folder() / "answer.txt").string() + " --seed 3\n");
  EXPECT_EQ(states(), "solved;-;");
  EXPECT_EQ(count_drills(paths_), "1 of 1 core drills solved");
  EXPECT_EQ(play_drill(paths_, {"1", "--new"}), 0);
  EXPECT_EQ(states(), "solved;-;");
}

TEST_F(Drilling, TheLearnersProgramIsJudgedByTheLearnersProgram) {
  EXPECT_EQ(play_drill(paths_, {"1", "--seed", "3"}), 0);
  std::filesystem::rename(paths_.program("drill"), paths_.program("mine.drill"));
  EXPECT_EQ(play_drill(paths_, {"1", "--mine"}), 0);
  EXPECT_EQ(read_text(said()), "run 1 --out " + folder().string() + " --seed 3\n");
  EXPECT_TRUE(std::filesystem::exists(folder().string() + ".1")) << "another program's run";
  EXPECT_EQ(play_drill(paths_, {"check", "1"}), 1);
  write_text(folder() / "answer.txt", "right\n");
  EXPECT_EQ(play_drill(paths_, {"check", "1"}), 0);
}

TEST_F(Drilling, WhatIsNoDrillIsRefused) {
  for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{
           {"2"}, {"check"}, {"check", "2"}, {"1", "--wrong"}, {"1", "--seed", "x"}, {"1", "--seed"}})
    EXPECT_THROW(play_drill(paths_, wrong), Error) << wrong.back();
  EXPECT_THROW(Course::parse(R"({"weeks": [{"number": 1, "folder": "w", "title": "t", "exercises": [], "drills": [
                                 {"id": "1", "title": "t", "minutes": 1}, {"id": "1", "title": "t", "minutes": 1}]}]})",
                             "course"),
               Error);
}

}  // namespace
}  // namespace lockstep::tools
