// A course of two exercises, 1.1 and 1.2, which needs it, in a folder of its own: part_1.cpp and part_2.cpp.
#pragma once

#include <string>

#include "common/support/tests/folder_testing.hpp"
#include "tools/course/paths.hpp"

namespace lockstep::tools {

class SmallCourse : public TestFolder {
 protected:
  void SetUp() override {
    paths_ = {.source = folder_, .build = folder_ / "build", .labs = folder_ / "labs", .course = {}};
    const char* exercise = R"({"id": "1.%", "name": "part_%", "title": "t", "core": true, "minutes": 1,
                               "reference_lines": 1, "needs": [@], "hints": ["a", "b", "c"],
                               "predict": [{"ask": "how long?", "unit": "ms", "run": "bench it", "field": "seconds",
                                            "rule": "2 n of the total", "factor": 1000,
                                            "where": {"stage": "3", "name": "x"}}],
                               "parts": [{"id": "1.%a", "title": "t", "points": 5, "hints": ["a", "b", "c"]}]})";
    const auto filled = [&](const std::string& number, const std::string& needs) {
      std::string text = exercise;
      for (std::size_t at; (at = text.find('%')) != text.npos;) text.replace(at, 1, number);
      return text.replace(text.find('@'), 1, needs);
    };
    paths_.course =
        Course::parse(R"({"weeks": [{"number": 1, "folder": "week1", "title": "t", "drills": [{"id": "1", "title":
                                     "gone wrong", "minutes": 20}, {"id": "1+", "title": "more", "core": false,
                                     "minutes": 20}], "exercises": [)" +
                          filled("1", "") + "," + filled("2", "\"1.1\"") + "]}]}",
                      "course");
    for (const char* id : {"1.1", "1.2"}) {
      const Exercise& exercise_of = paths_.course.exercise(id);
      write_text(paths_.solution(exercise_of),
                 "int f() {\n  // lab " + std::string(id) + "a begin: one\n  return 1;\n  // lab end\n}\n");
      write_text(paths_.source / "labs" / "week1" / (exercise_of.name + "_test.cpp"), "");
      write_text(paths_.answer(exercise_of), "int f() { return 1; }\n");
    }
    write_text(paths_.source / "common" / "rank.hpp", "struct Rank {};\n");
  }

  const Exercise& first() const { return paths_.course.exercise("1.1"); }
  const Exercise& second() const { return paths_.course.exercise("1.2"); }

  Paths paths_;
};

}  // namespace lockstep::tools
