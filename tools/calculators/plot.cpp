#include "tools/calculators/plot.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "common/error.hpp"
#include "common/support/text/files.hpp"
#include "common/support/text/run_program.hpp"

namespace lockstep::bench {
namespace {

/// The last line that a command of the shell prints, and how it ended.
struct LastWords {
  std::string line;
  int status = 0;
};
LastWords last_words_of(const char* command) {
  std::FILE* output = popen(command, "r");
  if (!output) throw Error(Verdict::usage, "no shell can be started");
  LastWords last;
  std::array<char, 1024> part{};
  for (bool new_line = true; std::fgets(part.data(), part.size(), output);) {
    const std::string read = part.data();
    last.line = new_line ? read : last.line + read;
    new_line = read.ends_with('\n');
  }
  last.status = pclose(output);
  if (last.line.ends_with('\n')) last.line.pop_back();
  return last;
}

/// Removed when it dies.
struct TemporaryFile {
  TemporaryFile() {
    const int file = mkstemp(name.data());
    if (file < 0) throw Error(Verdict::usage, fmt::format("cannot write {}: {}", name, std::strerror(errno)));
    close(file);
  }
  ~TemporaryFile() { std::remove(name.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  std::string name = temporary_folder() + "/lockstep_plot_XXXXXX";
};

}  // namespace

void check_plot(const std::string& path) {
  if (path.empty()) return;
  if (!path.ends_with(".svg") && !path.ends_with(".pdf") && !path.ends_with(".png"))
    throw Error(Verdict::usage, fmt::format("--plot {}: a figure's name ends in .svg, .pdf or .png", path));
  check_writable(path);
}

void plot(const char* script, const std::string& path, const std::function<void(const std::string& data)>& write) {
  const TemporaryFile data;
  write(data.name);
  setenv("LOCKSTEP_PLOT_FROM", data.name.c_str(), 1);
  setenv("LOCKSTEP_PLOT_TO", path.c_str(), 1);
  setenv("LOCKSTEP_PLOT_WITH", fmt::format("{}/bench/plots/{}", LOCKSTEP_SOURCE_DIR, script).c_str(), 1);
  flush_output();
  const LastWords drawn = last_words_of(
      "for python in \"${LOCKSTEP_PYTHON:-/usr/bin/python3}\" python3; do "
      "\"$python\" -c 'import matplotlib' 2>/dev/null || continue; "
      "exec \"$python\" -B \"$LOCKSTEP_PLOT_WITH\" \"$LOCKSTEP_PLOT_FROM\" \"$LOCKSTEP_PLOT_TO\" 2>&1; done; exit 9");
  if (WIFEXITED(drawn.status) && WEXITSTATUS(drawn.status) == 9)
    throw Error(Verdict::usage, "--plot needs a python3 with matplotlib (./lab setup); the other outputs do not");
  if (drawn.status != 0) throw Error(Verdict::fail, fmt::format("cannot draw {}: {}", path, drawn.line));
}

}  // namespace lockstep::bench
