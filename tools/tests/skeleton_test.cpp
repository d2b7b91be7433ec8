// Skeletons, stubs and the plain words for a compiler's error.
#include "tools/course/skeleton.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tools/course/compiler_error.hpp"
#include "tools/course/course.hpp"
#include "tools/course/paths.hpp"

namespace lockstep::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSolution = R"(#include "a.hpp"
int given() { return 1; }
int f(int p) {
  // lab 21.2a begin: return twice
  // the "argument"
  int twice = 2 * p;  // the answer
  return twice;
  // lab end
}
)";

TEST(Skeleton, KeepsWhatIsGivenAndTakesTheAnswerOut) {
  EXPECT_EQ(skeleton(kSolution, "f.cpp"), R"(#include "a.hpp"
int given() { return 1; }
int f(int p) {
  todo("21.2a", "return twice the \"argument\"");
}
)");
}

TEST(Skeleton, LacksWhatItIsToLack) {
  EXPECT_EQ(skeleton("a\n  // lab omit begin\nb\n// lab 1 begin: x\n// lab end\n  // lab omit end\nc\n", "f.cpp"),
            "a\nc\n");
}

TEST(Skeleton, WrapsALongDescriptionAtColumn120) {
  std::string words;
  for (int i = 0; i < 60; ++i) words += "word ";
  std::string text = skeleton("// lab 21.2 begin: " + words + "\n// lab end\n", "f.cpp");
  std::size_t longest = 0, begin = 0;
  for (auto end = text.find('\n'); end != text.npos; begin = end + 1, end = text.find('\n', begin)) {
    longest = std::max(longest, end - begin);
  }
  EXPECT_LE(longest, 120u);
  EXPECT_TRUE(text.starts_with("todo(\"21.2\",\n     \"word"));
}

TEST(Skeleton, NamesTheLineOfAMalformedRegion) {
  auto message = [](const char* solution) -> std::string {
    try {
      skeleton(solution, "f.cpp");
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message("\n// lab 21.2 begin: x\n"), "f.cpp:2: this region has no '// lab end'");
  EXPECT_EQ(message("// lab end\n"), "f.cpp:1: '// lab end' without a begin");
  EXPECT_EQ(message("// lab 1 begin: x\n// lab 2 begin: y\n"), "f.cpp:2: a region begins inside another one");
  EXPECT_NE(message("// lab 21.2 start: x\n"), "");
  EXPECT_EQ(message("\n// lab omit begin\n// lab end\n"), "f.cpp:2: this has no '// lab omit end'");
}

/// An answer that returns from an inner block and stands before another part's in the same function. Without its
/// return, it would run into that part's todo, and be called BLOCKED BY it.
std::string answer_that_may_fall_through(const std::string& solution) {
  std::istringstream lines(solution);
  std::string last, id, before;  // the last line of an answer; parts: the one read, and one that returned
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t indent = line.find_first_not_of(' ');
    const std::string text = indent == line.npos ? "" : line.substr(indent);
    if (text.starts_with("// lab end")) {
      inside = false;
      before = indent > 2 && last.starts_with("return") ? id : "";
    } else if (text.starts_with("// lab ") && text.find(" begin: ") != text.npos) {
      id = text.substr(7, text.find(" begin: ") - 7), inside = true;
      if (!before.empty() && before != id) return before + " falls through to " + id;
    } else if (!inside && text != "}") {
      before.clear();  // a return that is given, an else, or the next function
    }
    last = text;
  }
  return "";
}

TEST(Skeleton, NoAnswersReturnKeepsItOutOfAnotherPart) {
  const auto two = [](const std::string& end) {
    return "f() {\n  if (x) {\n    // lab 1.1a begin: a\n" + end + "  }\n  // lab 1.1b begin: b\n  // lab end\n}\n";
  };
  EXPECT_EQ(answer_that_may_fall_through(two("    return {};\n    // lab end\n")), "1.1a falls through to 1.1b");
  EXPECT_EQ(answer_that_may_fall_through(two("    g();\n    // lab end\n    return {};\n")), "");
  const Paths paths{.source = LOCKSTEP_SOURCE_DIR,
                    .build = {},
                    .course = Course::read(fs::path(LOCKSTEP_SOURCE_DIR) / "labs/course.json")};
  for (const Exercise& exercise : paths.course.select("").exercises)
    EXPECT_EQ(answer_that_may_fall_through(paths.has(exercise) ? read_text(paths.solution(exercise)) : ""), "")
        << exercise.id;
}

TEST(Stub, ThrowsTheExplanationInPlaceOfEveryAnswer) {
  std::string text = stub(kSolution, "f.cpp", "21.2", "f.cpp:3: \"no\"");
  EXPECT_NE(text.find("  ::lockstep::does_not_compile(\"21.2\", \"f.cpp:3: \\\"no\\\"\");\n"), text.npos);
  EXPECT_NE(text.find("int given()"), text.npos);
}

TEST(Skeleton, IsTheSameWithoutTheAnswers) {
  std::size_t files = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(std::string(LOCKSTEP_SOURCE_DIR) + "/solutions")) {
    if (entry.path().extension() != ".cpp") continue;
    const std::string name = entry.path().string(), solution = read_text(entry.path());
    const std::string stripped = without_answers(solution, name);
    EXPECT_EQ(skeleton(stripped, name), skeleton(solution, name)) << name;
    EXPECT_EQ(stub(stripped, name, "1.1", "why"), stub(solution, name, "1.1", "why")) << name;
    EXPECT_LT(stripped.size(), solution.size()) << name;
    ++files;
  }
  EXPECT_GT(files, 30u);
}

TEST(CompilerError, IsTheFirstInTheStudentsFile) {
  EXPECT_EQ(first_error("labs/f.cpp: In function 'int f()':\nlabs/f.cpp:7:3: error: expected ';' before 'x'\n"
                        "labs/f.cpp:9:1: error: later\n",
                        "labs/f.cpp")
                .line,
            7);
}

TEST(CompilerError, InAHeaderCountsWhereTheStudentLedToIt) {
  std::string log =
      "In file included from /usr/include/c++/12/vector:1,\n                 from labs/f.cpp:2:\n"
      "/usr/include/c++/12/bits/x.h:90:1: error: static assertion failed\n";
  EXPECT_EQ(first_error(log, "labs/f.cpp").line, 2);
  std::string used = "/usr/include/h.h:5:1: error: no match for 'operator<'\nlabs/f.cpp:12:9:   required from here\n";
  EXPECT_EQ(first_error(used, "labs/f.cpp").line, 12);
  // The use counts, and not the include before it.
  const std::string both =
      "In file included from /usr/include/c++/12/vector:64,\n                 from labs/f.cpp:2:\n"
      "/usr/include/c++/12/bits/x.h: In instantiation of 'class X<int>':\nlabs/f.cpp:12:9:   required from here\n"
      "/usr/include/c++/12/bits/x.h:90:1: error: no type named 'y'\n";
  EXPECT_EQ(explain(both, "labs/f.cpp"), "f.cpp:12: no type named 'y' (in x.h:90, which it uses)");
}

TEST(CompilerError, WarningsAreThoseOfTheStudentsFileEachOnce) {
  EXPECT_EQ(
      warnings_in("labs/f.cpp: In function 'int f()':\nlabs/f.cpp:7:3: warning: comparison of ‘int’ [-Wsign-compare]\n"
                  "  7 |   a < b\nlabs/f.cpp:7:3: warning: comparison of ‘int’ [-Wsign-compare]\n"
                  "labs/half.cpp:9:1: warning: a [-Wb]\nf.cpp:8: warning: c\nlabs/f.cpp:9:1: note: d\n",
                  "labs/f.cpp"),
      (std::vector<std::string>{"f.cpp:7: comparison of 'int' [-Wsign-compare]", "f.cpp:8: c"}));
}

TEST(CompilerError, AWarningOfARegionWithoutANameSaysHowToNameIt) {
  const std::string dropped = "f.cpp:7:3: warning: ignoring return value of 'lockstep::Scope lockstep::Rank::region(";
  const std::vector<std::string> warnings = warnings_in(dropped + "const char*)'\n", "labs/f.cpp");
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("Name it: Scope scope = "), std::string::npos) << warnings[0];
}

TEST(CompilerError, OfAFileThatIsGivenIsNamedByThatFile) {
  const std::string log =
      "[2/6] Building\nIn file included from /a/solutions/f.cpp:4:\n/a/labs/f.hpp:34:9: error: expected ';' before "
      "'x'\n";
  EXPECT_EQ(file_of_first_error(log), "/a/labs/f.hpp");
  EXPECT_EQ(explain(log, file_of_first_error(log)).substr(0, 9), "f.hpp:34:");
  EXPECT_EQ(file_of_first_error("ld: undefined reference to `f'\n"), "");
}

TEST(CompilerError, AHelperWithoutADefinitionIsNamedAsTheStudentCallsIt) {
  const std::string call = "you call lockstep::f(int, lockstep::Rank), but no definition with these arguments exists.";
  const auto explained = [](const std::string& log) { return explain_undefined(log, "/a/labs/f.cpp"); };
  // gold, with lines and without; ld, with lines and without.
  for (const auto& [position, log] : std::vector<std::pair<std::string, std::string>>{
           {"f.cpp:7: ", "../../labs/f.cpp:7: error: undefined reference to 'lockstep::f(int, lockstep::Rank)'\n"},
           {"f.cpp: ",
            "a.dir/f.cpp.o:f.cpp:function g(): error: undefined reference to 'lockstep::f(int, "
            "lockstep::Rank)'\n"},
           {"f.cpp:7: ",
            "ld: a.dir/f.cpp.o: in function `g()':\n/a/labs/f.cpp:7: undefined reference to "
            "`lockstep::f(int, lockstep::Rank)'\ncollect2: error: ld returned 1 exit status\n"},
           {"f.cpp: ",
            "ld: a.dir/f.cpp.o: in function `g()':\nf.cpp:(.text+0x9): undefined reference to "
            "`lockstep::f(int, lockstep::Rank)'\n"}})
    EXPECT_EQ(explained(log).substr(0, position.size() + call.size()), position + call) << log;
  EXPECT_EQ(explained("/a/labs/f.cpp:7: error: undefined reference to 'lockstep::kMost'\n"),
            "f.cpp:7: you use lockstep::kMost, which is declared but not defined anywhere.");
  EXPECT_EQ(explained("/a/labs/other_f.cpp:7: error: undefined reference to 'f(int)'\n"), "");
  EXPECT_EQ(explained("/a/labs/f.cpp:7:3: error: expected ';' before 'x'\n"), "");
}

TEST(CompilerError, TheFileMayBeNamedByAnotherPath) {
  const std::string log =
      "In file included from ../../labs/week/other_f.cpp:3:\n"
      "../../labs/week/f.cpp: In function 'void g()':\n../../labs/week/f.cpp:12:8: error: 'x' was not declared\n";
  EXPECT_EQ(first_error(log, "/home/me/lockstep/labs/week/f.cpp").line, 12);
}

TEST(CompilerError, ComesWithOnePlainSentence) {
  EXPECT_EQ(explain("a/f.cpp:7:3: error: expected ';' before 'x'\n", "a/f.cpp"),
            "f.cpp:7: expected ';' before 'x' — A semicolon is missing, at the end of this line or the one before.");
  EXPECT_NE(
      explain_compiler_error("no match for 'operator[]' (operand types are 'lockstep::Slice' and 'int')").find("GPU"),
      std::string::npos);
  EXPECT_NE(
      explain_compiler_error("passing 'const lockstep::Rank' as 'this' argument discards qualifiers [-fpermissive]")
          .find("copy it first"),
      std::string::npos);
  // GCC's words and Clang's for what a brace or a comma too few or too many causes.
  for (const auto& [message, words] : std::vector<std::pair<std::string, std::string>>{
           {"a function-definition is not allowed here before '{' token", "lacks a closing brace"},
           {"function definition is not allowed here", "lacks a closing brace"},
           {"variable or field 'ring_all_gather' declared void", "extra closing brace"},
           {"expected initializer before 'int'", "A brace '{' or a semicolon is missing"},
           {"expected '}' before 'receive'", "A comma is missing"},
           {"expected ')' before 'received'", "A comma is missing"},
           {"expected ')' before ';' token", "never closed"},
           {"no return statement in function returning non-void [-Werror=return-type]", "must return a value"},
           {"non-void function does not return a value [-Werror,-Wreturn-type]", "must return a value"},
           {"multiple definition of 'main'", "Delete your main()"},
           {"'this' was not captured for this lambda function", "[x = x_]"},
           {"'this' cannot be implicitly captured in this context", "[x = x_]"},
           {"no matching function for call to 'lockstep::week21::NoSync::NoSync()'", "NoSync quiet(ddp);"}})
    EXPECT_NE(explain_compiler_error(message).find(words), std::string::npos) << message;
  EXPECT_NE(explain_compiler_error("'optional' is not a member of 'std'").find("#include"), std::string::npos);
  EXPECT_EQ(explain_compiler_error("something nobody has seen"), "");
}

}  // namespace
}  // namespace lockstep::tools
