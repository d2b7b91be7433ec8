// Tests the pages that ./lab class writes for students: their names, advice, and nothing that students must not see.
#include "tools/grade/class/feedback.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tools/grade/html.hpp"
#include "tools/tests/class_testing.hpp"

namespace lockstep::tools {
namespace {

/// The advice to a student about a verdict on 21.2a.
std::string next_for(const char* verdict, const char* reason = "a reason") {
  const std::string page =
      feedback_page({.name = "anna", .parts = {graded("21.2a", 0, 9, verdict, reason)}}, the_course());
  const std::size_t begin = page.find("<p>Next: ");
  return begin == page.npos ? "" : page.substr(begin, page.find("</p>", begin) - begin);
}

TEST(Feedback, SaysWhatTheSeedOfAReplayIs) {
  const auto page = [](const char* reason) {
    return feedback_page({.name = "anna", .parts = {graded("21.2a", 0, 9, "FAIL", reason)}}, the_course());
  };
  EXPECT_EQ(count_of(page("replay: ./lab check 21.2a --seed SEED --trace"), "Without <code>--seed SEED</code>"), 1u);
  EXPECT_EQ(count_of(page("replay: ./lab check 21.2a --trace"), "SEED"), 0u);
}

TEST(Feedback, SaysWhatFitsTheVerdict) {
  const std::string hint = for_html(the_course().exercise("21.2").parts.front().hints.front());
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

TEST_F(AClass, FeedbackStaysInItsFolderAndTellsNoSeed) {
  const ClassData data = read();
  write_feedback(data, the_course(), folder_ / "out" / "pages");
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
  write_feedback(data, the_course(), pages);
  const std::vector<std::string> before = feedback_files(data);
  const std::string owners[] = {"<p>bo_2</p>", "<title>x</title>\n<body>\n<h1><bdi>bo_2</bdi></h1>\n"};
  write_text(pages / "own.html", owners[0]), write_text(pages / "copied.html", owners[1]);
  write_text(pages / "cy_3.txt", "a note\n");
  data.rows = {row_of("<b>_1", "<b>_1_10_answers-1"), row_of("bo_2", "bo_2_9_answers")};
  const EarlierPages earlier = write_feedback(data, the_course(), pages);
  EXPECT_EQ(earlier.removed, std::vector<std::string>{before[0]});
  EXPECT_EQ(earlier.left, std::vector<std::string>{"cy_3_9_answers.html"});
  EXPECT_FALSE(fs::exists(pages / before[0]));
  for (const std::string& kept : {feedback_files(data)[0], before[1], before[2]}) EXPECT_TRUE(fs::exists(pages / kept));
  for (const char* other : {"own.html", "copied.html", "cy_3.txt"}) EXPECT_TRUE(fs::exists(pages / other)) << other;
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

TEST(FeedbackFiles, AreCalledAsWhatWasHandedIn) {
  ClassData data;
  data.rows.push_back({.name = "o'neil_12", .file = "o'neil_LATE_12_99_answers-1"});
  data.rows.push_back({.name = "Kim (A) Lee_7", .file = "Kim (A) Lee_7_assignsubmission_file_"});
  EXPECT_EQ(feedback_files(data), (std::vector<std::string>{"o'neil_LATE_12_99_answers-1.html",
                                                            "Kim (A) Lee_7_assignsubmission_file_feedback.html"}));
}

}  // namespace
}  // namespace lockstep::tools
