// Tests words: verdicts of exercises, the nearest known name, and descriptions of a place or a wrong tensor.
#include "common/testing/verdict.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <set>

#include "common/support/text/nearest.hpp"
#include "labs/week23_tensor_parallel/shard_testing.hpp"
#include "tools/course/judge.hpp"
#include "tools/course/paths.hpp"
#include "tools/course/printed.hpp"
#include "tools/course/sayings.hpp"

namespace lockstep::tools {
namespace {

using testing::Judgement;

TEST(Verdict, SuitesAreNamedAfterExercises) {
  EXPECT_EQ(testing::id_of_suite("Lab21_2a"), "21.2a");
  EXPECT_EQ(testing::id_of_suite("Simulator"), "");
  EXPECT_EQ(testing::suite_of_id("21.10"), "Lab21_10");
  EXPECT_EQ(testing::exercise_of("21.2a"), "21.2");
  EXPECT_EQ(testing::exercise_of("21.10"), "21.10");
}

TEST(Verdict, AMissingPartBlocksOthersAndNotItself) {
  const char* message = "rank 0: exercise 21.2a is not implemented yet: add — at f.cpp:1 (f)";
  EXPECT_EQ(testing::word_for("21.2a", Verdict::not_implemented, message), "NOT IMPLEMENTED");
  EXPECT_EQ(testing::word_for("21.2", Verdict::not_implemented, message), "NOT IMPLEMENTED");
  EXPECT_EQ(testing::word_for("21.2b", Verdict::not_implemented, message), "BLOCKED BY 21.2a");
  EXPECT_EQ(testing::word_for("21.7", Verdict::not_implemented, message), "BLOCKED BY 21.2a");
  const char* stub = "exercise 21.2 does not compile: f.cpp:3: error";
  EXPECT_EQ(testing::word_for("21.2b", Verdict::does_not_compile, stub), "DOES NOT COMPILE");
  EXPECT_EQ(testing::word_for("21.7a", Verdict::does_not_compile, stub), "BLOCKED BY 21.2");
  EXPECT_EQ(testing::verdict_in(stub), Verdict::does_not_compile);
}

TEST(Verdict, WhatIsMissingInAFileIsNoRanks) {
  EXPECT_EQ(testing::without_rank("rank 0: exercise 21.2 does not compile: f.cpp:3"),
            "exercise 21.2 does not compile: f.cpp:3");
  EXPECT_EQ(testing::without_rank("rank 12: a"), "a");
  for (const char* other : {"rank: a", "ranks 0: a", "rank 0 waits", "a rank 0: b", ""})
    EXPECT_EQ(testing::without_rank(other), other);
}

TEST(Verdict, TheTestsOwnSentenceComesFirst) {
  const auto said = [](const ::testing::AssertionResult& compared) {
    return testing::sentence_first(std::string(compared.message()) + "\nthe rate is √k");
  };
  using namespace ::testing::internal;
  EXPECT_EQ(said(CmpHelperEQ("a", "b", 1, 2)), "the rate is √k\n  a is 1, expected 2");
  EXPECT_EQ(said(CmpHelperFloatingPointEQ("a", "b", 0.006, 0.25)), "the rate is √k\n  a is 0.006, expected 0.25");
  EXPECT_EQ(said(CmpHelperFloatingPointEQ("a", "b", 1.0 / 3, 1.0 / 3 + 1e-14)),
            "the rate is √k\n  a is 0.33333333333333331, expected 0.33333333333334331");
  EXPECT_EQ(said(CmpHelperEQ("share(1.5)", "2", 1, 2)), "the rate is √k\n  share(1.5) is 1, expected 2");
  // Names of a test's own variables tell a learner nothing.
  for (const char* member : {"d.rate", "of(step).rate", "all[0].rate", "d->rate"})
    EXPECT_EQ(said(CmpHelperEQ(member, "2", 1, 2)), "the rate is √k\n  rate is 1, expected 2");
  for (const char* other :
       {"a[i]", "d.y[i]", "1 - d.rate / 2.5", "d.rate + d.more", "all.size()", "of(step).size()", "of(step)"})
    EXPECT_EQ(said(CmpHelperEQ(other, "2", 1, 2)), "the rate is √k\n  found 1, expected 2");
  EXPECT_EQ(said(CmpHelperEQ("a", "b", std::string("x\ny"), std::string("x\nz"))),
            "the rate is √k\n  a is \"x\\ny\", expected \"x\\nz\"");
  EXPECT_EQ(said(CmpHelperLT("a", "b", 3, 2)), "the rate is √k\n  a is 3, expected less than 2");
  EXPECT_EQ(said(CmpHelperLE("a", "b", 3, 2)), "the rate is √k\n  a is 3, expected at most 2");
  EXPECT_EQ(said(CmpHelperGT("a", "b", 2, 3)), "the rate is √k\n  a is 2, expected more than 3");
  EXPECT_EQ(said(CmpHelperGE("a", "b", 2, 3)), "the rate is √k\n  a is 2, expected at least 3");
  EXPECT_EQ(said(CmpHelperNE("a", "b", 3, 3)), "the rate is √k\n  a is 3, expected anything but 3");
  EXPECT_EQ(said(DoubleNearPredFormat("a", "b", "c", 1.25, 2, 0.5)),
            "the rate is √k\n  a is 1.25, expected 2 to within 0.5");
  enum class Kind : std::uint8_t { one, two };
  EXPECT_EQ(said(CmpHelperEQ("a", "b", Kind::one, Kind::two)), "the rate is √k");
  const std::string was = GetBoolAssertionFailureMessage(::testing::AssertionFailure(), "a", "false", "true");
  EXPECT_EQ(said(::testing::AssertionFailure() << was), "the rate is √k");
  EXPECT_EQ(testing::sentence_first("Expected: f() throws an exception of type Error.\n  Actual: it throws nothing.\n"
                                    "too few times"),
            "too few times");
  for (const char* alone :
       {"", "a sentence\nand one more", "Value of: a\n  Actual: false\nExpected: true", was.c_str()})
    EXPECT_EQ(testing::sentence_first(alone), alone);
  EXPECT_EQ(testing::sentence_first("Failed\nthe rate is √k"), "the rate is √k");
}

TEST(Verdict, NumbersThatAreNoneAreWords) {
  using testing::numbers_in_words;
  EXPECT_EQ(numbers_in_words("element 3 is -nan, expected 5"), "element 3 is not a number, expected 5");
  EXPECT_EQ(numbers_in_words("nan"), "not a number");
  EXPECT_EQ(numbers_in_words("(inf) or -inf."), "(infinity) or minus infinity.");
  EXPECT_EQ(numbers_in_words("nan nan\nnan"), "not a number not a number\nnot a number");
  for (const char* kept :
       {"financial nanny info", "refused with \"nan is not a time\"", "nan/inf.cpp:3", "nano 1nan", ""})
    EXPECT_EQ(numbers_in_words(kept), kept);
}

TEST(Verdict, RawTextOfTheTestLibraryIsFound) {
  using namespace ::testing::internal;
  enum class Kind : std::uint8_t { one, two };
  for (const ::testing::AssertionResult& raw :
       {CmpHelperEQ("a", "b", 1, 2), CmpHelperEQ("a", "b", Kind::one, Kind::two), CmpHelperLT("a", "b", 3, 2),
        DoubleNearPredFormat("a", "b", "c", 1.25, 2, 0.5),
        ::testing::AssertionFailure() << GetBoolAssertionFailureMessage(::testing::AssertionFailure(), "a", "false",
                                                                        "true")}) {
    EXPECT_NE(testing::raw_text_in(raw.message()), "") << raw.message();
    const std::string said = testing::sentence_first(std::string(raw.message()) + "\nthe rate is √k");
    EXPECT_EQ(testing::raw_text_in(said), "") << said;
  }
  for (const char* raw : {"vector::_M_range_check: __n (which is 3) >= this->size()", "the rate is -nan, expected 1",
                          "C++ exception with description \"x\" thrown in the test body.",
                          "with 1 rank:\n  rank 0: rank 0: x[0] is 2, expected 1", "DEADLOCK: DEADLOCK: 2 ranks wait"})
    EXPECT_NE(testing::raw_text_in(raw), "") << raw;
  for (const char* plain : {"", "the rate is 3, expected 4", "the information in a nanosecond", "says \"nan\"",
                            "rank 0: x: 1, y: 1", "rank 0: x\nrank 0: y"})
    EXPECT_EQ(testing::raw_text_in(plain), "") << plain;
}

TEST(Verdict, AnExerciseIsCalledWhatIsWrongBeforeWhatIsMissing) {
  std::vector<Judgement> rows{{.id = "21.2a", .verdict = "PASS", .passed = 3},
                              {.id = "21.2b", .verdict = "NOT IMPLEMENTED", .failed = 1},
                              {.id = "21.2", .verdict = "DEADLOCK", .message = "why", .failed = 1}};
  auto joined = testing::with_exercises(rows);
  ASSERT_EQ(joined.size(), 3u);
  EXPECT_EQ(joined.back().id, "21.2");
  EXPECT_EQ(joined.back().verdict, "DEADLOCK");
  EXPECT_EQ(joined.back().message, "why");
  EXPECT_EQ(joined.back().passed, 3);
  EXPECT_EQ(joined.back().failed, 2);
}

TEST(Verdict, PartsStandInTheirOrder) {
  const auto joined = testing::with_exercises({{.id = "21.9e", .verdict = "PASS"},
                                               {.id = "21.9c", .verdict = "FAIL", .message = "c", .failed = 1},
                                               {.id = "21.9", .verdict = "FAIL", .message = "whole", .failed = 1},
                                               {.id = "21.9a", .verdict = "FAIL", .message = "a", .failed = 1},
                                               {.id = "21.10", .verdict = "PASS"}});
  std::vector<std::string> ids;
  for (const Judgement& row : joined) ids.push_back(row.id);
  EXPECT_EQ(ids, (std::vector<std::string>{"21.9a", "21.9c", "21.9e", "21.10", "21.9"}));
  EXPECT_EQ(joined.back().message, "a") << "the first part that is wrong explains the exercise";
}

TEST(Verdict, WhatIsSkippedBesideAPassIsCounted) {
  const Judgement skipped{
      .id = "21.3a", .verdict = "SKIPPED (its ranks are 2)", .skipped = 2, .left_out = "its ranks are 2"};
  const Judgement passed{.id = "21.3b", .verdict = "PASS", .passed = 1};
  const Judgement both = testing::with_exercises({skipped, passed}).back();
  EXPECT_TRUE(both.ok()) << both.verdict;
  EXPECT_EQ(both.skipped, 2);
  EXPECT_EQ(both.left_out, "its ranks are 2");
  EXPECT_EQ(testing::with_exercises({skipped}).back().verdict, "SKIPPED (its ranks are 2)");
  EXPECT_EQ(testing::with_exercises({passed, {.id = "21.3", .verdict = "FAIL", .failed = 1}}).back().verdict, "FAIL");
}

TEST(Verdict, WhatPartsMeasuredIsTheExercisesToo) {
  const auto rows = testing::with_exercises({{.id = "21.7c", .verdict = "PASS", .passed = 1, .notes = {"1 ms"}},
                                             {.id = "21.7", .verdict = "PASS", .passed = 1, .notes = {"2 ms"}}});
  EXPECT_EQ(rows.back().notes, (std::vector<std::string>{"1 ms", "2 ms"}));
}

TEST(Verdict, FilesKeepWhatWasWritten) {
  auto file = fs::path(::testing::TempDir()) / "verdict_test.json";
  testing::write_judgements(file, {{.id = "21.2",
                                    .verdict = "FAIL",
                                    .message = "line\n\"quoted\" \xff",
                                    .failed = 1,
                                    .notes = {"3 ms of \"work\"", "4 ms"}}});
  auto rows = testing::read_judgements(file);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].verdict, "FAIL");
  EXPECT_EQ(rows[0].notes, (std::vector<std::string>{"3 ms of \"work\"", "4 ms"}));
  EXPECT_TRUE(rows[0].message.starts_with("line\n\"quoted\" "));
  fs::remove(file);
  EXPECT_THROW(testing::read_judgements(file), Error);
}

TEST(Verdict, AnExplanationIsWholeHoweverMuchTheAnswerShows) {
  Printed printed(/*drawings=*/false);
  for (int line = 0; line < 994; ++line)
    printed.add("[rank 0, first_messages.cpp:10 (ring_of_hellos)] theirs (1 × f32): 1");
  printed.add("DEADLOCK: 2 ranks wait for each other in a cycle: 0 → 1 → 0.");
  const std::string text = printed.take();
  EXPECT_NE(text.find("  DEADLOCK: 2 ranks wait"), text.npos) << text;
  EXPECT_NE(text.find("… and 914 lines more; --ranks"), text.npos) << text;
  EXPECT_EQ(printed.take(), "");
}

TEST(Nearest, SuggestsWhatWasMeant) {
  const std::vector<std::string> known{"dgx_h100", "laptop", "pcie_box"};
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("ab", "ba"), 1u);
  EXPECT_EQ(nearest("DGX_H10", known), "dgx_h100");
  EXPECT_EQ(unknown_name("machine", "loptap", known),
            "unknown machine 'loptap': did you mean 'laptop'? Known: dgx_h100, laptop, pcie_box.");
  EXPECT_EQ(unknown_name("machine", "z", {}), "unknown machine 'z'.");
  const std::vector<std::string> models{"gpt-1t", "gpt3-13b", "gpt3-175b"};
  EXPECT_EQ(nearest_of("gpt3", models, 1), std::vector<std::string>{nearest("gpt3", models)});
  EXPECT_EQ(nearest_of("x", models, 99).size(), models.size()) << "no more than there are";
  EXPECT_EQ(nearest("gpt3", models), "gpt3-13b") << "its beginning is nearer than two letters wrong";
  EXPECT_NE(unknown_name("machine", "dgx", {known}).find("did you mean 'dgx_h100'?"), std::string::npos);
}

TEST(Nearest, AnOptionIsFoundByItsNameOrByItsHelp) {
  const std::vector<OptionName> known{{"--help", "This text"}, {"--data", "A text, or a token file"}, {"--steps", ""}};
  EXPECT_EQ(unknown_option("--stesp=4", known),
            "unknown option '--stesp': did you mean '--steps'? --help lists them all.");
  EXPECT_EQ(unknown_option("--text", known), "unknown option '--text': did you mean '--data'? --help lists them all.");
  EXPECT_EQ(unknown_option("--qwzzk", known), "unknown option '--qwzzk'; --help lists them all.");
  EXPECT_EQ(unknown_option("--", {}), "unknown option '--'; --help lists them all.");
}

TEST(WrongTensor, IsNamedByWhatItIsInstead) {
  const auto told = [](std::vector<Values> seen) {
    Outcome outcome;
    outcome.values = std::move(seen);
    return week23::differs(outcome, {week23::same_on_all("dx", 2)}, {3, -5}, 1);
  };
  EXPECT_EQ(told({{3, -5}, {3, -5}}), "");
  EXPECT_NE(told({{1, -4}, {2, -1}}).find("the sum over the ranks is missing"), std::string::npos);
  EXPECT_NE(told({{6, -10}, {6, -10}}).find("2 times too large"), std::string::npos);
  EXPECT_NE(told({{4, -5}}).find("not a missing sum"), std::string::npos);
  EXPECT_EQ(told({{4, -5}, {3, -5}}), "rank 0: dx, element 0 of its 2, is 4; on one rank it is 3");
}

TEST(Sayings, APlaceNamesItsFunction) {
  const std::string place = "/s/labs/week22_zero/zero1.cpp:73";
  EXPECT_EQ(Sayings::place_in({"lockstep::week22::(anonymous namespace)::Zero1::gather(int)", place}, "zero1.cpp"),
            "zero1.cpp:73 (gather)");
  EXPECT_EQ(Sayings::place_in({"void lockstep::week21::f(lockstep::Rank)", place}, "zero1.cpp"), "zero1.cpp:73 (f)");
}

}  // namespace
}  // namespace lockstep::tools
