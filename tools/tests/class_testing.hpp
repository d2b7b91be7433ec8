// A folder of graded submissions, as ./lab class reads it, with names and messages that nobody should write.
#pragma once

#include <stdexcept>
#include <string>

#include "common/support/tests/folder_testing.hpp"
#include "tools/course/paths.hpp"
#include "tools/grade/class/class_data.hpp"
#include "tools/grade/grade_summary.hpp"
#include "tools/tests/course_testing.hpp"

namespace lockstep::tools {

inline const char* const kHostile = "\"><script>alert(1)<script><img src=x onerror='alert(2)'>&amp;\x1b[2J\xff";

inline GradedRow graded(const char* id, int points, int most, const char* verdict, std::string reason = "") {
  return {.id = id, .title = "a <b>title</b>", .points = points, .most = most, .verdict = verdict, .reason = reason};
}

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

/// Occurrences of `words` in `text`.
inline std::size_t count_of(const std::string& text, const std::string& words) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(words, at)) != text.npos; at += words.size()) ++count;
  return count;
}

}  // namespace lockstep::tools
