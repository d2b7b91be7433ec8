// ./lab: the shell script of that name installs and builds, then hands over to this program.
#include <cstdio>

#include "common/support/text/run_program.hpp"
#include "tools/course/process.hpp"
#include "tools/lab_command.hpp"

int main(int argc, char** argv) {
  using namespace lockstep::tools;
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // who reads it through a pipe sees each line when it is printed
  return lockstep::run_program("", [&] {
    Paths paths{.source = LOCKSTEP_SOURCE_DIR, .build = LOCKSTEP_BUILD_DIR, .labs = LOCKSTEP_LABS_DIR, .course = {}};
    paths.course = Course::read(paths.source / "labs" / "course.json");
    const auto become_grader = [&](const Paths&, const auto&) -> int {
      need_built(paths, {"grader"}, "the grader");
      std::vector<std::string> words{paths.program("grader").string()};
      words.insert(words.end(), argv + 1, argv + argc);
      become(words);
    };
    return read_command(paths, argc, argv, {become_grader, become_grader})();
  });
}
