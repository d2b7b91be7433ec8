// Tests an instructor's changes to the course: allowed ones, and those that are refused.
#include <gtest/gtest.h>

#include "common/support/tests/refusal_testing.hpp"
#include "tools/tests/course_testing.hpp"

namespace lockstep::tools {
namespace {

Course changed(const std::string& text) {
  Course course = the_course();
  course.change(text, "mine.json");
  return course;
}

std::string why_not(const std::string& text) {
  return lockstep::refusal([&] { changed(text); });
}

TEST(CourseChanges, PointsMinutesAndHiddenParts) {
  const Course course = changed(R"({"21.2h": {"hidden": true, "title": "Uneven", "points": 5}, "21.2a": {"points": 2},
                                    "21.2": {"points": 12, "minutes": 7, "core": false}, "21.0": {"graded": true}})");
  const Exercise& ring = course.exercise("21.2");
  EXPECT_EQ(ring.points, 17);
  EXPECT_EQ(ring.minutes, 7);
  EXPECT_FALSE(ring.core);
  EXPECT_EQ(ring.points_of("21.2a"), 2);
  EXPECT_EQ(ring.points_of("21.2b"), 8);
  EXPECT_EQ(ring.points_of("21.2h"), 5);
  EXPECT_EQ(ring.points_of("21.2"), 2);  // what the parts leave
  EXPECT_TRUE(course.exercise("21.0").graded);
  EXPECT_EQ(course.select("21.2h").part, "21.2h");
  EXPECT_NE(course.changes(), "");
}

TEST(CourseChanges, PointsOfAnExerciseWhosePartsHaveAllOfThem) {
  const Course course = changed(R"({"22.1": {"points": 20}, "22.1a": {"points": 17},
                                    "22.9d": {"hidden": true, "title": "Uneven", "points": 5}})");
  EXPECT_EQ(course.exercise("22.1").points_of("22.1"), 0);
  EXPECT_EQ(course.exercise("22.9").points, 20);
}

TEST(CourseChanges, PointsForVirtualTime) {
  const Course course = changed(R"({"21.2a": {"performance": {"points": 4, "full_at": 1.25, "none_at": 2.25}},
                                    "21.1": {"performance": {"points": 5}}})");
  const Exercise& ring = course.exercise("21.2");
  EXPECT_EQ(ring.points_of("21.2a"), 9);
  EXPECT_EQ(ring.points_for_passing("21.2a", {}), 9) << "nothing was measured";
  for (const auto& [times, points] : std::vector<std::pair<double, int>>{{0.5, 9},
                                                                         {1, 9},
                                                                         {1.25, 9},
                                                                         {1.26, 8},
                                                                         {1.5, 8},
                                                                         {1.51, 7},
                                                                         {1.75, 7},
                                                                         {2.0, 6},
                                                                         {2.24, 5},
                                                                         {2.25, 5},
                                                                         {99, 5}})
    EXPECT_EQ(ring.points_for_passing("21.2a", times), points) << times << " times the reference's time";
  EXPECT_EQ(ring.points_for_passing("21.2b", 99), 8) << "only where it is asked for";
  EXPECT_EQ(course.exercise("21.1").points_for_passing("21.1", 1.5), 2) << "half of five, in whole points";
  EXPECT_EQ(course.exercise("21.1").points_for_passing("21.1", 2), 0);
}

TEST(CourseChanges, AreRefusedWithTheReason) {
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"[]", "expected an object"},
           {"{", "parse error"},
           {R"({"21.99": {"points": 1}})", "unknown exercise or part '21.99'"},
           {R"({"21.2x": {"points": 1}})", "unknown exercise or part '21.2x'"},
           {R"({"21.2": {"point": 1}})", "unknown field 'point': did you mean 'points'?"},
           {R"({"21.2": {"points": -1}})", "expected 0 to 10000"},
           {R"({"21.2": {"points": "5"}})", ""},
           {R"({"21.2": 5})", "expected an object"},
           {R"({"21.2": {"points": 10}})", "the parts of 21.2 have 17 points, and 21.2 has 10"},
           {R"({"22.1": {"points": 20}})", "give theirs too, as in {\"22.1a\": {\"points\": 17}}"},
           {R"({"21.2a": {"hidden": true, "title": "t", "points": 1}})", "needs another letter"},
           {R"({"21.2a": {"performance": {"points": 10}}})", "performance has 10 points, and 21.2a has 9"},
           {R"({"21.2a": {"performance": {"points": 1, "full_at": 0.5}}})", "the first at least 1"},
           {R"({"21.2a": {"performance": {"points": 1, "none_at": 1}}})", "the second larger"},
           {R"({"21.2a": {"performance": {"point": 1}}})", "unknown field 'point': did you mean 'points'?"},
           {R"({"21.2a": {"performance": {"none_at": 2}}})", "points"},
           {R"({"21.2a": {"performance": 3}})", ""},
           {R"({"21.2h": {"hidden": true, "points": 1}})", "title"}}) {
    const std::string said = why_not(text);
    EXPECT_TRUE(said.starts_with("mine.json: ")) << text << ": " << said;
    EXPECT_NE(said.find(why), said.npos) << text << ": " << said;
  }
}

}  // namespace
}  // namespace lockstep::tools
