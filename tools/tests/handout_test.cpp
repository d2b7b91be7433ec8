// Tests that a handout has no answers, and its pages.
#include <gtest/gtest.h>

#include "tools/course/handout_pages.hpp"
#include "tools/course/leaks.hpp"
#include "tools/course/paths.hpp"

namespace lockstep::tools::handout_test {
namespace {

constexpr const char* kRing = R"(void ring(Rank me, Slice data) {
  const int p = me.size(), r = me.rank();
  // lab 21.2a begin: pass chunks round the ring
  Slice received = me.allocate(data.size(), data.dtype(), Category::buffer);
  for (int step = 0; step < p - 1; ++step) {
    const Slice outgoing = chunk(data, r - step - 1, p);
    me.exchange({send(next, outgoing), receive(previous, received)});  // both at once
    add(me, chunk(data, r - step - 2, p), received);
  }
  // lab end
}
void two(Rank me) {
  // lab 21.2b begin: two lines
  copy(me, mine, share);
  ring_all_gather(me, whole);
  // lab end
}
void one(Rank me) {
  // lab 21.2c begin: a line
  linear(tp.group, y, x, values.weight, rank == 0 ? values.bias : Slice(), rows);
  // lab end
}
)";

/// The exercise whose answer `text` gives away, and in which line: "21.2a 3", or "".
std::string leak_in(const std::string& text) {
  Leaks leaks;
  leaks.add(kRing, "ring.cpp");
  const auto leak = leaks.find(text);
  return leak ? leak->id + " " + std::to_string(leak->line) : "";
}

TEST(Leaks, AWholeAnswerIsFoundWhereverItStands) { EXPECT_EQ(leak_in(kRing), "21.2a 4"); }

TEST(Leaks, PartOfAnAnswerIsFound) {
  EXPECT_EQ(leak_in("void f() {\n\n"
                    "    const Slice outgoing = chunk(data, r - step - 1, p);\n"
                    "    me.exchange({send(next, outgoing), receive(previous, received)});\n}\n"),
            "21.2a 3");
}

TEST(Leaks, ShortAnswersAreFound) {
  EXPECT_EQ(leak_in("copy(me, mine, share);\nring_all_gather(me, whole);\n"), "21.2b 1");
  EXPECT_EQ(leak_in("x\nlinear(tp.group, y, x, values.weight, rank == 0 ? values.bias : Slice(), rows);"), "21.2c 2");
}

TEST(Leaks, NeitherIndentationNorLineLengthNorACommentHidesOne) {
  EXPECT_EQ(leak_in("\tcopy( me,mine,\n   share );\r\n\n\t\t{\n  ring_all_gather(me,  whole); }"), "21.2b 1");
  EXPECT_EQ(leak_in("x\n// copy(me, mine, share);\n//   ring_all_gather(me, whole);\n"), "21.2b 2");
  EXPECT_EQ(leak_in("copy(me, mine, share);  // its place\n// then\nring_all_gather(me, whole);"), "21.2b 1");
  EXPECT_EQ(leak_in(R"({"hints": ["copy(me, mine, share); ring_all_gather(me, whole);"]})"), "21.2b 1");
}

TEST(Leaks, LinesThatOthersShareAreNone) {
  EXPECT_EQ(leak_in(""), "");
  EXPECT_EQ(leak_in("Slice received = me.allocate(data.size(), data.dtype(), Category::buffer);\nadd(me, x, y);\n"),
            "");
  EXPECT_EQ(leak_in("ring_all_gather(me, whole);\ncopy(me, mine, share);\n"), "");  // not its order
  EXPECT_EQ(leak_in("copy(me, mine, share);\nwait();\nring_all_gather(me, whole);\n"), "");
  EXPECT_EQ(leak_in("void ring(Rank me, Slice data) {\n  const int p = me.size(), r = me.rank();\n"), "");  // given
  EXPECT_EQ(leak_in("// lab 21.2a begin: pass chunks round the ring\n// lab end\n"), "");
}

Week week(int number) {
  Exercise exercise;
  exercise.id = std::to_string(number) + ".1";
  exercise.parts.push_back({.id = exercise.id + "a"});
  return {.number = number, .folder = "week" + std::to_string(number), .title = "Rings", .exercises = {exercise}};
}

TEST(HandoutReadme, SaysWhichWeeksHowToBeginAndWhatIsMissing) {
  const std::string page = handout_readme({week(21), week(23)}, 2, "Linux x86_64, GNU 12");
  for (const char* words : {"# Lockstep: weeks 21, 23\n", "./lab check 21.1 ", "./lab hint 21.1a ", "--level 2",
                            "./lab check 21,23\n", "--format=zip labs/week21 labs/week23\n",
                            "| 21 | [Rings](labs/week21/README.md) |\n| 23 | [Rings](labs/week23/README.md) |\n",
                            "above level 2", "Linux x86_64, GNU 12"})
    EXPECT_NE(page.find(words), page.npos) << words << "\nis not in\n" << page;
  EXPECT_EQ(page.find("| 24 |"), page.npos) << "week 24 is not handed out";
  EXPECT_EQ(page.find("week24"), page.npos) << "week 24 is not handed out";
  EXPECT_EQ(page.find("\n./lab test"), page.npos) << "its tests are not handed out";
}

TEST(HandoutReadme, OffersNoHintWhereThereIsNone) {
  EXPECT_EQ(handout_readme({week(21)}, 0, "").find("\n./lab hint"), std::string::npos);
  EXPECT_EQ(handout_readme({week(21)}, 1, "").find("--level 2"), std::string::npos);
}

TEST(HandoutReadme, SaysWhatIsNotGraded) {
  Week with_practice = week(21);
  EXPECT_EQ(handout_readme({with_practice}, 2, "Linux").find("not graded"), std::string::npos);
  with_practice.exercises.push_back({.id = "21.9", .graded = false});
  EXPECT_NE(handout_readme({with_practice}, 2, "Linux").find("header. 21.9 is a warm-up and is not graded. Check"),
            std::string::npos);
}

TEST(Sections, GoUpToTheNextOfTheirLevel) {
  const std::string page = "# Page\n\n## A\n\na\n\n## B\n\nb\n\n### In B\n\nb\n\n## C\n\nc\n";
  EXPECT_EQ(without_section(page, "## B"), "# Page\n\n## A\n\na\n\n## C\n\nc\n");
  EXPECT_EQ(without_section(page, "## C"), "# Page\n\n## A\n\na\n\n## B\n\nb\n\n### In B\n\nb\n\n");
  EXPECT_EQ(without_section(page, "## D"), page);
}

TEST(Sections, AHandoutsCommandsAreTheStudents) {
  const std::string page = read_text(std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "docs" / "use" / "commands.md");
  const std::string handed_out = without_section(page, kNoHandoutsCommands);
  for (const char* command :
       {"./lab test", "./lab handout", "./lab grade", "./lab class", "./lab mutants", "gpu-pack", "./lab playground"}) {
    EXPECT_NE(page.find(command), page.npos) << command;
    EXPECT_EQ(handed_out.find(command), page.npos) << command;
  }
  for (const char* command : {"./lab check", "./lab plan", "./lab update"})
    EXPECT_NE(handed_out.find(command), page.npos) << command;
}

TEST(DeadLinks, BecomeTheirWords) {
  const auto only_here = [](const std::string& target) { return target == "here.md"; };
  const auto linked = [&](const char* page) { return without_dead_links(page, only_here); };
  EXPECT_EQ(linked("a [b](gone.md) c, [two\nlines](gone.md#x)."), "a b c, two\nlines.");
  EXPECT_EQ(linked("![alt](gone.png)[`f(x)`](gone.md)"), "alt`f(x)`");
  for (const char* page : {"[a](here.md#x) [b](#x) [c](https://gone.md)", "`[x](gone.md)` []", "```\n[x](gone.md)\n```",
                           "[](Rank me) and a lone ](", ""})
    EXPECT_EQ(linked(page), page);
  EXPECT_EQ(linked("x\n```\n[x](gone.md)\n```\n[x](gone.md)"), "x\n```\n[x](gone.md)\n```\nx");
}

TEST(HandoutAgents, AnAssistantTutorsAndDoesNotSolve) {
  const std::string page = handout_agents({week(21), week(23)}, 2);
  for (const char* words : {"# For AI assistants: tutor, do not solve\n", "in place of a `todo(…)`",
                            "`labs/week21/*.cpp`, `labs/week23/*.cpp`", "./lab check ID", "the highest here is 2."})
    EXPECT_NE(page.find(words), page.npos) << words << "\nis not in\n" << page;
  // Questions before places to read, these before hints, and what is forbidden before all.
  const char* before[] = {"do not write", "1. Ask which", "2. Ask a question", "3. Point to",
                          "4. Offer `./lab hint ID`"};
  for (std::size_t at = 0; const char* words : before) {
    EXPECT_NE(at = page.find(words, at), page.npos) << words << "\nis not in its place in\n" << page;
    if (at == page.npos) break;
  }
}

TEST(HandoutAgents, OfferNoHintWhereThereIsNone) {
  EXPECT_EQ(handout_agents({week(21)}, 0).find("./lab hint"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::tools::handout_test
