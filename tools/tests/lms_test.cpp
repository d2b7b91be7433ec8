// Tests that points are filled into the tables of Canvas and Moodle (./lab class --lms).
#include "tools/grade/class/lms.hpp"

#include <gtest/gtest.h>

#include "tools/tests/class_testing.hpp"

namespace lockstep::tools {
namespace {

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

TEST(Lms, AFileWithSemicolonsKeepsThem) {
  const LmsFile file = fill_lms(
      a_class(), "Identifier;Full name;Grade\nParticipant 7;\"Bo; Ann\";\nParticipant 9;Di, Jo;\n", "m.csv", "");
  EXPECT_EQ(file.text, "Identifier;Full name;Grade\nParticipant 7;\"Bo; Ann\";9\nParticipant 9;\"Di, Jo\";\n");
}

}  // namespace
}  // namespace lockstep::tools
