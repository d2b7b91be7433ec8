// The command line of ./lab, read apart from what it asks for. A new command is one function in
// tools/course/commands.hpp and one paragraph in lab_command.cpp.
#pragma once

#include <functional>

#include "tools/course/commands.hpp"

namespace lockstep::tools {

/// The commands of tools/grade, which only the program `grader` contains: ./lab builds it and hands over its words.
struct Grader {
  std::function<int(const Paths&, const GradeOptions&)> grade;
  std::function<int(const Paths&, const ClassOptions&)> class_results;
};

/// Reads the words after ./lab. Returns a function that does what they ask for, and returns the exit code; `paths`
/// outlives it. Throws Error(usage) if they ask for nothing that exists.
std::function<int()> read_command(const Paths& paths, int argc, const char* const* argv, const Grader& grader);

/// The main of ./lab and of the grader: reads the course of `paths.source`, then does what the words ask for. Returns
/// the exit code.
int run_lab(Paths paths, int argc, const char* const* argv, const Grader& grader);

}  // namespace lockstep::tools
