// Verdicts that are kept: for as long as nothing that they depend on says something else.
#include "tools/course/record.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "tools/course/skeleton.hpp"

namespace lockstep::tools {
namespace {

/// A course of two exercises, 1.1 and 1.2, which needs it, in a folder of its own.
class Kept : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "lockstep_record_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    paths_ = {.source = name, .build = name + "/build", .labs = name + "/labs", .course = {}};
    const char* exercise = R"({"id": "1.%", "name": "part_%", "title": "t", "core": true, "minutes": 1,
                               "reference_lines": 1, "needs": [@], "hints": ["a", "b", "c"],
                               "parts": [{"id": "1.%a", "title": "t", "points": 5, "hints": ["a", "b", "c"]}]})";
    const auto filled = [&](const std::string& number, const std::string& needs) {
      std::string text = exercise;
      for (std::size_t at; (at = text.find('%')) != text.npos;) text.replace(at, 1, number);
      return text.replace(text.find('@'), 1, needs);
    };
    paths_.course = Course::parse(R"({"weeks": [{"number": 1, "folder": "week1", "title": "t", "exercises": [)" +
                                      filled("1", "") + "," + filled("2", "\"1.1\"") + "]}]}",
                                  "course");
    for (const char* id : {"1.1", "1.2"}) {
      const Exercise& exercise_of = paths_.course.exercise(id);
      write_text(paths_.solution(exercise_of),
                 "int f() {\n  // lab " + std::string(id) + "a begin: one\n  return 1;\n  // lab end\n}\n");
      write_text(paths_.answer(exercise_of), "int f() { return 1; }\n");
    }
    write_text(paths_.source / "common" / "rank.hpp", "struct Rank {};\n");
  }
  void TearDown() override { std::filesystem::remove_all(paths_.source); }

  const Exercise& first() const { return paths_.course.exercise("1.1"); }
  const Exercise& second() const { return paths_.course.exercise("1.2"); }
  std::string inputs(const std::set<std::string>& mine) const { return Inputs(paths_).of(second(), mine); }

  Paths paths_;
};

TEST_F(Kept, StandsAsLongAsItsInputsDo) {
  const std::string before = inputs({"1.1"});
  keep_verdict(paths_, second(), {.id = "1.2", .verdict = "PASS", .passed = 3}, before);
  EXPECT_EQ(kept_verdict(paths_, second(), before).value().passed, 3);
  EXPECT_FALSE(kept_verdict(paths_, second(), inputs({})));  // with the reference's 1.1
  EXPECT_FALSE(kept_verdict(paths_, first(), before));
  for (const auto& file : {paths_.answer(second()), paths_.answer(first()), paths_.source / "common" / "rank.hpp"}) {
    const std::string text = read_text(file);
    write_text(file, text + " ");
    EXPECT_FALSE(kept_verdict(paths_, second(), inputs({"1.1"}))) << file;
    write_text(file, text);
    EXPECT_TRUE(kept_verdict(paths_, second(), inputs({"1.1"}))) << file;
  }
  write_text(paths_.build / "CMakeCache.txt", "CMAKE_CXX_FLAGS:STRING=-O3\n");
  EXPECT_FALSE(kept_verdict(paths_, second(), inputs({"1.1"})));
}

TEST_F(Kept, AnAnswerOfANeedThatIsBorrowedMakesNoDifference) {
  const std::string before = inputs({});
  write_text(paths_.answer(first()), "int f() { return 2; }\n");
  EXPECT_EQ(inputs({}), before);
  EXPECT_NE(inputs({"1.1"}), before);
}

TEST_F(Kept, AnAnswerThatWasRestoredIsNotStale) {
  EXPECT_FALSE(last_record(paths_, first()));
  keep_verdict(paths_, first(), {.id = "1.1", .verdict = "FAIL"}, "inputs");
  const std::string text = read_text(paths_.answer(first()));
  write_text(paths_.answer(first()), "int f() { return 3; }\n");
  EXPECT_TRUE(last_record(paths_, first()).value().stale);
  write_text(paths_.answer(first()), text);
  EXPECT_FALSE(last_record(paths_, first()).value().stale);
  EXPECT_EQ(last_record(paths_, first()).value().judgement.verdict, "FAIL");
}

TEST_F(Kept, AnAnswerIsUntouchedWhileItIsTheSkeleton) {
  EXPECT_FALSE(is_untouched(paths_, first()));
  write_text(paths_.answer(first()), skeleton(read_text(paths_.solution(first())), "part_1.cpp"));
  EXPECT_TRUE(is_untouched(paths_, first()));
  std::filesystem::remove(paths_.answer(first()));
  EXPECT_TRUE(is_untouched(paths_, first()));
}

}  // namespace
}  // namespace lockstep::tools
