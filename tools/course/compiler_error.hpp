// The first thing to read when a file does not compile: one error, in the student's own file, with one plain sentence.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::tools {

/// The first error in a compiler's output.
struct CompilerError {
  int line = 0;         ///< in the student's file; 0 where the compiler names no line of it
  std::string message;  ///< the compiler's own words, without the position
};

/// The first error of `log` (GCC's or Clang's words) that is in `source`. An error inside a header that was included
/// counts at the first line of `source` that led to it.
CompilerError first_error(std::string_view log, std::string_view source);

/// The warnings of `log` that are in `source`, each once: "ring_all_reduce.cpp:31: comparison of … [-Wsign-compare]".
std::vector<std::string> warnings_in(std::string_view log, std::string_view source);

/// The path of the file in which `log` has its first error; empty where it names none.
std::string file_of_first_error(std::string_view log);

/// The first function or variable that `source` uses and the linker (GNU's ld or gold) does not find, in a sentence for
/// its author; empty where there is none.
std::string explain_undefined(std::string_view log, std::string_view source);

/// Explains the compiler's message in one plain sentence; empty where we have no better words.
std::string explain_compiler_error(std::string_view message);

/// "ring_all_reduce.cpp:31: expected ';' before 'add' — A semicolon is missing …": both together, as shown to people.
std::string explain(std::string_view log, std::string_view source);

/// The same for a file that is compiled away from its folder, where its author's own headers are missing.
std::string explain_alone(std::string_view log, std::string_view source);

}  // namespace lockstep::tools
