#include "tools/workshop.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "common/error.hpp"
#include "common/text/nearest.hpp"
#include "tools/process.hpp"

namespace lockstep::tools {
namespace {

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

FolderLock::FolderLock(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  file_ = open((folder / "lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
  if (file_ >= 0) flock(file_, LOCK_EX);
}
FolderLock::~FolderLock() {
  if (file_ >= 0) close(file_);
}

bool Workshop::has(const Exercise& e) const {
  return std::filesystem::exists(solution(e)) &&
         std::filesystem::exists(source / "labs" / e.folder / (e.name + "_test.cpp"));
}

Built build_targets(const Workshop& shop, const std::vector<std::string>& targets, std::string_view what) {
  FolderLock lock(shop.mine());  // Ninja does not expect two builds at a time in one tree
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

bool has_processes(std::string_view backend) { return backend == "mpi" || backend == "nccl"; }

namespace {

/// The script under launch/ that starts the processes.
std::string choose_launcher(const Workshop& shop, const Launch& how) {
  std::vector<std::string> known{"auto", "mpirun", "srun"};
  if (how.backend == "nccl") known.push_back("local");  // which needs no MPI
  if (std::find(known.begin(), known.end(), how.launcher) == known.end())
    throw Error(Verdict::usage, unknown_name("launcher", how.launcher, known));
  if (how.launcher != "auto") return how.launcher;
  if (std::getenv("SLURM_JOB_ID") && !find_program("srun").empty()) return "srun";
  if (how.backend != "nccl" || how.nodes > 1) return "mpirun";
  const bool knows_mpi =
      std::filesystem::exists(shop.build / "backends" / "mpi");  // else mpirun's ranks would not meet
  return knows_mpi && !find_program("mpirun").empty() ? "mpirun" : "local";
}

}  // namespace

std::vector<std::string> launch(const Workshop& shop, const std::filesystem::path& program, const Launch& how) {
  std::vector<std::string> command;
  if (has_processes(how.backend)) {
    if (how.nodes < 1 || how.processes % how.nodes != 0)
      throw Error(Verdict::usage,
                  fmt::format("--ranks {} cannot be spread evenly over --nodes {}.", how.processes, how.nodes));
    command = {"sh", (shop.source / "launch" / (choose_launcher(shop, how) + ".sh")).string(), "-n",
               std::to_string(how.processes)};
    if (how.nodes > 1) command.insert(command.end(), {"--nodes", std::to_string(how.nodes)});
    if (!how.hostfile.empty()) command.insert(command.end(), {"--hostfile", how.hostfile});
    if (how.timeout_seconds > 0) {
      command.insert(command.end(), {"--timeout", std::to_string(static_cast<int>(std::ceil(how.timeout_seconds)))});
    }
  }
  command.insert(command.end(), how.around.begin(), how.around.end());
  command.push_back(program.string());
  return command;
}

void check_backend(const Workshop& shop, const std::string& backend) {
  const std::vector<std::string> known{"sim", "mpi", "cuda", "nccl"};
  if (std::find(known.begin(), known.end(), backend) == known.end()) {
    throw Error(Verdict::usage, unknown_name("backend", backend, known));
  }
  if (std::filesystem::exists(shop.build / "backends" / backend)) return;
  const std::string remedy = backend == "cuda"   ? "it needs the CUDA toolkit, and ./lab builds it in build/cuda"
                             : backend == "nccl" ? "it needs the CUDA toolkit and NCCL (libnccl-dev)"
                                                 : "./lab setup installs what it needs";
  throw Error(Verdict::usage,
              fmt::format("this build has no {} backend: {}; ./lab doctor says what was found.", backend, remedy));
}

int gpus_here() {
  int count = 0;
  std::error_code none;  // a container may have only some of them, under their numbers of the host
  for (const auto& entry : std::filesystem::directory_iterator("/dev", none)) {
    const std::string name = entry.path().filename();
    count += name.size() > 6 && name.starts_with("nvidia") && name.find_first_not_of("0123456789", 6) == name.npos;
  }
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    const std::string list = visible;
    const int shown = list.empty() ? 0 : 1 + static_cast<int>(std::count(list.begin(), list.end(), ','));
    count = std::min(count, shown);
  }
  return std::max(1, count);
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

std::string read_text(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_text(const std::filesystem::path& file, const std::string& text) {
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::binary);
  out << text;
  if (!out.flush()) throw Error(Verdict::usage, "cannot write " + file.string());
}

std::string indented(std::string_view text, std::string_view indent) {
  std::istringstream lines{std::string(text)};
  std::string result;
  for (std::string line; std::getline(lines, line);) result += std::string(indent) + line + "\n";
  return result;
}

}  // namespace lockstep::tools
