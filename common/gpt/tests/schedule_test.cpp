// Tests of what a schedule that cannot be is told, in English that counts.
#include "common/gpt/pipeline/schedule.hpp"

#include <gtest/gtest.h>

#include <string>

#include "common/error.hpp"

namespace lockstep {
namespace {

TEST(Schedule, AStepOutsideOfTheShapeIsNamed) {
  const auto wrong = [](int microbatches) {
    return check_schedule({parse_stage("F0 B0 F7 B7")}, {.stages = 1, .microbatches = microbatches});
  };
  EXPECT_NE(wrong(1).find("outside of 1 microbatch and 1 chunk"), std::string::npos) << wrong(1);
  EXPECT_NE(wrong(4).find("outside of 4 microbatches and 1 chunk"), std::string::npos) << wrong(4);
}

TEST(Schedule, TooFewStepsAreCounted) {
  try {
    parse_schedule("F0 F1 B0\n", "mine.txt");
    FAIL() << "three steps for two microbatches were accepted";
  } catch (const Error& error) {
    const std::string says = error.what();
    EXPECT_NE(says.find("stage 0 has 3 steps; 2 microbatches and 1 chunk need at least 4"), std::string::npos) << says;
  }
}

}  // namespace
}  // namespace lockstep
