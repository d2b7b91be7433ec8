// Paths, building and writing to a terminal, for every command.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/course/course.hpp"

namespace lockstep::tools {

struct Paths {
  std::filesystem::path source;  ///< the repository
  std::filesystem::path build;   ///< the build tree that this program belongs to
  std::filesystem::path labs;    ///< LOCKSTEP_LABS_DIR: the student's answers
  Course course;

  std::filesystem::path mine() const { return build / "mine"; }
  std::filesystem::path program(std::string_view name) const { return build / "programs" / name; }
  std::filesystem::path answer(const Exercise& e) const { return labs / e.folder / (e.name + ".cpp"); }
  std::filesystem::path solution(const Exercise& e) const {
    return source / "solutions" / e.folder / (e.name + ".cpp");
  }
  /// Another right answer, for a skeleton of the interface alone; few exercises have one.
  std::filesystem::path hard_solution(const Exercise& e) const {
    return source / "solutions" / e.folder / "hard" / (e.name + ".cpp");
  }
  /// False for an exercise that the course lists and the suite does not have yet.
  bool has(const Exercise& e) const;
  /// The weeks of which an exercise is here: a handout's course lists all, and it has the files of some.
  std::vector<Week> weeks() const;
  /// The exercises that are here.
  std::vector<Exercise> exercises() const;
  /// An exercise that is here, for examples in messages: 21.2, or the first.
  std::string example() const;
};

/// Held while something runs that expects a folder to itself, such as a build. Where another process holds it, `tell`
/// gets a line that says who that is and what it is doing; then it waits.
class FolderLock {
 public:
  using Tell = std::function<void(std::string_view line)>;
  /// `doing` continues "process 12 is …".
  FolderLock(const std::filesystem::path& folder, std::string_view doing, const Tell& tell = say);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  /// True if nobody holds the lock and the folder can be written.
  static bool is_free(const std::filesystem::path& folder);

 private:
  static void say(std::string_view line);  // on standard error
  int file_ = -1;
};

/// Throws Error(usage) where `folder` exists and nothing can be written into it, with `what` in front of it ("21.2 is
/// not built yet, and ") and the next step behind it.
void need_writable(const std::filesystem::path& folder, std::string_view what);

/// A folder in the build tree for one run of a program, removed at its end: two runs at a time share nothing.
class RunFolder {
 public:
  explicit RunFolder(const Paths& paths);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  static void remove_old(const std::filesystem::path& all);
  std::filesystem::path path_;
  std::optional<FolderLock> lock_;
};

struct Built {
  bool ok = false;
  std::string log;  ///< of the build system and the compiler
};

/// Brings targets up to date, one build at a time in this tree. While it takes, standard error says how far it is with
/// `what` ("21.2").
Built build_targets(const Paths& paths, const std::vector<std::string>& targets, std::string_view what);
/// True if nothing has changed since `target` was brought up to date: ./lab itself ("lab_tool"), or a program of the
/// reference. For use where Ninja, which knows better, cannot be asked: it waits for other builds, and writes.
bool is_current(const Paths& paths, const std::string& target);
/// Builds like build_targets; throws Error(usage) with the log where `what` cannot be built. Programs that are up to
/// date wait for nobody else's build, and need no writable tree.
void need_built(const Paths& paths, const std::vector<std::string>& targets, std::string_view what);

/// Options for starting a backend's program. The simulator and CUDA are one process; MPI and NCCL several.
struct Launch {
  std::string backend = "sim";
  int processes = 1;
  std::string launcher = "auto";    ///< mpirun, srun, or for NCCL local; auto: srun in a Slurm allocation
  int nodes = 1;                    ///< hosts, with equally many processes each
  std::string hostfile;             ///< mpirun: which hosts; empty: the scheduler's, or this one
  double timeout_seconds = 0;       ///< the launcher ends all processes then; 0: never
  int grace_seconds = 0;            ///< mpirun: for which interrupted processes may save before they end
  std::vector<std::string> around;  ///< in each process: a command that runs the program, such as a profiler
};

/// True if each rank of a backend is a process.
bool has_processes(std::string_view backend);

/// Throws Error(usage) where so many processes cannot be started, or not spread over so many hosts.
void check_processes(const Launch& how);

/// The command line that runs `program`, arguments to follow. Throws Error(usage) where processes and nodes do not fit,
/// or the launcher is unknown.
std::vector<std::string> launch(const Paths& paths, const std::filesystem::path& program, const Launch& how);

/// Throws Error(usage) for a backend that does not exist, or that this build lacks.
void check_backend(const Paths& paths, const std::string& backend);

/// The GPUs that this computer's driver and CUDA_VISIBLE_DEVICES show, or at least 1: how many NCCL ranks fit.
int gpus_here();

/// Colours for standard output; all empty where it is no terminal, or NO_COLOR is set.
struct Style {
  std::string good, bad, open, faint, off;
};
Style style();
/// `text` filled up with blanks to `columns` characters (UTF-8), or as it is where it is longer.
std::string padded(std::string_view text, std::size_t columns);
/// A file's bytes; "" where it cannot be read.
std::string read_text(const std::filesystem::path& file);
/// Writes a file, whole or not at all, and the folders above it. Throws Error(usage) where that fails.
void write_text(const std::filesystem::path& file, const std::string& text);

/// First of PATH.1, PATH.2, … with `ending` behind it that does not exist. For files that are kept.
std::filesystem::path free_name(const std::filesystem::path& path, const std::string& ending = "");
/// The same, but a file with that text already stays untouched, so that files built from it stay up to date.
void write_if_different(const std::filesystem::path& file, const std::string& text);

std::vector<std::string> lines_of(const std::string& text);
/// Each line of `text` with `indent` before it.
std::string indented(std::string_view text, std::string_view indent);

}  // namespace lockstep::tools
