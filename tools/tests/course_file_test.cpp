// Tests what labs/course.json says, and which exercises a command line selects from it.
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "common/error.hpp"
#include "common/support/tests/refusal_testing.hpp"
#include "common/support/text/files.hpp"
#include "common/testing/verdict.hpp"
#include "tools/course/paths.hpp"
#include "tools/tests/course_testing.hpp"

namespace lockstep::tools {
namespace {

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
  Course course = the_course();
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
  const auto complaint = [&](const char* what) { return lockstep::refusal([&] { course.select(what); }); };
  EXPECT_EQ(complaint("21.3,21.8a"), "unknown part '21.8a': 21.8 has no parts.");
  EXPECT_EQ(complaint("22.10d"), "unknown part '22.10d': 22.10 has the parts 22.10a, 22.10b, 22.10c.");
  EXPECT_EQ(complaint("21.99a"), "unknown exercise '21.99a': did you mean '21.9'? ./lab list shows all of them.");
  const std::string last = "22." + std::to_string(course.select("22").exercises.size());
  const std::string beyond = "22." + std::to_string(course.select("22").exercises.size() + 1);
  EXPECT_EQ(complaint(beyond.c_str()), "unknown exercise '" + beyond + "': week 22 has 22.1 to " + last + ".");
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

}  // namespace
}  // namespace lockstep::tools
