// ./lab grade and ./lab class: what ./lab becomes for them.
#include <cstdio>

#include "common/support/text/run_program.hpp"
#include "tools/lab_command.hpp"

int main(int argc, char** argv) {
  using namespace lockstep::tools;
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  return lockstep::run_program("", [&] {
    Paths paths{.source = LOCKSTEP_SOURCE_DIR, .build = LOCKSTEP_BUILD_DIR, .labs = LOCKSTEP_LABS_DIR, .course = {}};
    paths.course = Course::read(paths.source / "labs" / "course.json");
    return read_command(paths, argc, argv, {grade, class_results})();
  });
}
