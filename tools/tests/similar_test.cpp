// Tests that ./lab class finds answers that have too much in common, and no others.
#include "tools/grade/similar.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tools/course/skeleton.hpp"
#include "tools/grade/class/class_page.hpp"
#include "tools/tests/class_testing.hpp"

namespace lockstep::tools {
namespace {

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
  for (const Exercise& e : the_course().select("").exercises) {
    const std::string file = "/" + e.folder + "/" + e.name + ".cpp";
    const std::string given = given_text(read_text(LOCKSTEP_SOURCE_DIR "/solutions" + file), file);
    const Fingerprints prints = fingerprints(read_text(LOCKSTEP_SOURCE_DIR "/labs" + file), given, {});
    EXPECT_EQ(to_text(prints), "") << e.id;
  }
}

}  // namespace
}  // namespace lockstep::tools
