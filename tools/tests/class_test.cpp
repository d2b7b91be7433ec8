// Tests what ./lab class makes of a folder of results, whoever wrote the names and messages in it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "common/error.hpp"
#include "common/support/tests/folder_testing.hpp"
#include "common/support/tests/refusal_testing.hpp"
#include "tools/course/commands.hpp"
#include "tools/course/paths.hpp"
#include "tools/course/skeleton.hpp"
#include "tools/grade/class/class_page.hpp"
#include "tools/grade/class/feedback.hpp"
#include "tools/grade/class/lms.hpp"
#include "tools/grade/grade_summary.hpp"
#include "tools/grade/html.hpp"
#include "tools/grade/similar.hpp"

namespace lockstep::tools {
namespace {

const char* const kHostile = "\"><script>alert(1)<script><img src=x onerror='alert(2)'>&amp;\x1b[2J\xff";

GradedRow graded(const char* id, int points, int most, const char* verdict, std::string reason = "") {
  return {.id = id, .title = "a <b>title</b>", .points = points, .most = most, .verdict = verdict, .reason = reason};
}

Course course() { return Course::read(fs::path(LOCKSTEP_SOURCE_DIR) / "labs" / "course.json"); }

class AClass : public TestFolder {
 protected:
  void SetUp() override {
    add("anna", {.rows = {graded("21.1", 5, 5, "PASS"), graded("21.2a", 9, 9, "PASS")}});
    add("bob", {.rows = {graded("21.1", 0, 5, "FAIL", "T.x: with 2 ranks:\nelement 3 must be 17. More."),
                         graded("21.2a", 9, 9, "PASS")}});
    add("carol", {.rows = {graded("21.1", 0, 5, "FAIL", "T.x: with 2 ranks:\nelement 9 must be 4. Other."),
                           graded("21.2a", 0, 9, "NOT SUBMITTED", "there is no file")}});
    add(kHostile, {.rows = {graded("21.1", 0, 5, "REFUSED", kHostile), graded("21.2a", 0, 9, "CRASH", kHostile)}});
    add("../../evil", {.remarks = "nothing was graded: \"x\" is no archive\n", .graded = false});
    add("=cmd|calc", {.rows = {graded("21.1", 0, 5, "FAIL", "seed 7777777777 is known")}, .seed = 7777777777});
  }

  void add(const std::string& name, const Grading& grading) const {
    if (name.find('/') == name.npos)
      write_results(folder_ / (summary_row(name, grading).submission + ".json"), grading, "visible");
    join_summary(folder_, summary_row(name, grading));
  }
  ClassData read() const { return read_class(folder_); }
  static const ClassRow& row(const ClassData& data, const std::string& name) {
    for (const ClassRow& each : data.rows)
      if (each.name == name) return each;
    throw std::runtime_error("no row " + name);
  }
};

/// Counts what a browser would take for elements: every '<' that is not ours.
std::size_t count_of(const std::string& text, const std::string& words) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(words, at)) != text.npos; at += words.size()) ++count;
  return count;
}

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
  const std::string his = feedback_page(row(more, "hal"), course());
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

/// Fingerprints of an answer to 21.2, as the grader takes them.
std::string prints_of(const std::string& text) {
  const auto read = [](const std::string& file) { return read_text(fs::path(LOCKSTEP_SOURCE_DIR) / file); };
  std::set<std::string> api = names_in(read("labs/week21_data_parallel/ring_all_reduce.hpp"));
  for (const char* header : {"rank", "slice", "arithmetic", "chunk", "dtype"})
    api.merge(names_in(read(fmt::format("common/{}.hpp", header))));
  const std::string solution = read("solutions/week21_data_parallel/ring_all_reduce.cpp");
  return to_text(fingerprints(text, given_text(solution, "ring_all_reduce.cpp"), api));
}

TEST_F(AClass, SimilarAnswersAreFoundWhateverTheirVariablesAreCalled) {
  const fs::path source = LOCKSTEP_SOURCE_DIR;
  const std::string answer = read_text(source / "solutions/week21_data_parallel/ring_all_reduce.cpp");
  std::string renamed = answer;
  for (const auto& [name, other] : {std::pair{"step", "turn"},
                                    {"outgoing", "gone"},
                                    {"incoming", "fresh"},
                                    {"received", "box"},
                                    {"scratch", "room"},
                                    {"previous", "left"}})
    for (std::size_t at = 0; (at = renamed.find(name, at)) != renamed.npos;)
      renamed.replace(at, std::string(name).size(), other), at += std::string(other).size();
  ASSERT_NE(renamed, answer);
  const std::string independent =
      read_text(source / "tools/alternatives/week21_data_parallel/ring_all_reduce.scratch_each_step.cpp");
  const std::string unrelated = read_text(source / "solutions/week21_data_parallel/cost_model.cpp");
  int number = 0;
  for (const std::string& text : {answer, renamed, independent, unrelated})
    add(fmt::format("s{}", ++number),
        {.rows = {graded("21.2a", 9, 9, "PASS")}, .fingerprints = {{"21.2", prints_of(text)}}});
  EXPECT_EQ(prints_of("// nothing but the skeleton\n" + without_answers(answer, "ring_all_reduce.cpp")), "");
  const ClassData data = read();
  std::vector<Answers> answers;
  for (const char* name : {"s1", "s2", "s3", "s4"}) answers.push_back(row(data, name).answers);
  const std::vector<SimilarPair> pairs = similar_pairs(answers);
  ASSERT_EQ(pairs.size(), 1u) << "neither the independent answer nor the unrelated one is like another";
  EXPECT_EQ(pairs[0].first, 0u);
  EXPECT_EQ(pairs[0].second, 1u);
  ASSERT_EQ(pairs[0].shared.size(), 1u);
  EXPECT_EQ(pairs[0].shared[0].exercise, "21.2");
  EXPECT_DOUBLE_EQ(pairs[0].shared[0].share, 1);
  const std::string page = class_page(data, "");
  EXPECT_NE(page.find("<td><bdi>s1</bdi></td><td class=\"mid\"><bdi>s2</bdi></td><td class=\"mid\">21.2 <b>100%</b>"),
            page.npos)
      << page;
  EXPECT_EQ(count_of(page.substr(page.find("Similar answers"), 900), "<bdi>s3</bdi>"), 0u);
  // Lines that the whole class writes are no copy.
  EXPECT_TRUE(similar_pairs(std::vector<Answers>(5, answers[0])).empty());
}

TEST(Similar, EqualSharesAreInTheOrderOfTheCourse) {
  const Fingerprints prints{1, 2, 3, 4, 5, 6}, half{1, 2, 3, 4, 5, 6, 7, 8};
  const Fingerprints other{1, 2, 3, 4, 5, 6, 9, 10};
  const std::vector<SimilarPair> pairs = similar_pairs(
      {{{"21.10", prints}, {"21.2", prints}, {"21.1", half}}, {{"21.10", prints}, {"21.2", prints}, {"21.1", other}}});
  ASSERT_EQ(pairs.size(), 1u);
  std::vector<std::string> exercises;
  for (const auto& shared : pairs[0].shared) exercises.push_back(shared.exercise);
  EXPECT_EQ(exercises, (std::vector<std::string>{"21.2", "21.10", "21.1"}));
}

TEST(Similar, SkeletonsHaveNothingOfTheirOwn) {
  for (const Exercise& e : course().select("").exercises) {
    const std::string file = "/" + e.folder + "/" + e.name + ".cpp";
    const std::string given = given_text(read_text(LOCKSTEP_SOURCE_DIR "/solutions" + file), file);
    const Fingerprints prints = fingerprints(read_text(LOCKSTEP_SOURCE_DIR "/labs" + file), given, {});
    EXPECT_EQ(to_text(prints), "") << e.id;
  }
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
  const std::string page = feedback_page(row(data, "fay"), course());
  EXPECT_EQ(count_of(page, why), 1u);
  EXPECT_NE(page.find("<h2>21.2a, 21.2b, 21.2: "), page.npos) << page;
}

/// The advice to a student about a verdict on 21.2a.
std::string next_for(const char* verdict, const char* reason = "a reason") {
  const std::string page = feedback_page({.name = "anna", .parts = {graded("21.2a", 0, 9, verdict, reason)}}, course());
  const std::size_t begin = page.find("<p>Next: ");
  return begin == page.npos ? "" : page.substr(begin, page.find("</p>", begin) - begin);
}

TEST(Feedback, SaysWhatTheSeedOfAReplayIs) {
  const auto page = [](const char* reason) {
    return feedback_page({.name = "anna", .parts = {graded("21.2a", 0, 9, "FAIL", reason)}}, course());
  };
  EXPECT_EQ(count_of(page("replay: ./lab check 21.2a --seed SEED --trace"), "Without <code>--seed SEED</code>"), 1u);
  EXPECT_EQ(count_of(page("replay: ./lab check 21.2a --trace"), "SEED"), 0u);
}

TEST(Feedback, SaysWhatFitsTheVerdict) {
  const std::string hint = for_html(course().exercise("21.2").parts.front().hints.front());
  for (const char* verdict : {"FAIL", "NOT IMPLEMENTED"}) {
    EXPECT_NE(next_for(verdict).find(hint), std::string::npos) << verdict;
    EXPECT_NE(next_for(verdict).find("./lab hint 21.2a"), std::string::npos) << verdict;
  }
  for (const auto& [verdict, words] :
       std::vector<std::pair<const char*, const char*>>{{"REFUSED", "change what the reason names"},
                                                        {"DOES NOT COMPILE", "first error"},
                                                        {"NOT SUBMITTED", "hand the file in"},
                                                        {"NO VERDICT", "must return"},
                                                        {"DEADLOCK", "which ranks wait"},
                                                        {"RACE", "must wait for the other"},
                                                        {"MISMATCH", "both sides"},
                                                        {"UNREAD", "no rank receives"},
                                                        {"USAGE", "the rule that it breaks"},
                                                        {"TIMEOUT", "never ends"},
                                                        {"CRASH", "beyond the end"},
                                                        {"BLOCKED BY 21.2b", "write 21.2b first"}}) {
    EXPECT_NE(next_for(verdict).find(words), std::string::npos) << next_for(verdict);
    EXPECT_EQ(next_for(verdict).find(hint), std::string::npos) << verdict;
    EXPECT_EQ(next_for(verdict).find("./lab hint"), std::string::npos) << verdict;
    EXPECT_NE(next_for(verdict).find("./lab check 21.2"), std::string::npos) << verdict;
  }
  const std::string memory = next_for("FAIL", "rank 0: out of memory, after its call at f.cpp:9 (f)");
  EXPECT_NE(memory.find("grows without end"), std::string::npos) << memory;
  EXPECT_EQ(memory.find("./lab hint"), std::string::npos) << memory;
  const std::string queues = next_for("DEADLOCK", "sends 4 bytes to rank 1, …: only halves on one queue match");
  EXPECT_NE(queues.find("started on two queues"), std::string::npos) << queues;
  const std::string apart = next_for("NO VERDICT", "its tests pass in its own process, but not when judged from …");
  EXPECT_NE(apart.find("ask for another grade"), std::string::npos) << apart;
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

TEST_F(AClass, ItsTableHasPointsByPart) {
  const std::string csv = class_csv(read());
  EXPECT_TRUE(csv.starts_with("submission,points,most,graded,late,grace,counted,\"21.1\",\"21.2a\"\n")) << csv;
  EXPECT_NE(csv.find("\n\"bob\",9,14,yes,\"\",0,9,0,9\n"), std::string::npos) << csv;
  EXPECT_NE(csv.find("\n\"../../evil\",0,0,no,\"\",0,0,,\n"), std::string::npos) << csv;
  EXPECT_NE(csv.find("\n\"'=cmd|calc\",0,5,"), std::string::npos) << csv;
}

TEST_F(AClass, FeedbackStaysInItsFolderAndTellsNoSeed) {
  const ClassData data = read();
  write_feedback(data, course(), folder_ / "out" / "pages");
  std::size_t pages = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "out")) pages += entry.is_regular_file();
  EXPECT_EQ(pages, data.rows.size());
  EXPECT_FALSE(fs::exists(folder_ / "evil.html"));
  const std::vector<std::string> files = feedback_files(data);
  for (const std::string& file : files) {
    EXPECT_EQ(fs::path(file).filename(), file);
    EXPECT_FALSE(file.starts_with(".")) << file;
    EXPECT_TRUE(fs::exists(folder_ / "out" / "pages" / file)) << file;
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::string page = read_text(folder_ / "out" / "pages" / files[i]);
    for (const char* never : {"7777777777", "<script", "<img", "<b>", "exchange({send(next"})
      EXPECT_EQ(count_of(page, never), 0u) << files[i] << " " << never;
    EXPECT_EQ(data.rows[i].name == "anna" || !data.rows[i].graded, page.find("Next:") == page.npos);
    if (data.rows[i].name == "carol") {
      EXPECT_NE(page.find("element 9 must be 4. Other."), std::string::npos);
      EXPECT_NE(page.find("./lab hint 21.1"), std::string::npos);
      EXPECT_NE(page.find("docs/learn/questions.md#week-21-self-check"), std::string::npos);
    }
    EXPECT_EQ(data.rows[i].name == "=cmd|calc", page.find("seed SEED is known") != page.npos);
  }
}

TEST_F(AClass, APageGoesWithTheSubmissionThatItIsAbout) {
  const auto row_of = [](const char* name, const char* file) { return ClassRow{.name = name, .file = file}; };
  const fs::path pages = folder_ / "pages";
  ClassData data;
  data.rows = {row_of("<b>_1", "<b>_1_9_answers"), row_of("bo_2", "bo_2_9_answers"), row_of("cy_3", "cy_3_9_answers")};
  write_feedback(data, course(), pages);
  const std::vector<std::string> before = feedback_files(data);
  const std::string owners[] = {"<p>bo_2</p>", "<title>x</title>\n<body>\n<h1><bdi>bo_2</bdi></h1>\n"};
  write_text(pages / "own.html", owners[0]), write_text(pages / "copied.html", owners[1]);
  write_text(pages / "cy_3.txt", "a note\n");
  data.rows = {row_of("<b>_1", "<b>_1_10_answers-1"), row_of("bo_2", "bo_2_9_answers")};
  const EarlierPages earlier = write_feedback(data, course(), pages);
  EXPECT_EQ(earlier.removed, std::vector<std::string>{before[0]});
  EXPECT_EQ(earlier.left, std::vector<std::string>{"cy_3_9_answers.html"});
  EXPECT_FALSE(fs::exists(pages / before[0]));
  for (const std::string& kept : {feedback_files(data)[0], before[1], before[2]}) EXPECT_TRUE(fs::exists(pages / kept));
  for (const char* other : {"own.html", "copied.html", "cy_3.txt"}) EXPECT_TRUE(fs::exists(pages / other)) << other;
}

TEST_F(AClass, WhatTheCourseDoesNotGradeIsLeftOut) {
  add("ida", {.rows = {graded("21.1", 5, 5, "PASS"), graded("21.10", 0, 10, "NOT SUBMITTED", "there is no file")},
              .look_at = {"21.1: line 3 catches everything", "21.10: line 3 catches everything"},
              .fingerprints = {{"21.1", "0000000a"}, {"21.10", "0000000b"}}});
  ClassData data = read();
  Course changed = course();
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

TEST(FeedbackFiles, AreAsManyAsNames) {
  ClassData data;
  for (const char* name : {"a/b", "a\\b", "a_b", "A_b", "..", ".", "", ".x", "CON:", "a\n", "caf\xc3\xa9"})
    data.rows.push_back({.name = name});
  for (const char* long_name : {"1", "2"}) data.rows.push_back({.name = std::string(300, 'n') + long_name});
  std::vector<std::string> files = feedback_files(data);
  for (const std::string& file : files) {
    EXPECT_EQ(file.find_first_of("/\\:\n"), file.npos) << file;
    EXPECT_NE(file[0], '.');
    EXPECT_LT(file.size(), 160u);
  }
  EXPECT_EQ(files[2], "a_b.html");
  EXPECT_EQ(files[10], "caf\xc3\xa9.html");
  for (std::string& file : files)
    for (char& c : file) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  std::sort(files.begin(), files.end());
  EXPECT_EQ(std::unique(files.begin(), files.end()), files.end());
}

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
  EXPECT_NE(feedback_page(anna, course()).find("That costs 10% of the points, and 12.6 count."), std::string::npos);
  EXPECT_NE(feedback_page(anna, course()).find("1 of your 1 grace day used."), std::string::npos);
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
  paths.course = course();
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
  paths.course = course();
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

/// Two who are known by numbers, and one by a login.
ClassData a_class() {
  ClassData data;
  const auto row = [](const char* name, const char* file, int points) {
    return ClassRow{.name = name, .file = file, .parts = {graded("21.1", points, 30, "PASS")}};
  };
  data.rows = {row("leekim_12", "leekim_LATE_12_99_answers-1", 20),
               row("Ann Bo_7", "Ann Bo_7_assignsubmission_file_", 9), row("jo3", "jo3", 30),
               row("nobody", "nobody", 1)};
  data.rows[0].lost_share = 0.125;
  return data;
}

TEST(Lms, CanvasHasItsStudentsAndTheAssignment) {
  const LmsFile file =
      fill_lms(a_class(),
               "\xef\xbb\xbfStudent,ID,SIS User ID,SIS Login ID,Section,Week 20 (5),Week 21 (6),Total\r\n"
               "    Points Possible,,,,,10,,(read only)\r\n\"Lee, Kim\",12,s1,kim,A,3,,1\r\n"
               "\"Jo \"\"J\"\" Three\",13,s2,jo3,A,4,,1\r\nNot Here,14,s3,nh,A,5,2,1\r\n",
               "g.csv", "Week 21");
  EXPECT_EQ(file.system, "canvas");
  EXPECT_EQ(file.text,
            "Student,ID,SIS User ID,SIS Login ID,Section,Week 21 (6)\n    Points Possible,,,,,30\n"
            "\"Lee, Kim\",12,s1,kim,A,17.5\n\"Jo \"\"J\"\" Three\",13,s2,jo3,A,30\nNot Here,14,s3,nh,A,2\n");
  EXPECT_EQ(file.filled, 2u);
  EXPECT_TRUE(file.notes.empty());
  EXPECT_EQ(file.unplaced, (std::vector<std::string>{"Ann Bo_7", "nobody"}));
  const LmsFile with_new = fill_lms(a_class(), "Student,ID\nA,12\n", "g.csv", "New");
  EXPECT_NE(with_new.text.find("Student,ID,New\nA,12,17.5\n"), std::string::npos);
  EXPECT_EQ(with_new.notes, std::vector<std::string>{"g.csv has no column 'New', so the points are in a new one."});
}

TEST(Lms, OtherPointsInTheCourseSystemAreSaid) {
  const std::vector<std::string> said{
      "g.csv counts out of 100 points, and these results out of 30: change the assignment's points."};
  EXPECT_EQ(fill_lms(a_class(), "Student,ID,Week 21\nPoints Possible,,100\nA,12,\n", "g.csv", "Week 21").notes, said);
  EXPECT_EQ(fill_lms(a_class(),
                     "Identifier,Grade,Maximum Grade\nParticipant 7,,100.00\nParticipant 12,,100.00\n"
                     "Participant 9,,100.00\n",
                     "g.csv", "")
                .notes,
            said);
}

TEST(Lms, MoodleKeepsAllColumns) {
  const LmsFile file =
      fill_lms(a_class(),
               "Identifier,Full name,Email address,Status,Grade,Maximum Grade,Grade can be changed,"
               "Last modified (grade)\nParticipant 7,Ann Bo,ann@x.org,\"Submitted, late\",,30.00,Yes,-\n"
               "Participant 12,Jo,jo3@x.org,Submitted,,30.00,Yes,-\nParticipant 9,Di,d@x.org,-,,30.00,Yes,-\n",
               "m.csv", "");
  EXPECT_EQ(file.system, "moodle");
  EXPECT_NE(file.text.find("Participant 7,Ann Bo,ann@x.org,\"Submitted, late\",9,30.00,Yes,-\n"), std::string::npos)
      << file.text;
  EXPECT_NE(file.text.find("Participant 9,Di,d@x.org,-,,30.00,Yes,-\n"), std::string::npos);
  EXPECT_THROW(fill_lms(a_class(), "name,points\n", "x.csv", "y"), Error);
  EXPECT_THROW(fill_lms(a_class(), "", "x.csv", "y"), Error);
  EXPECT_THROW(fill_lms(a_class(), "Student,ID\nA,12\n", "g.csv", ""), Error);
}

TEST(FeedbackFiles, AreCalledAsWhatWasHandedIn) {
  ClassData data;
  data.rows.push_back({.name = "o'neil_12", .file = "o'neil_LATE_12_99_answers-1"});
  data.rows.push_back({.name = "Kim (A) Lee_7", .file = "Kim (A) Lee_7_assignsubmission_file_"});
  EXPECT_EQ(feedback_files(data), (std::vector<std::string>{"o'neil_LATE_12_99_answers-1.html",
                                                            "Kim (A) Lee_7_assignsubmission_file_feedback.html"}));
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

TEST(Lms, AFileWithSemicolonsKeepsThem) {
  const LmsFile file = fill_lms(
      a_class(), "Identifier;Full name;Grade\nParticipant 7;\"Bo; Ann\";\nParticipant 9;Di, Jo;\n", "m.csv", "");
  EXPECT_EQ(file.text, "Identifier;Full name;Grade\nParticipant 7;\"Bo; Ann\";9\nParticipant 9;\"Di, Jo\";\n");
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
