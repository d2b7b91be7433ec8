#include "common/support/text/columns.hpp"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Columns, TextFillsItsColumnAndNoMore) {
  EXPECT_EQ(fitted("ring", 6), "ring  ");
  EXPECT_EQ(fitted("α-β", 4), "α-β ") << "characters, not bytes";
  EXPECT_EQ(fitted("α-β-γ", 4), "α-β…");
  EXPECT_EQ(fitted("ring", 4), "ring");
  EXPECT_EQ(fitted("ring", 1), "…");
  EXPECT_EQ(fitted("ring", 0), "");
}

TEST(Columns, LinesBreakBetweenWords) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(wrapped("one two three", 7), (Lines{"one two", "three"}));
  EXPECT_EQ(wrapped("one two three", 13), (Lines{"one two three"}));
  EXPECT_EQ(wrapped("seventeen o", 4), (Lines{"seventeen", "o"}));
  EXPECT_EQ(wrapped("", 4), Lines{""});
}

TEST(Columns, LongLinesOfATextGoBelowTheirBegin) {
  EXPECT_EQ(wrapped_lines("short\n  a b c d e f g h i j\n", 18), "short\n  a b c d e f g\n    h i j\n");
  EXPECT_EQ(wrapped_lines("rank  bytes  and more columns", 12), "rank  bytes  and more columns") << "a table";
  EXPECT_EQ(wrapped_lines("see it: ./lab view check 21.2", 12), "see it: ./lab view check 21.2") << "to be copied";
  EXPECT_EQ(wrapped_lines("", 12), "");
}

TEST(Columns, ALineLeavesOutWhatMattersLeast) {
  const std::vector<LinePart> parts = {{"step 3/8", 3}, {"gradient 2", 1}, {"9 s left", 2}};
  EXPECT_EQ(line_of(parts, 30), "step 3/8  gradient 2  9 s left");
  EXPECT_EQ(line_of(parts, 29), "step 3/8  9 s left");
  EXPECT_EQ(line_of(parts, 17), "step 3/8");
  EXPECT_EQ(line_of(parts, 5), "step…");
}

}  // namespace
}  // namespace lockstep
