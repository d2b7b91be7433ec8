// Tests times, extensions and late days in ./lab class, from tables that people wrote.
#include <gtest/gtest.h>

#include "common/support/tests/refusal_testing.hpp"
#include "tools/course/commands.hpp"
#include "tools/grade/class/class_page.hpp"
#include "tools/grade/class/feedback.hpp"
#include "tools/tests/class_testing.hpp"

namespace lockstep::tools {
namespace {

TEST(Times, AreReadWithTheirZone) {
  EXPECT_EQ(parse_time("1970-01-02T00:00Z"), 86'400);
  EXPECT_EQ(parse_time("2026-11-20T23:59"), parse_time("2026-11-21 00:59:00+01:00"));
  EXPECT_EQ(parse_time("2026-11-20T23:59:30.250Z"), parse_time("2026-11-20T18:59:30-0500"));
  EXPECT_EQ(parse_time("2026-11-21 00:59:00 +0100"), parse_time("2026-11-20 23:59 Z"));
  for (const char* wrong : {"", "2026-11-20", "2026-02-30T10:00", "2026-11-20T24:00", "20.11.2026 10:00",
                            "2026-11-20T10:00x", "2026-11-20T10:00+99:00", "-026-11-20T10:00"})
    EXPECT_THROW(parse_time(wrong), Error) << wrong;
  EXPECT_EQ(describe_delay(1), "1 min");
  EXPECT_EQ(describe_delay(3661), "1 h 2 min");
  EXPECT_EQ(describe_delay(90'000), "1 d 1 h");
}

TEST_F(AClass, ATimeThatIsNoneIsNamed) {
  ClassData data = read();
  EXPECT_EQ(lockstep::refusal(
                [&] { add_times(data, "submission,time\nanna,2026-11-20T10:00\nbob,Friday 10 AM\n", "times.csv", 0); }),
            "times.csv, bob: 'Friday 10 AM' is not a time: expected 2026-11-20T23:59, followed by Z or +01:00; without "
            "them it is UTC.");
}

TEST_F(AClass, LatenessCostsWhatThePolicySays) {
  ClassData data = read();
  const std::int64_t due = parse_time("2026-11-20T12:00Z");
  add_extensions(data, "days,submission\n2,bob.zip\n1,nobody\n", "e");
  add_times(data, "submission,time\nanna,2026-11-22T11:00Z\nbob,2026-11-22T11:00Z\ncarol,2026-11-20T12:00Z\n", "t",
            due);
  add_policy(data, {.percent_per_day = 10, .grace_days = 2}, {{"submission,grace\n\"anna\",1\n\"bob\",2\n", "week21"}});
  const ClassRow &anna = row(data, "anna"), &bob = row(data, "bob");
  EXPECT_EQ(anna.grace_used, 1) << "of two days late; the other grace day was used before";
  EXPECT_DOUBLE_EQ(anna.counted(), 12.6);
  EXPECT_EQ(bob.late, 0) << "by his own deadline";
  EXPECT_DOUBLE_EQ(bob.counted(), 9);
  EXPECT_EQ(
      data.unknown,
      (std::vector<std::pair<std::string, std::string>>{{"nobody", "has an extension, but there are no results"}}));
  const std::string page = class_page(data, "");
  EXPECT_NE(page.find("late by 1 d 23 h, 1 of 1 grace day, −10%</td><td class=\"n\">12.6</td>"), page.npos) << page;
  EXPECT_NE(page.find("2 d of extension</td><td class=\"n\">9</td>"), page.npos) << page;
  EXPECT_NE(class_csv(data).find("\"anna\",14,14,yes,\"late by 1 d 23 h, 1 of 1 grace day, −10%\",1,12.6,"),
            std::string::npos)
      << class_csv(data);
  EXPECT_NE(feedback_page(anna, the_course()).find("That costs 10% of the points, and 12.6 count."), std::string::npos);
  EXPECT_NE(feedback_page(anna, the_course()).find("1 of your 1 grace day used."), std::string::npos);
  EXPECT_THROW(add_extensions(data, "submission,days\nanna,two\n", "e"), Error);
  EXPECT_THROW(add_policy(data, {}, {{"submission,points\nanna,1\n", "old"}}), Error);
  data.rows.front().late = 86'400 * 30;
  add_policy(data, {.percent_per_day = 10}, {});
  EXPECT_DOUBLE_EQ(data.rows.front().counted(), 0) << "and not less";
}

TEST_F(AClass, NamesThatDoNotMatchAreToBeChecked) {
  ClassData data = read();
  EXPECT_TRUE(without_time(data).empty()) << "there is no deadline";
  add_extensions(data, "submission,days\nbobby,2\n", "e");
  add_times(data,
            "submission,time\nanna,2026-11-20T10:00\nbobby,2026-11-20T10:00\ncarol,2026-11-20T10:00\n"
            "dora,2026-11-20T10:00\ndora,2026-11-20T11:00\n",
            "t", parse_time("2026-11-20T12:00"));
  EXPECT_EQ(without_results(data), (std::vector<std::string>{"bobby", "dora"}));
  EXPECT_EQ(data.unknown.size(), 3u) << "bobby in two files, and dora twice in one";
  ASSERT_EQ(without_time(data).size(), 4u);
  EXPECT_EQ(without_time(data).back(), "bob");
  const std::string page = class_page(data, "");
  EXPECT_NE(page.find("4 submissions without a time, which counts as in time: <bdi>"), page.npos) << page;
  EXPECT_NE(page.find("<bdi>=cmd|calc</bdi>, <bdi>bob</bdi>.</p>"), page.npos) << page;
}

TEST_F(AClass, TheCommandNamesWhatDoesNotMatch) {
  write_text(folder_ / "t.csv", "submission,time\nanna,2026-11-20T10:00\ndora,2026-11-20T10:00\n");
  ::testing::internal::CaptureStdout(), ::testing::internal::CaptureStderr();
  Paths paths;
  paths.course = the_course();
  ClassOptions options;
  options.folder = folder_.string(), options.deadline = "2026-11-20T12:00", options.times = folder_ / "t.csv";
  EXPECT_EQ(class_results(paths, options), 0);
  std::fflush(stdout), std::fflush(stderr);
  const std::string out = ::testing::internal::GetCapturedStdout(), errors = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(out.find("6 submissions, 4 to check: "), out.npos)
      << "carol, the hostile one, ../../evil, and dora: " << out;
  EXPECT_NE(errors.find("no results, but a time or an extension: dora\n"), errors.npos) << errors;
  EXPECT_NE(errors.find(", =cmd|calc, bob, carol\n"), errors.npos) << errors;
}

TEST_F(AClass, PointsThatCountedLateDaysAreNotReplacedByOthers) {
  write_text(folder_ / "t.csv", "submission,time\nanna,2026-11-22T10:00\n");
  ::testing::internal::CaptureStdout(), ::testing::internal::CaptureStderr();
  Paths paths;
  paths.course = the_course();
  ClassOptions options;
  options.folder = folder_.string();
  EXPECT_EQ(class_results(paths, options), 0) << "nothing was late before";
  EXPECT_EQ(class_results(paths, options), 0);
  ClassOptions late = options;
  late.deadline = "2026-11-20T12:00", late.times = folder_ / "t.csv", late.penalty = 10;
  EXPECT_EQ(class_results(paths, late), 0);
  const std::string counted = read_text(folder_ / "class.csv");
  EXPECT_THROW(class_results(paths, options), Error) << "such as --lms alone, after --penalty";
  EXPECT_EQ(read_text(folder_ / "class.csv"), counted);
  options.out = (folder_ / "other.html").string();
  EXPECT_EQ(class_results(paths, options), 0);
  std::fflush(stdout), std::fflush(stderr);
  (void)::testing::internal::GetCapturedStdout(), (void)::testing::internal::GetCapturedStderr();
}

TEST(Times, ComeFromATableWithSemicolonsToo) {
  ClassData data;
  data.rows = {{.name = "anna"}, {.name = "bob; jr"}};
  add_extensions(data, "\xef\xbb\xbfsubmission;days\r\nanna;0,5\r\n", "e");
  EXPECT_DOUBLE_EQ(data.rows[0].extension_days, 0.5);
  add_times(data,
            "submission;time;\"note; of, yours\"\r\nanna;2026-11-20T11:00Z;a, b\r\n\"bob; jr\";2026-11-20T12:01Z;\r\n",
            "t", parse_time("2026-11-20T12:00Z"));
  EXPECT_TRUE(data.rows[0].submitted);
  EXPECT_EQ(data.rows[1].late, 60);
  EXPECT_TRUE(data.unknown.empty());
  EXPECT_EQ(lockstep::refusal([&] { add_times(data, "submission\ttime\nanna\t2026-11-20T11:00Z\n", "t.csv", 0); }),
            "t.csv has no column 'submission': expected a CSV, with commas or semicolons, whose first line has "
            "'submission' and 'time'.");
}

TEST(Times, ComeFromATableWithTitles) {
  ClassData data;
  data.rows = {{.name = "anna"}, {.name = "bob, jr"}};
  const std::int64_t due = parse_time("2026-11-20T12:00Z");
  add_times(
      data,
      "\xef\xbb\xbfgrade,time,submission\r\n1,2026-11-20T11:00Z,anna.zip\r\n2,2026-11-20T12:00:01Z,\"bob, jr\"\r\n",
      "t", due);
  EXPECT_EQ(data.rows[0].late, 0);
  EXPECT_TRUE(data.rows[0].submitted);
  EXPECT_EQ(data.rows[1].late, 1);
  EXPECT_TRUE(data.unknown.empty());
  EXPECT_THROW(add_times(data, "submission,when\nanna,2026-11-20T11:00Z\n", "t", due), Error);
  EXPECT_THROW(add_times(data, "submission,time\nanna\n", "t", due), Error);
  EXPECT_THROW(add_times(data, "submission,time\nanna,soon\n", "t", due), Error);
}

}  // namespace
}  // namespace lockstep::tools
