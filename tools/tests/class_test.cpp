// Tests how ./lab class reads a folder of results, and its page and table, with any names and messages.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "common/error.hpp"
#include "tools/grade/class/class_page.hpp"
#include "tools/grade/class/feedback.hpp"
#include "tools/tests/class_testing.hpp"

namespace lockstep::tools {
namespace {

TEST_F(AClass, IsReadWithItsPointsAndReasons) {
  const ClassData data = read();
  ASSERT_EQ(data.rows.size(), 6u);
  EXPECT_EQ(row(data, "anna").points(), 14);
  EXPECT_EQ(row(data, "anna").most(), 14);
  EXPECT_EQ(row(data, "bob").parts[0].reason, "T.x: with 2 ranks:\nelement 3 must be 17. More.");
  EXPECT_EQ(row(data, "bob").parts[0].title, "a <b>title</b>");
  EXPECT_FALSE(row(data, "../../evil").graded);
  EXPECT_EQ(distribution(data), (std::vector<int>{3, 0, 0, 0, 0, 0, 1, 0, 0, 1}));
  const std::vector<PartCount> parts = count_parts(data);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].id, "21.1");
  EXPECT_EQ(parts[0].passed, 1);
  EXPECT_EQ(parts[0].failed, 4);
  EXPECT_EQ(parts[0].of_these, 2);  // they differ in numbers alone
  EXPECT_EQ(parts[0].commonest, "FAIL: T.x: with 2 ranks: element 3 must be 17.");
  EXPECT_EQ(parts[1].missing, 1);
  EXPECT_EQ(parts[1].submitted(), 3);
}

TEST_F(AClass, WithoutResultsIsSaidSo) {
  EXPECT_THROW(read_class(folder_ / "none"), Error);
  fs::remove(folder_ / "bob.json");
  write_text(folder_ / "carol.json", "{\"tests\": [{}]}");
  const ClassData data = read();
  for (const char* name : {"bob", "carol"}) {
    EXPECT_FALSE(row(data, name).graded);
    EXPECT_NE(doubts_of(row(data, name)).at(0).find("its results cannot be read: "), std::string::npos);
  }
}

TEST_F(AClass, ASubmissionWithoutAnyAnswerIsToBeChecked) {
  add("dora", {.rows = {graded("21.1", 0, 5, "NOT SUBMITTED"), graded("21.2a", 0, 9, "NOT SUBMITTED")},
               .remarks = "These archives inside it were not opened: answers.zip.\n"});
  const ClassData data = read();
  ASSERT_EQ(doubts_of(row(data, "dora")).size(), 1u);
  EXPECT_NE(doubts_of(row(data, "dora")).at(0).find("no answer to what was graded. These archives"), std::string::npos);
  ASSERT_EQ(doubts_of(row(data, "carol")).size(), 1u) << "who handed in one of two";
  EXPECT_EQ(doubts_of(row(data, "carol")).at(0), "21.2 NOT SUBMITTED: there is no file.");
}

TEST_F(AClass, AMissingFileIsOneRowWithWhatWasFound) {
  Grading some{.rows = {graded("21.1", 5, 5, "PASS")}};
  const std::string found = "\nFound: week21/dpp.cpp. Expected: week21/ddp.cpp";
  for (const char* id : {"21.7a", "21.7b", "21.7"})
    some.rows.push_back(graded(id, 0, 5, "NOT SUBMITTED", "there is no ddp.cpp" + found));
  some.rows.push_back(graded("21.10", 0, 5, "NOT SUBMITTED", "there is no scaling_laws.cpp\nFound: week21/dpp.cpp"));
  add("gil", some);
  const ClassData data = read();
  EXPECT_EQ(doubts_of(row(data, "gil")),
            (std::vector<std::string>{"21.7, 21.10 NOT SUBMITTED: there is no ddp.cpp, scaling_laws.cpp." + found}));
  const std::string page = class_page(data, "");
  EXPECT_LT(page.find("week21/dpp.cpp"), page.find("<svg"));

  // A file that may be it has a sentence of its own.
  some.rows.push_back(graded("21.8", 0, 5, "NOT SUBMITTED", "there is no b.cpp: rename B.cpp to b.cpp" + found));
  some.rows.back().may_be = "B.cpp";
  some.rows.push_back(graded("21.9", 0, 5, "NOT SUBMITTED", "there is no c.cpp" + found));
  add("hal", some);
  const ClassData more = read();
  EXPECT_EQ(doubts_of(row(more, "hal")).at(0),
            "21.7, 21.10, 21.8, 21.9 NOT SUBMITTED: there is no ddp.cpp, scaling_laws.cpp, c.cpp. There is no b.cpp: "
            "rename B.cpp to b.cpp." +
                found);
  const std::string his = feedback_page(row(more, "hal"), the_course());
  EXPECT_NE(his.find("rename B.cpp to b.cpp"), his.npos);
  EXPECT_NE(his.find("Found: "), his.npos);
  EXPECT_EQ(his.find("Found: "), his.rfind("Found: ")) << "what was found is said once";
}

TEST_F(AClass, ItsPageSaysWhoseItIsAndSumsUp) {
  const std::string page = class_page(read(), "");
  EXPECT_NE(page.find("<title>Class results: week 21</title>"), page.npos) << page;
  add("hal", {.rows = {graded("21.2b", 8, 8, "PASS"), graded("22.1", 1, 1, "PASS")}});
  const std::string more = class_page(read(), "");
  EXPECT_NE(more.find("<h1>Class results: weeks 21, 22</h1>"), more.npos);
  const std::string points = more.substr(more.find("<h2>Points</h2>"));
  const std::string exercises = points.substr(0, points.find("<details>"));
  EXPECT_EQ(count_of(exercises, "<th class=\"n\" title"), 3u) << "a column for each exercise: " << exercises;
  EXPECT_NE(exercises.find("21.2<br><span class=\"soft\">17</span>"), exercises.npos) << exercises;
  EXPECT_NE(exercises.find("<th>mean</th><th class=\"n\">5.3</th>"), exercises.npos) << exercises;
  EXPECT_EQ(count_of(points.substr(points.find("<details>")), "<th class=\"n\" title"), 4u) << "and for each part";
}

TEST_F(AClass, WhatWaitsForAPartThatIsNotWrittenWasNotTried) {
  add("eric", {.rows = {graded("21.1", 0, 5, "NOT IMPLEMENTED", "labs/x.cpp: TODO"),
                        graded("21.2a", 0, 9, "BLOCKED BY 21.1", "21.1 first")}});
  const std::vector<PartCount> parts = count_parts(read());
  EXPECT_EQ(parts[0].missing, 1);
  EXPECT_EQ(parts[1].missing, 2) << "beside carol, who did not hand it in";
  EXPECT_EQ(parts[1].submitted(), 3);
}

TEST_F(AClass, AFileThatIsRefusedIsOneRow) {
  const std::string why = "ring_all_reduce.cpp: it is a symbolic link";
  Grading refused;
  for (const char* id : {"21.2a", "21.2b", "21.2"}) refused.rows.push_back(graded(id, 0, 5, "REFUSED", why));
  refused.rows.push_back(graded("21.7a", 0, 5, "REFUSED", "ddp.cpp: it is present more than once"));
  add("fay", refused);
  const ClassData data = read();
  EXPECT_EQ(doubts_of(row(data, "fay")),
            (std::vector<std::string>{"21.2a, 21.2b, 21.2 REFUSED: " + why,
                                      "21.7a REFUSED: ddp.cpp: it is present more than once"}));
  for (const SummaryRow& summary : read_summary(folder_)) {
    if (summary.submission != "fay") continue;
    EXPECT_TRUE(summary.why.starts_with("21.2a, 21.2b, 21.2: " + why)) << summary.why;
  }
  const std::string all = class_page(data, "");
  EXPECT_EQ(count_of(all, why), 3u) << "to check, among the failures, and why";
  EXPECT_NE(all.find("<td>21.2b, 21.2 </td>"), all.npos) << "21.2a has passed elsewhere";
  const std::string page = feedback_page(row(data, "fay"), the_course());
  EXPECT_EQ(count_of(page, why), 1u);
  EXPECT_NE(page.find("<h2>21.2a, 21.2b, 21.2: "), page.npos) << page;
}

TEST_F(AClass, ItsPageShowsHostileTextAndRunsNone) {
  ClassData data = read();
  add_times(data, "submission,time\nanna,2026-11-20T10:00\n<i>,2026-11-20T10:00\n", "times.csv",
            parse_time("2026-11-19T23:30"));
  const std::string page = class_page(data, "feedback");
  for (const char* element : {"<script", "<img", "<i>", "<b>", "\x1b", "\xff"})
    EXPECT_EQ(count_of(page, element), 0u) << element;
  EXPECT_EQ(count_of(page, "onerror=&#39;"), count_of(page, "onerror="));
  EXPECT_NE(page.find("&lt;script&gt;alert(1)&lt;script&gt;"), std::string::npos);
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
  EXPECT_NE(page.find("late by 10 h 30 min"), std::string::npos);
  EXPECT_EQ(page.find("7777777777 "), page.find("seed 7777777777") + 5);  // the instructor may see it
  EXPECT_LT(page.find("handed in, but there are no results"), page.find("<svg"));
  EXPECT_LT(page.find("is no archive"), page.find("<svg"));
  for (const char* outside : {"http://", "https://", "src=\"", "url("})
    EXPECT_EQ(count_of(page, outside), 0u) << outside;
}

TEST_F(AClass, ItsMostCommonFailuresHaveHeadings) {
  const std::string page = class_page(read(), "");
  EXPECT_NE(page.find("<tr><th>part</th><th class=\"n\">failed, of those who tried</th>"
                      "<th class=\"n\">not tried</th><th>most common message</th><th class=\"n\">how many got it</th>"
                      "</tr>\n<tr><td>21.1 a &lt;b&gt;title&lt;/b&gt;</td>"
                      "<td class=\"n\">4 of 5 (80%)</td><td class=\"n\">0</td>"
                      "<td class=\"long\">FAIL: T.x: with 2 ranks: element 3 must be 17.</td>"
                      "<td class=\"n\">2 of 4</td></tr>"),
            std::string::npos)
      << page.substr(page.find("<h2>Most"), 1000);
}

TEST_F(AClass, ItsRarestFailuresAreFoldedAndCounted) {
  Grading alone, two;
  for (int part = 0; part < 15; ++part)
    alone.rows.push_back(graded(fmt::format("22.{}", part).c_str(), 0, 5, "FAIL", fmt::format("mistake {}", part)));
  two.rows = {graded("25.1", 0, 5, "FAIL", "a mistake of two")};
  add("kay", alone), add("lou", two), add("mia", two);
  const std::string page = class_page(read(), "");
  const std::string failed = page.substr(page.find("<h2>Most common failures"), page.find("<h2>Points"));
  const std::size_t fold = failed.find("<details><summary>6 more</summary>");
  ASSERT_NE(fold, failed.npos) << failed;
  EXPECT_LT(failed.find("<td>25.1 "), failed.find("<td>22.0 ")) << "two students before one, however late";
  EXPECT_LT(failed.find("<td>22.8 "), fold);
  for (int part = 9; part < 15; ++part) EXPECT_GT(failed.find(fmt::format("<td>22.{} ", part)), fold);
  EXPECT_NE(failed.find("<td>22.14 "), failed.npos);
}

TEST_F(AClass, ItsChartHasABarForEachTenthAndFitsATelephone) {
  const std::string page = class_page(read(), ""),
                    chart = page.substr(page.find("<svg"), page.find("</svg>") - page.find("<svg"));
  EXPECT_NE(chart.find("width=\"340\""), chart.npos) << "of the 358 pixels that 390 leave, so nothing is scaled";
  EXPECT_EQ(chart.find("max-width"), chart.npos);
  EXPECT_EQ(count_of(chart, "<rect"), 10u);
  EXPECT_NE(chart.find(">0–9%</text><rect x=\"66\" y=\"200\" width=\"240\""), chart.npos)
      << "three, the most: " << chart;
  EXPECT_NE(chart.find(">90–100%</text><rect x=\"66\" y=\"2\" width=\"80\""), chart.npos) << "one: " << chart;
}

TEST_F(AClass, ItsPageSaysWhatIsNotGradedYet) {
  const std::string whole = class_page(read(), "");
  EXPECT_EQ(whole.find("so far"), whole.npos);
  announce(folder_, {"anna", "bob", "dan", "<i>"});
  ClassData data = read();
  EXPECT_EQ(so_far(data), "6 of 8 graded so far");
  const std::string page = class_page(data, "");
  EXPECT_NE(page.find("<b>6 of 8 graded so far.</b> Not graded yet: dan, &lt;i&gt;.</p>"), page.npos) << page;
  add("dan", {.rows = {graded("21.1", 5, 5, "PASS")}});
  EXPECT_EQ(read().not_graded_yet, std::vector<std::string>{"<i>"}) << "the rest is kept when a row joins";
  announce(folder_, {"anna"});
  EXPECT_TRUE(read().not_graded_yet.empty()) << "the last ./lab grade counts";
}

TEST_F(AClass, HowItWasGradedIsForTheInstructor) {
  for (const char* name : {"gil", "hal"})
    add(name, {.rows = {graded("21.1", 5, 5, "PASS")}, .setting = "No Landlock."});
  const ClassData data = read();
  EXPECT_NE(class_page(data, "").find("How 2 submissions were graded: No Landlock."), std::string::npos);
  EXPECT_EQ(feedback_page(row(data, "gil"), the_course()).find("Landlock"), std::string::npos);
}

TEST_F(AClass, ItsTableHasPointsByPart) {
  const std::string csv = class_csv(read());
  EXPECT_TRUE(csv.starts_with("submission,points,most,graded,late,grace,counted,\"21.1\",\"21.2a\"\n")) << csv;
  EXPECT_NE(csv.find("\n\"bob\",9,14,yes,\"\",0,9,0,9\n"), std::string::npos) << csv;
  EXPECT_NE(csv.find("\n\"../../evil\",0,0,no,\"\",0,0,,\n"), std::string::npos) << csv;
  EXPECT_NE(csv.find("\n\"'=cmd|calc\",0,5,"), std::string::npos) << csv;
}

TEST_F(AClass, WhatTheCourseDoesNotGradeIsLeftOut) {
  add("ida", {.rows = {graded("21.1", 5, 5, "PASS"), graded("21.10", 0, 10, "NOT SUBMITTED", "there is no file")},
              .look_at = {"21.1: line 3 catches everything", "21.10: line 3 catches everything"},
              .fingerprints = {{"21.1", "0000000a"}, {"21.10", "0000000b"}}});
  ClassData data = read();
  Course changed = the_course();
  changed.change(R"({"21.1": {"graded": false}})", "mine.json");
  count_anew(data, changed);
  EXPECT_EQ(row(data, "anna").points(), 9);
  EXPECT_EQ(row(data, "anna").most(), 9);
  const ClassRow& ida = row(data, "ida");
  EXPECT_EQ(doubts_of(ida).back(), "21.10: line 3 catches everything");
  EXPECT_EQ(ida.look_at.size(), 1u);
  EXPECT_EQ(ida.answers.count("21.1"), 0u);
  EXPECT_EQ(ida.answers.count("21.10"), 1u) << "another exercise";
  EXPECT_EQ(count_of(class_csv(data), "\"21.1\""), 0u);
}

}  // namespace
}  // namespace lockstep::tools
