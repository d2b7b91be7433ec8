// Verdicts that are kept: for as long as nothing that they depend on says something else.
#include "tools/course/record.hpp"

#include "tools/course/skeleton.hpp"
#include "tools/tests/small_course.hpp"

namespace lockstep::tools {
namespace {

class Kept : public SmallCourse {
 protected:
  Basis inputs(const std::set<std::string>& mine) const { return Inputs(paths_).of(second(), mine); }
};

TEST_F(Kept, StandsAsLongAsItsInputsDo) {
  const Basis before = inputs({"1.1"});
  keep_verdict(paths_, second(), {.whole = {.id = "1.2", .verdict = "PASS", .passed = 3}, .parts = {}}, before);
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
  const Basis before = inputs({});
  write_text(paths_.answer(first()), "int f() { return 2; }\n");
  EXPECT_EQ(inputs({}), before);
  EXPECT_NE(inputs({"1.1"}), before);
}

TEST_F(Kept, AnAnswerThatWasRestoredIsNotStale) {
  EXPECT_FALSE(last_record(paths_, first()));
  keep_verdict(paths_, first(), {.whole = {.id = "1.1", .verdict = "FAIL"}, .parts = {}},
               Inputs(paths_).of(first(), {}));
  const std::string text = read_text(paths_.answer(first()));
  write_text(paths_.answer(first()), "int f() { return 3; }\n");
  EXPECT_TRUE(last_record(paths_, first()).value().stale);
  write_text(paths_.answer(first()), text);
  EXPECT_FALSE(last_record(paths_, first()).value().stale);
  EXPECT_EQ(last_record(paths_, first()).value().judgement.verdict, "FAIL");
}

TEST_F(Kept, FindingsStandForARunOfTheSameProgramOnly) {
  const Basis basis = inputs({"1.1"});
  Tested tested{.whole = {.id = "1.2", .verdict = "FAIL", .message = "why"},
                .parts = {{.id = "1.2a", .verdict = "FAIL", .message = "why"}},
                .program = "p",
                .object = "o"};
  keep_verdict(paths_, second(), tested, basis);
  const auto kept = kept_findings(paths_, second(), basis, "p");
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->whole.verdict, "FAIL");
  ASSERT_EQ(kept->parts.size(), 1u);
  EXPECT_EQ(kept->parts[0].message, "why");
  EXPECT_FALSE(kept_findings(paths_, second(), basis, "another"));
  EXPECT_FALSE(kept_findings(paths_, second(), basis, ""));
  EXPECT_FALSE(kept_findings(paths_, second(), inputs({}), "p"));
  tested.printed = true;
  keep_verdict(paths_, second(), tested, basis);
  EXPECT_FALSE(kept_findings(paths_, second(), basis, "p"));
  tested.printed = false, tested.parts[0].verdict = "TIMEOUT";  // on a busy computer
  keep_verdict(paths_, second(), tested, basis);
  EXPECT_FALSE(kept_findings(paths_, second(), basis, "p"));
}

TEST_F(Kept, AnAnswerMayChangeByWhatItIncludes) {
  const auto object = paths_.build / "labs" / "CMakeFiles" / "mine.1.1.dir" / "week1" / "part_1.cpp.o";
  write_text(object, "first");
  EXPECT_EQ(answers_object(paths_, first()), object);
  keep_verdict(paths_, first(), {.whole = {.id = "1.1", .verdict = "PASS"}, .object = fingerprint_of_file(object)},
               Inputs(paths_).of(first(), {}));
  EXPECT_FALSE(was_compiled_anew(paths_, first()));
  write_text(object, "second");
  EXPECT_TRUE(was_compiled_anew(paths_, first()));
  forget_verdict(paths_, first());
  EXPECT_FALSE(was_compiled_anew(paths_, first()));
  EXPECT_FALSE(last_record(paths_, first()));
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
