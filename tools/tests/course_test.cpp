// Finding one's way: names of exercises, the next step, and records of a learner's work.
#include "tools/course/course.hpp"

#include <functional>
#include <iostream>
#include <sstream>

#include "common/error.hpp"
#include "common/support/tests/refusal_testing.hpp"
#include "common/support/text/columns.hpp"
#include "tools/course/card.hpp"
#include "tools/course/commands.hpp"
#include "tools/course/deeds.hpp"
#include "tools/course/mine.hpp"
#include "tools/course/predict.hpp"
#include "tools/course/scores.hpp"
#include "tools/course/skeleton.hpp"
#include "tools/course/states.hpp"
#include "tools/tests/small_course.hpp"

namespace lockstep::tools {
namespace {

using FindingOnesWay = SmallCourse;

std::string refusal(const Course& course, const std::string& word) {
  return lockstep::refusal([&] { course.select(word); });
}

TEST_F(FindingOnesWay, TestsOfTheWholeHaveWhatThePartsLeave) {
  Exercise exercise{.id = "9.1", .points = 10};
  EXPECT_EQ(exercise.points_of("9.1"), 10);
  exercise.parts = {{.id = "9.1a", .points = 5}, {.id = "9.1b", .points = 3}};
  EXPECT_EQ(exercise.points_of("9.1a"), 5);
  EXPECT_EQ(exercise.points_of("9.1"), 2);
}

TEST_F(FindingOnesWay, WhatIsNotHandedOutIsTheReferences) {
  const std::vector<Exercise> all{first(), {.id = "9.1", .name = "absent"}, {.id = "9.2", .name = "absent_too"}};
  EXPECT_EQ(whose_are_the_references(paths_, {}, {first()}), "");
  EXPECT_EQ(whose_are_the_references(paths_, {}, all), "9.1 9.2 (not in the suite yet)");
  EXPECT_EQ(whose_are_the_references(paths_, {{"1.1", "FAIL"}}, all),
            "1.1 (yours: FAIL), 9.1 9.2 (not in the suite yet)");
}

TEST_F(FindingOnesWay, RowsOfTheListFitATerminal) {
  const auto expect_to_fit = [](const std::string& rows, std::size_t columns) {
    std::istringstream lines(rows);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(columns_of(line), columns) << line;
  };
  const Course course = Course::read(LOCKSTEP_SOURCE_DIR "/labs/course.json");
  for (const std::size_t columns : {60, 72, 80}) {
    expect_to_fit(head_of_list(columns), columns);
    for (const Exercise& e : course.select("").exercises)
      for (const char* state : {"-", "edited since FAIL", "edited since DOES NOT COMPILE, revealed"})
        expect_to_fit(row_of_list(e.id, e.title + " (extra)", e.minutes, e.points, state, "", columns), columns);
  }
  EXPECT_EQ(head_of_list(200), head_of_list(80)) << "a wide terminal does not tear rows apart";
  EXPECT_EQ(row_of_list("drill 21", "A run whose title is longer than its column", 20, std::nullopt, "solved", "", 80),
            "  drill 21 A run whose title is longer than   20–40          solved\n"
            "           its column\n");
}

TEST_F(FindingOnesWay, VerdictsStandInOneColumnOfATerminal) {
  const Course course = Course::read(LOCKSTEP_SOURCE_DIR "/labs/course.json");
  const std::size_t room = 80 - std::string(" DOES NOT COMPILE").size();
  for (const Exercise& e : course.select("").exercises) {
    EXPECT_EQ(columns_of(label_of_check("", e.id, e.title, 80)), 56u) << e.title;
    EXPECT_LE(columns_of(label_of_check("", e.id, e.title, 80)), room) << e.title;
    EXPECT_LE(columns_of(label_of_check("", e.id, e.title, 60)), room - 20) << e.title;
    for (const Part& part : e.parts)
      EXPECT_EQ(columns_of(label_of_check("  ", part.id, part.title, 80)), 56u) << part.title;
  }
}

TEST_F(FindingOnesWay, AnExerciseIsFoundByItsNameOrAPieceOfIt) {
  EXPECT_EQ(paths_.course.id_of("part_2"), "1.2");
  EXPECT_EQ(paths_.course.id_of("t_2"), "1.2");
  EXPECT_EQ(paths_.course.id_of("_2"), "_2");  // too short to mean anything
  EXPECT_EQ(paths_.course.select("part_2,1.1").exercises.size(), 2u);
  EXPECT_EQ(refusal(paths_.course, "part"), "which 'part'? part_1 (1.1), part_2 (1.2).");
  EXPECT_NE(refusal(paths_.course, "prat_1").find("did you mean 'part_1'?"), std::string::npos);
}

TEST_F(FindingOnesWay, TheCoreOfAWeekIsNamed) {
  const Course course = Course::read(LOCKSTEP_SOURCE_DIR "/labs/course.json");
  const auto points = [&](const char* what) {
    int points = 0;
    for (const Exercise& e : course.select(what).exercises) points += e.graded ? e.points : 0;
    return points;
  };
  EXPECT_EQ(points("21:core"), 100);
  EXPECT_GT(points("21"), 100);
  EXPECT_EQ(points("21:core,22:core"), points("21:core") + points("22:core"));
  EXPECT_EQ(points("core"), points("21:core,22:core,23:core,24:core,25:core"));
  EXPECT_EQ(points("21:core,21.3"), 100 + course.exercise("21.3").points);
  EXPECT_EQ(refusal(course, "20:core"),
            "unknown exercise '20:core': did you mean '21:core'? ./lab list shows all of them.");
  EXPECT_NE(refusal(course, "21.2:core").find("unknown exercise '21.2:core'"), std::string::npos);
}

TEST_F(FindingOnesWay, AnExtraTakesNoNameFromTheCore) {
  paths_.course.change(R"({"1.1": {"core": false, "points": 5}, "1.2": {"points": 5}})", "changes");
  EXPECT_EQ(paths_.course.id_of("part"), "1.2");
  EXPECT_EQ(paths_.course.id_of("part_1"), "1.1");
  paths_.course.change(R"({"1.2": {"core": false}})", "changes");
  EXPECT_EQ(refusal(paths_.course, "part"), "which 'part'? part_1 (1.1), part_2 (1.2).");
}

/// Returns what a command prints.
std::string printed(const std::function<void()>& command) {
  ::testing::internal::CaptureStdout();
  command();
  std::fflush(stdout);
  return ::testing::internal::GetCapturedStdout();
}

TEST_F(FindingOnesWay, WhatIsNextIsTheFirstOfTheCoreThatDoesNotPass) {
  auto when = std::filesystem::file_time_type::clock::now();
  const auto edit = [&](const Exercise& exercise, const char* text) {
    write_text(paths_.answer(exercise), text);
    std::filesystem::last_write_time(paths_.answer(exercise), when += std::chrono::hours(1));
  };
  edit(second(), "int f() { return 1; }\n"), edit(first(), "int f() { return 1; }\n");
  EXPECT_EQ(next_exercise(paths_, last_edited(paths_)).value().id, "1.1");
  EXPECT_EQ(state_of(paths_, first()).words, "begun, not checked");
  keep_verdict(paths_, first(), {.whole = {.id = "1.1", .verdict = "PASS"}}, Inputs(paths_).of(first(), {}));
  EXPECT_TRUE(state_of(paths_, first()).passes);
  EXPECT_EQ(next_exercise(paths_, last_edited(paths_)).value().id, "1.2");
  edit(first(), "int f() { return 4; }\n");
  EXPECT_EQ(state_of(paths_, first()).words, "edited since PASS");
  EXPECT_EQ(next_exercise(paths_, last_edited(paths_)).value().id, "1.1") << "it is being worked on";
  edit(second(), "int f() { return 4; }\n");
  EXPECT_EQ(next_exercise(paths_, last_edited(paths_)).value().id, "1.2") << "1.1 was left for later";
  EXPECT_EQ(next_exercise(paths_, first()).value().id, "1.1") << "after a check of it, whatever was edited last";
  keep_verdict(paths_, second(), {.whole = {.id = "1.2", .verdict = "PASS"}}, Inputs(paths_).of(second(), {}));
  EXPECT_EQ(next_exercise(paths_, last_edited(paths_)).value().id, "1.1") << "it comes round";
  EXPECT_NE(printed([&] { list(paths_, "1.2"); }).find("1 of 1 exercises pass"), std::string::npos);
  EXPECT_NE(printed([&] { status(paths_); }).find("next   1.1 t, 1 minute"), std::string::npos);
  EXPECT_EQ(describe_next(first()), "1.1 t, 1 minute: ./lab check 1.1");
  EXPECT_EQ(printed([&] { mine_summary(paths_); }),
            "mine: 1 of 2 exercises pass; begun: 1.1 edited since PASS (`./lab list` shows them)\n");
  const std::filesystem::path log = paths_.build / "Testing/Temporary/LastTest.log.tmp";
  write_text(log, "Start testing: Nov 27 08:11 UTC\nEnd testing: Nov 27 08:11 UTC\n");
  EXPECT_EQ(printed([&] { mine_summary(paths_); }), "") << "ctest -N only lists";
  write_text(log, "Start testing: Nov 27 08:11 UTC\n1/1 Testing: mine.1.1\nEnd testing: Nov 27 08:11 UTC\n");
  EXPECT_NE(printed([&] { mine_summary(paths_); }).find("1 of 2"), std::string::npos);
  write_text(log, "Start testing: Nov 27 08:11 UTC\n1/1 Testing: suite.week21\nEnd testing: Nov 27 08:11 UTC\n");
  EXPECT_EQ(printed([&] { mine_summary(paths_); }), "") << "the reference's tests say nothing of yours";
  paths_.course.change(R"({"1.1": {"core": false, "points": 5}, "1.2": {"core": false, "points": 5}})", "changes");
  EXPECT_EQ(next_exercise(paths_, second()).value().id, "1.1") << "extras of the week";
  const std::string rest = R"("title": "t", "minutes": 1, "needs": [], "name": "part_)";
  paths_.course = Course::parse(R"({"weeks": [{"number": 1, "folder": "week1", "title": "t", "exercises": [
      {"id": "1.1", )" + rest + R"(1"}, {"id": "1.2", "early": true, )" +
                                    rest + R"(2"}]}]})",
                                "course");
  edit(second(), "int f() { return 5; }\n");
  EXPECT_EQ(next_exercise(paths_, {}).value().id, "1.2") << "the page has it first";
}

/// In a handout of its first week, whose course lists another one.
TEST_F(FindingOnesWay, AHandoutCountsAndProposesWhatIsInIt) {
  write_text(paths_.source / "prebuilt" / "platform.txt", "");
  paths_.course = Course::parse(
      R"({"weeks": [{"number": 1, "folder": "week1", "title": "t", "exercises": [
           {"id": "1.1", "name": "part_1", "title": "t", "core": true, "minutes": 1, "reference_lines": 1, "needs": [],
            "hints": ["a", "b"], "parts": [{"id": "1.1a", "title": "t", "points": 5, "hints": ["c"]}]}]},
          {"number": 2, "folder": "week2", "title": "u", "drills": [{"id": "2", "title": "d", "minutes": 20}],
           "exercises": [{"id": "2.1", "name": "open_task", "title": "t", "core": true, "minutes": 1,
                          "reference_lines": 1, "needs": [], "hints": [], "parts": []}]}]})",
      "course");
  const std::string here = printed([&] { status(paths_); });
  EXPECT_NE(here.find("week 1  t: 0 of 1 exercises pass"), here.npos) << here;
  EXPECT_EQ(here.find("week 2"), here.npos) << here;
  EXPECT_EQ(here.find("drills"), here.npos) << here;
  const std::string listed = printed([&] { list(paths_, ""); });
  EXPECT_NE(listed.find("0 of 1 exercises pass"), listed.npos) << listed;
  EXPECT_EQ(listed.find("0 of 0 exercises"), listed.npos) << listed;
  EXPECT_TRUE(listed.ends_with("\nWeek 2: not in this handout\n")) << listed;
  EXPECT_EQ(printed([&] { list(paths_, "2.1"); }), "Week 2: not in this handout\n");
  EXPECT_EQ(printed([&] { print_scores(paths_); }), "No scores yet. Open tasks have scores, and there is none here.\n");
  EXPECT_EQ(lockstep::refusal([&] { hint(paths_, "", 1); }),
            "which exercise? For example: ./lab hint 1.1, or ./lab hint 1.1 --level 2");
  const std::string hints = printed([&] { hint(paths_, "1.1", 3); });
  EXPECT_NE(hints.find("  2. b\n  (no hint of level 3 in this handout: the highest is 2)\n"), hints.npos) << hints;
  EXPECT_NE(hints.find("  1. c\n  (no hint of level 3 in this handout: the highest is 1)\n"), hints.npos) << hints;
  EXPECT_EQ(printed([&] { hint(paths_, "1.1a", 1); }).find("no hint"), std::string::npos);
  const Exercise& elsewhere = paths_.course.exercise("2.1");
  write_text(paths_.solution(elsewhere), "int f() {\n  // lab 2.1 begin: one\n  // lab end\n}\n");
  EXPECT_EQ(printed([&] { skeletons(paths_, "2", true, false); }), "2.1 is not in this handout\n");
  EXPECT_EQ(lockstep::refusal([&] { reset(paths_, "2.1", false); }), "2.1 is not in this handout");
  EXPECT_FALSE(std::filesystem::exists(paths_.answer(elsewhere)));
  EXPECT_EQ(lockstep::refusal([&] { hint(paths_, "2.1", 1); }), "2.1 is not in this handout");
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{}, {"1"}, {"check", "1"}})
    EXPECT_EQ(lockstep::refusal([&] { card(paths_, arguments); }),
              "./lab card is not in this handout: it runs exercises of other weeks.");
}

TEST_F(FindingOnesWay, AProgramIsCurrentUntilASourceChangesThatIsNoAnswer) {
  const auto now = std::filesystem::file_time_type::clock::now();
  const auto change = [&](const std::filesystem::path& file, int seconds) {
    write_text(file, "");
    std::filesystem::last_write_time(file, now + std::chrono::seconds(seconds));
  };
  for (const char* target : {"lab_tool", "train_sim"}) {
    const auto program = std::string(target) == "lab_tool" ? paths_.build / "tools" / "lab" : paths_.program(target);
    change(program, 5);
    EXPECT_FALSE(is_current(paths_, target))
        << "nobody knows since when: a source may have changed while it was linked";
    change(paths_.mine() / "current" / target, 10);
    EXPECT_TRUE(is_current(paths_, target));
    std::filesystem::remove(program);
    EXPECT_FALSE(is_current(paths_, target));
    change(program, 5);
  }
  change(paths_.answer(first()), 20);
  change(paths_.build / "build.ninja", 20);  // which a build writes that finds a new file
  EXPECT_TRUE(is_current(paths_, "lab_tool"));
  for (const char* source : {"CMakeLists.txt", "bench/a.cpp", "cmake/a.cmake", "common/a.hpp", "labs/course.json",
                             "solutions/week1/part_1.cpp", "tools/course/a.cpp", "build/CMakeCache.txt"}) {
    change(paths_.source / source, 20);
    EXPECT_FALSE(is_current(paths_, "lab_tool")) << source;
    change(paths_.source / source, 0);
    EXPECT_TRUE(is_current(paths_, "lab_tool")) << source;
  }
}

TEST_F(FindingOnesWay, ResetKeepsWhatWasThereAndRevealIsRemembered) {
  const std::string handed_out = skeleton(read_text(paths_.solution(first())), "part_1.cpp");
  write_text(paths_.answer(first()), "mine\n");
  EXPECT_EQ(reset(paths_, "1.1"), 0);
  EXPECT_EQ(read_text(paths_.answer(first())), handed_out);
  EXPECT_EQ(read_text(paths_.source / "outputs" / "answers" / "part_1.1.cpp"), "mine\n");
  write_text(paths_.answer(first()), "mine again\n");
  EXPECT_EQ(reset(paths_, "1.1"), 0);
  EXPECT_EQ(read_text(paths_.source / "outputs" / "answers" / "part_1.2.cpp"), "mine again\n");
  EXPECT_EQ(reset(paths_, "1.1"), 0);  // nothing to do
  EXPECT_THROW(reset(paths_, "1.1", true), Error);
  write_text(paths_.hard_solution(second()), "// lab omit begin\nint g();\n// lab omit end\nint f();\n");
  EXPECT_EQ(reset(paths_, "1.2", true), 0);
  EXPECT_EQ(read_text(paths_.answer(second())), "int f();\n");
  EXPECT_EQ(reveal(paths_, "1.2"), 0);
  std::string deeds;
  for (const Deed& deed : read_deeds(paths_)) deeds += deed.what + " " + deed.exercise + "; ";
  EXPECT_EQ(deeds, "reset 1.1; reset 1.1; reset 1.2; revealed 1.2; ");
}

TEST_F(FindingOnesWay, WhatIsBorrowedIsPassedOverUntilItIsReturned) {
  EXPECT_EQ(borrow(paths_, "1.1", false), 0);
  EXPECT_TRUE(is_borrowed(paths_, "1.1"));
  EXPECT_EQ(state_of(paths_, first()).words, "borrowed");
  EXPECT_EQ(next_exercise(paths_, last_edited(paths_)).value().id, "1.2");
  keep_verdict(paths_, first(), {.whole = {.id = "1.1", .verdict = "PASS"}}, Inputs(paths_).of(first(), {}));
  EXPECT_FALSE(state_of(paths_, first()).passes);  // borrowed answers earn nothing
  EXPECT_EQ(borrow(paths_, "1.1", false), 0);      // nothing to do, and nothing to write down
  EXPECT_EQ(borrow(paths_, "1.1", true), 0);
  EXPECT_FALSE(is_borrowed(paths_, "1.1"));
  EXPECT_TRUE(state_of(paths_, first()).passes);
  EXPECT_EQ(read_deeds(paths_).size(), 2u);
}

TEST_F(FindingOnesWay, OwnTimesRunFromWhereTheyAreAskedForToTheCheckThatPasses) {
  const auto time = [](std::vector<Deed> deeds, const char* exercise = "1.1") {
    const auto found = own_time(deeds, exercise);
    return found ? in_words(*found) : "none";
  };
  const Deed begun{"2026-11-21T23:50", "begun", "1.1"}, passed{"2026-11-22T00:42", "passed", "1.1"};
  EXPECT_EQ(time({begun, passed}), "52 min");
  EXPECT_EQ(time({begun, passed}, "1.2"), "none");
  EXPECT_EQ(time({{"2026-11-21", "reset", "1.1"}, passed}), "none");
  EXPECT_EQ(time({begun, {"2026-11-22T03:00", "passed", "1.1"}}), "3 h 10 min");
  EXPECT_EQ(time({begun, passed, {"2026-11-25T08:00", "passed", "1.1"}}), "52 min") << "it has ended";
  EXPECT_EQ(time({begun, {"2026-11-24T03:00", "passed", "1.1"}}), "2 days");
  EXPECT_EQ(time({begun, passed, {"2026-11-25T08:00", "begun", "1.1"}, {"2026-11-25T08:07", "passed", "1.1"}}),
            "7 min");
  EXPECT_EQ(time({{"yesterday", "begun", "1.1"}}), "none");
  end_time(paths_, "1.1");  // it is not running
  EXPECT_TRUE(read_deeds(paths_).empty());
  start_time(paths_, "1.1"), start_time(paths_, "1.1");
  EXPECT_EQ(time(read_deeds(paths_)), "0 min so far");
  const std::string listed = printed([&] { list(paths_, ""); });
  EXPECT_NE(listed.find("0 min so far\n"), listed.npos) << listed;
  end_time(paths_, "1.1"), end_time(paths_, "1.1");
  EXPECT_EQ(time(read_deeds(paths_)), "0 min");
  EXPECT_EQ(read_deeds(paths_).size(), 2u);
}

TEST_F(FindingOnesWay, WhatIsNotGradedHasNoPoints) {
  paths_.course.change(R"({"1.1": {"points": 5}, "1.2": {"points": 7}, "1.2a": {"points": 7}})", "mine.json");
  EXPECT_NE(printed([&] { list(paths_, ""); }).find("0 of 2 exercises pass, 0 of 12 points"), std::string::npos);
  paths_.course.change(R"({"1.1": {"graded": false}})", "mine.json");
  const std::string listed = printed([&] { list(paths_, ""); });
  EXPECT_NE(listed.find("0 of 2 exercises pass, 0 of 7 points"), listed.npos) << listed;
  EXPECT_NE(listed.find("1–2       0  "), listed.npos) << listed;
}

TEST_F(FindingOnesWay, ScoresOfOpenTasksAreKeptAndCompared) {
  const auto judged = [](const char* verdict, const char* score) {
    return testing::Judgement{.id = "1.1", .verdict = verdict, .notes = {"3 ms", score}};
  };
  EXPECT_EQ(keep_scores(paths_, judged("FAIL", "score 9.000 (a race): no")), "") << "a wrong answer earns nothing";
  EXPECT_EQ(keep_scores(paths_, judged("PASS", "score nan (a race): no")), "");
  EXPECT_EQ(keep_scores(paths_, judged("PASS", "score 1.500 (a race (long)): 2 ms, not (3)")),
            "  score 1.500  a race (long) (the first)\n");
  EXPECT_EQ(keep_scores(paths_, judged("PASS", "score 1.250 (a race (long)): 2 ms")),
            "  score 1.250  a race (long) (your best 1.500)\n");
  EXPECT_EQ(keep_scores(paths_, judged("PASS", "score 1.750 (a race (long)): 2 ms")),
            "  score 1.750  a race (long) (your best; before 1.500)\n");
  const std::string table = printed([&] { EXPECT_EQ(print_scores(paths_), 0); });
  EXPECT_NE(table.find("best 1.750"), table.npos) << table;
}

TEST_F(FindingOnesWay, AClassIsRankedByWhatWasMeasured) {
  const auto results = [&](const std::string& name, const std::string& score) {
    write_text(paths_.source / "grades" / (name + ".json"),
               R"({"tests": [{"number": "1.1", "output": "PASS\nscore )" + score + R"( (a race): 2 ms\n"}]})");
  };
  results("anna", "1.250"), results("bob", "1.500"), results("cy", "1.250");
  write_text(paths_.source / "grades" / "summary.json", "{}");
  write_text(paths_.source / "grades" / "broken.json", "{");
  EXPECT_EQ(printed([&] { EXPECT_EQ(print_ranking((paths_.source / "grades").string()), 0); }),
            "broken.json: no results of ./lab grade\n1.1 a race\n"
            "    1.     1.500  bob\n    2.     1.250  anna\n           1.250  cy\n");
  EXPECT_THROW(print_ranking((paths_.source / "labs").string()), Error);
}

TEST_F(FindingOnesWay, ADesignCardIsShownJudgedAndRemembered) {
  script(paths_.program("plan_sim"),  // --card ID, --card ID --explain FIELDS, --card ID --answer FILE
         "[ $# = 2 ] && exit\n[ \"$3\" = --explain ] && { [ \"$4\" = dp=8 ]; exit; }\n"
         "grep -q right \"$4\"\n");
  const auto answer = paths_.source / "outputs" / "cards" / "1.txt";
  EXPECT_THROW(play_card(paths_, {"check", "1"}), Error) << "there is no answer yet";
  EXPECT_THROW(play_card(paths_, {"check"}), Error);
  EXPECT_THROW(play_card(paths_, {"explain", "1"}), Error) << "which strategy?";
  EXPECT_EQ(play_card(paths_, {"explain", "1", "dp=8"}), 0);
  EXPECT_EQ(play_card(paths_, {"explain", "1", "dp=9"}), 1);
  EXPECT_EQ(play_card(paths_, {"1"}), 0);
  EXPECT_NE(read_text(answer).find("more memory:\n"), std::string::npos);
  write_text(answer, "strategy: mine\n");
  EXPECT_EQ(play_card(paths_, {"1"}), 0);
  EXPECT_EQ(read_text(answer), "strategy: mine\n") << "an answer is never written over";
  EXPECT_EQ(play_card(paths_, {"check", "1"}), 1);
  EXPECT_TRUE(read_deeds(paths_).empty());
  write_text(answer, "right\n");
  EXPECT_EQ(play_card(paths_, {"check", "1"}), 0);
  EXPECT_EQ(play_card(paths_, {"check", "1"}), 0);
  ASSERT_EQ(read_deeds(paths_).size(), 1u);
  EXPECT_EQ(read_deeds(paths_)[0].exercise, "card-1");
}

/// Keys that are typed.
class Typed {
 public:
  explicit Typed(const std::string& text) : text_(text), before_(std::cin.rdbuf(text_.rdbuf())) {}
  ~Typed() {
    std::cin.rdbuf(before_);
    std::cin.clear();
  }

 private:
  std::istringstream text_;
  std::streambuf* before_;
};

TEST_F(FindingOnesWay, APredictionIsWrittenDownBeforeItIsMeasuredAndStaysAfterwards) {
  // A ./lab that measures only where the prediction is on file already.
  script(paths_.build / "tools" / "lab",
         "grep -q '\"guess\": 2.5' " + (paths_.source / "outputs" / "predictions.json").string() +
             " || exit 1\n[ \"$1 $2 $3\" = 'bench it --json' ] || exit 1\n"
             "echo '{\"rows\": [{\"stage\": 2, \"name\": \"x\", \"seconds\": 9}, {\"stage\": 3, \"name\": "
             "\"x\", \"seconds\": 0.002, \"predicted_seconds\": 0.004}]}' > \"$4\"\n");
  EXPECT_EQ(format_predictions(paths_, first()), "  1 question to predict: ./lab predict 1.1\n");
  {
    const Typed typed("\n");
    EXPECT_EQ(predict(paths_, "1.1"), 0);  // left for later: nothing is shown
    EXPECT_FALSE(prediction_of(read_predictions(paths_), first(), 1));
  }
  {
    const Typed typed("soon\n2,5\n");
    EXPECT_EQ(predict(paths_, "1.1"), 0);
  }
  const std::string seen =
      "  you predicted 2.5 ms, formula 4, measured 2 (+25%): how long?\n    by formula: 2 n of the total\n";
  EXPECT_EQ(format_predictions(paths_, first()), seen);
  {
    const Typed typed("2\n");
    EXPECT_EQ(predict(paths_, "1.1"), 0);  // asks nothing any more
  }
  EXPECT_EQ(format_predictions(paths_, first()), seen);
  EXPECT_NE(read_text(paths_.source / "outputs" / "predictions.json").find("\"ask\": \"how long?\""),
            std::string::npos);
  EXPECT_EQ(format_predictions(paths_, first(), /*again=*/true), "  1 prediction: ./lab predict 1.1 shows it again\n");
  EXPECT_EQ(format_predictions_of_run(paths_, "bench_it", {"--mine"}), "1.1: " + seen.substr(2));
  EXPECT_EQ(format_predictions_of_run(paths_, "bench_that", {}), "");
  EXPECT_FALSE(prediction_of(read_predictions(paths_), second(), 1));
  const auto file = paths_.source / "outputs" / "predictions.json";
  std::string far_off = read_text(file);
  write_text(file, far_off.replace(far_off.find("2.5"), 3, "300"));
  EXPECT_NE(format_predictions(paths_, first()).find("measured 2 (yours is 150 times that): "), std::string::npos);
}

}  // namespace
}  // namespace lockstep::tools
