#include "tools/workshop.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "common/error.hpp"
#include "common/text/nearest.hpp"
#include "tools/process.hpp"

namespace lockstep::tools {
namespace {

/// Held while a build runs: Ninja does not expect two at a time in one tree.
class BuildLock {
 public:
  explicit BuildLock(const std::filesystem::path& folder) {
    std::filesystem::create_directories(folder);
    file_ = open((folder / "lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
    if (file_ >= 0) flock(file_, LOCK_EX);
  }
  ~BuildLock() {
    if (file_ >= 0) close(file_);
  }
  BuildLock(const BuildLock&) = delete;

 private:
  int file_ = -1;
};

/// One line on a terminal that is overwritten by the next and removed at the end.
class Progress {
 public:
  explicit Progress(std::string_view what) : what_(what), on_(isatty(STDERR_FILENO) && !std::getenv("NO_COLOR")) {}
  ~Progress() {
    if (shown_) fmt::print(stderr, "\r\033[K");
  }
  void show(std::string_view line) {
    if (!on_ || line.empty() || line[0] != '[') return;
    fmt::print(stderr, "\r\033[Kbuilding {} {}", what_, line.substr(0, 100 - std::min<std::size_t>(what_.size(), 80)));
    std::fflush(stderr);
    shown_ = true;
  }

 private:
  std::string what_;
  bool on_;
  bool shown_ = false;
};

}  // namespace

bool Workshop::has(const Exercise& e) const {
  return std::filesystem::exists(solution(e)) &&
         std::filesystem::exists(source / "labs" / e.folder / (e.name + "_test.cpp"));
}

Built build_targets(const Workshop& shop, const std::vector<std::string>& targets, std::string_view what) {
  BuildLock lock(shop.mine());
  Progress progress(what);
  Built built;
  Command command{.arguments = {"cmake", "--build", shop.build.string(), "--target"}, .folder = {}, .on_line = {}};
  command.arguments.insert(command.arguments.end(), targets.begin(), targets.end());
  command.on_line = [&](std::string_view line) {
    built.log.append(line).append("\n");
    progress.show(line);
  };
  built.ok = run_command(command).ok();
  return built;
}

std::vector<std::string> launch(const Workshop& shop, const std::filesystem::path& program, std::string_view backend,
                                int processes, double timeout_seconds) {
  if (backend != "mpi") return {program.string()};
  std::vector<std::string> command{"sh", (shop.source / "launch" / "mpirun.sh").string(), "-n",
                                   std::to_string(processes)};
  if (timeout_seconds > 0) {
    command.insert(command.end(), {"--timeout", std::to_string(static_cast<int>(std::ceil(timeout_seconds)))});
  }
  command.push_back(program.string());
  return command;
}

void check_backend(const Workshop& shop, const std::string& backend) {
  const std::vector<std::string> known{"sim", "mpi"};
  if (std::find(known.begin(), known.end(), backend) == known.end()) {
    throw Error(Verdict::usage, unknown_name("backend", backend, known));
  }
  if (backend == "mpi" && !std::filesystem::exists(shop.build / "backends" / "mpi")) {
    throw Error(Verdict::usage,
                "this build has no MPI backend: ./lab setup installs MPI, ./lab doctor says what was found.");
  }
}

Style style() {
  if (!isatty(STDOUT_FILENO) || std::getenv("NO_COLOR")) return {};
  return {"\033[32m", "\033[31m", "\033[33m", "\033[2m", "\033[0m"};
}

std::string padded(std::string_view text, std::size_t columns) {
  auto width =
      static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
  return std::string(text) + std::string(width < columns ? columns - width : 0, ' ');
}

std::string indented(std::string_view text, std::string_view indent) {
  std::istringstream lines{std::string(text)};
  std::string result;
  for (std::string line; std::getline(lines, line);) result += std::string(indent) + line + "\n";
  return result;
}

}  // namespace lockstep::tools
