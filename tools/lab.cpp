// ./lab: the shell script of that name installs and builds, then hands over to this program.
#include "tools/course/process.hpp"
#include "tools/lab_command.hpp"

int main(int argc, char** argv) {
  using namespace lockstep::tools;
  const auto become_grader = [&](const Paths& paths, const auto&) -> int {
    need_built(paths, {"grader"}, "the grader");
    std::vector<std::string> words{paths.program("grader").string()};
    words.insert(words.end(), argv + 1, argv + argc);
    become(words);
  };
  return run_lab({.source = LOCKSTEP_SOURCE_DIR, .build = LOCKSTEP_BUILD_DIR, .labs = LOCKSTEP_LABS_DIR, .course = {}},
                 argc, argv, {become_grader, become_grader});
}
