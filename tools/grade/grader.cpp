// ./lab grade and ./lab class: what ./lab becomes for them.
#include "tools/lab_command.hpp"

int main(int argc, char** argv) {
  using namespace lockstep::tools;
  return run_lab({.source = LOCKSTEP_SOURCE_DIR, .build = LOCKSTEP_BUILD_DIR, .labs = LOCKSTEP_LABS_DIR, .course = {}},
                 argc, argv, {grade, class_results});
}
