// ./lab watch: judges an answer whenever it is saved.
#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <thread>

#include "common/error.hpp"
#include "tools/course/commands.hpp"

namespace lockstep::tools {
namespace {

/// A wrong option or a file that cannot be read ends a command, but not the watching.
void check_and_go_on(const Paths& paths, const CheckOptions& options) {
  try {
    (void)check(paths, options);
  } catch (const Error& error) {
    fmt::print("{}\n", error.what());
  }
  fmt::print("\n");
  std::fflush(stdout);
}

}  // namespace

int watch(const Paths& paths, CheckOptions options) {
  using namespace std::chrono_literals;
  const Selection selection = paths.course.select(options.what);
  const std::string part = selection.part;
  const bool named = selection.exercises.size() == 1;
  std::map<std::string, std::string> seen;
  for (const Exercise& exercise : selection.exercises) seen[exercise.id] = read_text(paths.answer(exercise));
  if (named) check_and_go_on(paths, options);
  fmt::print("watching {}; stop with Ctrl-C\n",
             named ? paths.answer(selection.exercises[0]).string() : paths.labs.string());
  std::fflush(stdout);
  while (true) {
    std::this_thread::sleep_for(200ms);
    for (const Exercise& exercise : selection.exercises) {
      const std::string text = read_text(paths.answer(exercise));
      if (text == seen[exercise.id] || text.empty()) continue;  // an editor may empty a file before it writes
      seen[exercise.id] = text;
      options.what = named && !part.empty() ? part : exercise.id;
      check_and_go_on(paths, options);
    }
  }
}

}  // namespace lockstep::tools
