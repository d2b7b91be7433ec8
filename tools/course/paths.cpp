#include "tools/course/paths.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <thread>

#include "common/error.hpp"
#include "common/support/text/columns.hpp"
#include "common/support/text/files.hpp"
#include "common/support/text/nearest.hpp"
#include "tools/course/process.hpp"
#include "tools/course/status_line.hpp"

namespace lockstep::tools {
namespace {

/// A build's progress, from the lines that Ninja prints.
class Progress {
 public:
  explicit Progress(std::string_view what) : what_(what) {}

  void show(const std::string& line) {
    int done = 0, all = 0;
    if (std::sscanf(line.c_str(), "[%d/%d]", &done, &all) != 2 || done < 1) return;
    steps_ = fmt::format(" [{}/{}]", done, all);
    if (line_.is_due()) say(time_left(done, all));
  }
  /// While a step takes long.
  void show_silence() {
    if (Clock::now() - last_ >= kBetween && line_.is_due()) say(fmt::format(", {:.0f} s so far", seconds()));
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kBetween{10};

  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }
  std::string time_left(int done, int all) const {
    return seconds() < 2 ? "" : fmt::format(", about {:.0f} s left", seconds() / done * (all - done));
  }
  void say(const std::string& time) {
    line_.show("building " + what_ + steps_ + time);
    last_ = Clock::now();
  }

  std::string what_, steps_;
  StatusLine line_{kBetween};
  Clock::time_point begin_ = Clock::now(), last_ = begin_;
};

/// The line that the holder of a lock has written into its file.
std::string holder_of(const std::filesystem::path& file) {
  const std::string text = read_text(file);
  return text.empty() ? "another process has locked it" : text.substr(0, text.find('\n'));
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder, std::string_view doing, const Tell& tell) {
  std::filesystem::create_directories(folder);
  const std::filesystem::path file = folder / "lock";
  file_ = open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
  if (file_ < 0) return;
  bool held = false;
  for (int tries = 0; tries < 50 && !held; ++tries) {  // half a second is not worth a word
    held = flock(file_, LOCK_EX | LOCK_NB) == 0;
    if (!held) usleep(10'000);
  }
  if (!held) {
    tell(fmt::format("waiting: {} (it has locked {})", holder_of(file), file.string()));
    held = flock(file_, LOCK_EX) == 0;
  }
  if (!held && errno == EINTR) {
    close(file_);
    throw Interrupted(fmt::format("interrupted: {} did not begin.", doing));
  }
  const std::string holder = fmt::format("process {} is {}\n", getpid(), doing);
  if (ftruncate(file_, 0) != 0 || pwrite(file_, holder.data(), holder.size(), 0) < 0) return;  // only words are lost
}
FolderLock::~FolderLock() {
  if (file_ >= 0) close(file_);
}
bool FolderLock::is_free(const std::filesystem::path& folder) {
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  const int file = open((folder / "lock").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
  const bool free = file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0;
  if (file >= 0) close(file);
  return free;
}
void FolderLock::say(std::string_view text) {
  if (seen_at_once()) fmt::print(stderr, "{}\n", text);
}

void need_writable(const std::filesystem::path& folder, std::string_view what) {
  if (access(folder.c_str(), W_OK) != 0 && errno != ENOENT)
    throw Error(
        Verdict::usage,
        fmt::format("{}{} cannot be written ({}): copy the repository to a folder of your own, and do it there.", what,
                    folder.string(), std::strerror(errno)));
}

RunFolder::RunFolder(const Paths& paths) {
  const std::filesystem::path all = paths.mine() / "running";
  need_writable(paths.build, "");
  make_folders_of((all / "any").string());
  remove_old(all);
  std::string name = (all / "XXXXXX").string();
  if (!mkdtemp(name.data()))
    throw Error(Verdict::usage, fmt::format("cannot make a folder in {}: {}", all.string(), std::strerror(errno)));
  path_ = name;
  lock_.emplace(path_, "running a program");
}
RunFolder::~RunFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

/// Removes folders that killed processes left there, which are unlocked. One that is being made has no lock yet.
void RunFolder::remove_old(const std::filesystem::path& all) {
  const auto made = std::filesystem::file_time_type::clock::now() - std::chrono::seconds(10);
  std::error_code gone;  // another process may be cleaning up as well
  for (const auto& entry : std::filesystem::directory_iterator(all, gone))
    if (std::filesystem::last_write_time(entry, gone) < made && !gone && FolderLock::is_free(entry))
      std::filesystem::remove_all(entry.path(), gone);
}

bool Paths::has(const Exercise& e) const {
  return std::filesystem::exists(solution(e)) &&
         std::filesystem::exists(source / "labs" / e.folder / (e.name + "_test.cpp"));
}

std::vector<Week> Paths::weeks() const {
  std::vector<Week> here;
  for (const Week& week : course.weeks())
    if (std::any_of(week.exercises.begin(), week.exercises.end(), [this](const Exercise& e) { return has(e); }))
      here.push_back(week);
  return here;
}

std::vector<Exercise> Paths::exercises() const {
  std::vector<Exercise> here = course.select("").exercises;
  std::erase_if(here, [this](const Exercise& e) { return !has(e); });
  return here;
}

std::string Paths::example() const {
  const std::string usual = "21.2";
  const std::vector<Exercise> here = exercises();
  const bool usual_is_here = std::any_of(here.begin(), here.end(), [&](const Exercise& e) { return e.id == usual; });
  return here.empty() || usual_is_here ? usual : here.front().id;
}

Built build_targets(const Paths& paths, const std::vector<std::string>& targets, std::string_view what) {
  // Ninja does not expect two builds at a time in one tree.
  FolderLock lock(paths.mine(), fmt::format("building {}", what));
  need_writable(paths.mine(), fmt::format("{} may have to be built, and ", what));
  Progress progress(what);
  Built built;
  Command command{.arguments = {"cmake", "--build", paths.build.string(), "--target"}, .folder = {}, .on_line = {}};
  command.arguments.insert(command.arguments.end(), targets.begin(), targets.end());
  command.on_line = [&](std::string_view line) {
    built.log.append(line).append("\n");
    progress.show(std::string(line));
  };
  command.on_silence = [&] { progress.show_silence(); };
  built.ok = run_uninterrupted(command, fmt::format("building {}", what)).ok();
  return built;
}

namespace {

/// A file that is older than any change since `target` was brought up to date, whether it had to be linked or not. The
/// script ./lab writes that of "lab_tool".
std::filesystem::path stamp_of(const Paths& paths, const std::string& target) {
  return paths.mine() / "current" / target;
}

/// When the newest file was written that ./lab and programs of the reference are built from. Answers are not among
/// them.
std::filesystem::file_time_type newest_source(const Paths& paths) {
  namespace fs = std::filesystem;
  std::set<fs::path> answers;
  for (const Exercise& exercise : paths.course.select("").exercises) answers.insert(paths.answer(exercise));
  std::error_code none;
  // The time of the build's configuration, and not of build.ninja, which builds write as well.
  fs::file_time_type newest = fs::last_write_time(paths.build / "CMakeCache.txt", none);
  newest = std::max(newest, fs::last_write_time(paths.source / "CMakeLists.txt", none));
  for (const char* folder : {"bench", "cmake", "common", "labs", "solutions", "tools"})
    for (const auto& entry : fs::recursive_directory_iterator(paths.source / folder, none))
      if (entry.is_regular_file(none) && !answers.count(entry.path()))
        newest = std::max(newest, entry.last_write_time(none));
  return newest;
}

}  // namespace

bool is_current(const Paths& paths, const std::string& target) {
  namespace fs = std::filesystem;
  const fs::path stamp = stamp_of(paths, target);
  const fs::path program = target == "lab_tool" ? paths.build / "tools" / "lab" : paths.program(target);
  std::error_code none;
  return fs::exists(program, none) && fs::exists(stamp, none) &&
         fs::last_write_time(stamp, none) > newest_source(paths);
}

namespace {

/// True if these programs of the reference need no build or, in a tree that cannot be written, cannot have one.
bool need_no_build(const Paths& paths, const std::vector<std::string>& targets) {
  const bool writable = access(paths.mine().c_str(), W_OK) == 0;
  return std::all_of(targets.begin(), targets.end(), [&](const std::string& target) {
    if (target.starts_with("mine.")) return false;
    return writable ? is_current(paths, target) : std::filesystem::exists(paths.program(target));
  });
}

}  // namespace

void need_built(const Paths& paths, const std::vector<std::string>& targets, std::string_view what) {
  namespace fs = std::filesystem;
  if (!FolderLock::is_free(paths.mine()) && need_no_build(paths, targets)) return;
  need_writable(paths.mine(), fmt::format("{} is not built yet, and ", what));
  const fs::path begun = stamp_of(paths, fmt::format("begun.{}", getpid()));
  write_text(begun, "");
  const fs::file_time_type before = fs::last_write_time(begun);
  fs::remove(begun);
  const Built built = build_targets(paths, targets, what);
  for (const std::string& target : targets) {
    if (!built.ok || target.starts_with("mine.")) continue;
    write_text(stamp_of(paths, target), "");
    fs::last_write_time(stamp_of(paths, target), before);
  }
  if (!built.ok) throw Error(Verdict::usage, fmt::format("{} cannot be built:\n{}", what, built.log));
}

bool has_processes(std::string_view backend) { return backend == "mpi" || backend == "nccl"; }

namespace {

/// The script under launch/ that starts the processes.
std::string choose_launcher(const Paths& paths, const Launch& how) {
  std::vector<std::string> known{"auto", "mpirun", "srun"};
  if (how.backend == "nccl") known.push_back("local");  // which needs no MPI
  check_known("launcher", how.launcher, known);
  if (how.launcher != "auto") return how.launcher;
  if (std::getenv("SLURM_JOB_ID") && !find_program("srun").empty()) return "srun";
  if (how.backend != "nccl" || how.nodes > 1) return "mpirun";
  const bool knows_mpi =
      std::filesystem::exists(paths.build / "backends" / "mpi");  // else mpirun's ranks would not meet
  return knows_mpi && !find_program("mpirun").empty() ? "mpirun" : "local";
}

}  // namespace

void check_processes(const Launch& how) {
  if (how.nodes < 1 || how.processes % how.nodes != 0)
    throw Error(Verdict::usage,
                fmt::format("--ranks {} cannot be distributed evenly over --nodes {}.", how.processes, how.nodes));
  const bool elsewhere = how.nodes > 1 || !how.hostfile.empty();  // on hosts larger than this one, maybe
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int most = elsewhere ? 4096 : std::max(256, 64 * cores);
  if (how.processes / how.nodes > most)
    throw Error(Verdict::usage,
                fmt::format("--ranks {}: each rank is a process, and at most {} can start on {}. The simulator "
                            "(--backend sim) has room for more.",
                            how.processes, most, elsewhere ? "a host" : fmt::format("a host with {} cores", cores)));
}

std::vector<std::string> launch(const Paths& paths, const std::filesystem::path& program, const Launch& how) {
  std::vector<std::string> command;
  if (has_processes(how.backend)) {
    check_processes(how);
    const std::string launcher = choose_launcher(paths, how);
    command = {"sh", (paths.source / "launch" / (launcher + ".sh")).string(), "-n", std::to_string(how.processes)};
    if (how.nodes > 1) command.insert(command.end(), {"--nodes", std::to_string(how.nodes)});
    if (!how.hostfile.empty()) command.insert(command.end(), {"--hostfile", how.hostfile});
    if (how.timeout_seconds > 0) {
      command.insert(command.end(), {"--timeout", std::to_string(static_cast<int>(std::ceil(how.timeout_seconds)))});
    }
    if (how.grace_seconds > 0 && launcher == "mpirun")  // srun hands signals on by itself
      command.insert(command.end(), {"--grace", std::to_string(how.grace_seconds)});
  }
  command.insert(command.end(), how.around.begin(), how.around.end());
  command.push_back(program.string());
  return command;
}

void check_backend(const Paths& paths, const std::string& backend) {
  check_known("backend", backend, std::vector<std::string>{"sim", "mpi", "cuda", "nccl"});
  if (std::filesystem::exists(paths.build / "backends" / backend)) return;
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
  const std::size_t width = columns_of(text);
  return std::string(text) + std::string(width < columns ? columns - width : 0, ' ');
}

std::string read_text(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();  // optimised, in the library; iterators over characters, which are not, take ten times as long
  return std::move(text).str();
}

void write_text(const std::filesystem::path& file, const std::string& text) {
  make_folders_of(file.string());
  write_atomically(file.string(), text);
}

std::filesystem::path free_name(const std::filesystem::path& path, const std::string& ending) {
  for (int i = 1;; ++i)
    if (std::filesystem::path name = fmt::format("{}.{}{}", path.string(), i, ending); !std::filesystem::exists(name))
      return name;
}

void write_if_different(const std::filesystem::path& file, const std::string& text) {
  if (read_text(file) != text || !std::filesystem::exists(file)) write_text(file, text);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string indented(std::string_view text, std::string_view indent) {
  std::string result;
  for (const std::string& line : lines_of(std::string(text)))
    result += (line.empty() ? "" : std::string(indent) + line) + "\n";
  return result;
}

}  // namespace lockstep::tools
