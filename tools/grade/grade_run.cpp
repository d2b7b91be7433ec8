#include "tools/grade/grade_run.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <random>
#include <utility>

#include "common/error.hpp"
#include "common/support/text/files.hpp"
#include "tools/course/process.hpp"

namespace lockstep::tools {
namespace {

constexpr std::size_t kLongestSeal = 256;
constexpr int kSecret = 3, kSeal = 4;  // the descriptors that tools/grade/grade_seal.cpp knows
constexpr std::array kInterrupts{SIGINT, SIGTERM, SIGHUP};

volatile std::sig_atomic_t interrupts = 0;  // a signal's handler has no parameter for it

/// Both ends of a pipe; they close at exec.
struct Channel {
  int read = -1, write = -1;
  Channel() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw Error(Verdict::usage, fmt::format("no pipe: {}", std::strerror(errno)));
    // Above the numbers that the child gives them.
    read = fcntl(ends[0], F_DUPFD_CLOEXEC, 10), write = fcntl(ends[1], F_DUPFD_CLOEXEC, 10);
    close(ends[0]), close(ends[1]);
  }
  ~Channel() { close(read), close_write(); }
  Channel(const Channel&) = delete;
  void close_write() {
    if (write >= 0) close(std::exchange(write, -1));
  }
};

std::string new_secret() {
  std::random_device random;
  std::string secret;
  while (secret.size() < 32) secret += fmt::format("{:08x}", random());
  return secret;
}

struct Channels {
  Channel output, secret, seal, failure;
};

/// The environment of a student's code, with nothing of the grader's.
std::vector<std::string> small_environment(const Confined& command) {
  const std::string folder = command.folder.string();
  std::vector<std::string> variables{
      "PATH=/usr/local/bin:/usr/bin:/bin",     "HOME=" + folder,  "TMPDIR=" + folder, "OPENBLAS_NUM_THREADS=1",
      std::string("LC_ALL=") + command.locale, "CCACHE_DISABLE=1"};
  // Memory that one rank gives back is overwritten before another is given it: "Memory Allocation Tunables" in glibc's
  // manual. The cache of each thread would be left out.
  if (command.rules == Rules::sealed)
    variables.emplace_back("GLIBC_TUNABLES=glibc.malloc.perturb=165:glibc.malloc.tcache_count=0");
  return variables;
}

std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> result;
  for (const std::string& word : words) result.push_back(const_cast<char*>(word.c_str()));
  result.push_back(nullptr);
  return result;
}

void prepare_child(const Confined& command, const Channels& channels) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGXFSZ, SIG_DFL);  // run_program ignores it
  setsid();                  // a group of its own, without a terminal
  if (!command.folder.empty() && chdir(command.folder.c_str()) != 0) throw std::runtime_error(std::strerror(errno));
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(channels.output.write, STDOUT_FILENO), dup2(channels.output.write, STDERR_FILENO);
  limit(command.limits);
  if (command.rules == Rules::limits_only) return;
  if (command.rules == Rules::sealed) dup2(channels.secret.read, kSecret), dup2(channels.seal.write, kSeal);
  const int kept = command.rules == Rules::sealed ? kSeal : STDERR_FILENO;
  constexpr unsigned close_at_exec = 4;  // CLOSE_RANGE_CLOEXEC; whatever else is open stays here
  if (syscall(SYS_close_range, kept + 1, ~0u, close_at_exec) != 0) throw std::runtime_error("close_range failed");
  confine({.scratch = command.folder,
           .may_read = command.may_read,
           .may_start_processes = command.rules == Rules::compiler});
}

/// In the child, between fork and exec.
[[noreturn]] void start(const Confined& command, const Channels& channels) {
  std::string why;
  try {
    prepare_child(command, channels);
    auto arguments = pointers_to(command.arguments);
    if (command.rules != Rules::limits_only) {
      auto environment = small_environment(command);
      execvpe(arguments[0], arguments.data(), pointers_to(environment).data());
    } else {
      execvp(arguments[0], arguments.data());
    }
    why = std::strerror(errno);
  } catch (const std::exception& error) {
    why = error.what();
  }
  if (write(channels.failure.write, why.data(), why.size()) < 0) _exit(126);
  _exit(127);
}

/// Appends what there is to read, up to `most` characters in all; false at the end of the stream.
bool read_some(int from, std::string& into, std::size_t most, std::uint64_t* count = nullptr) {
  std::array<char, 4096> buffer{};  // GCC 11 believes that read() reads it
  ssize_t got = read(from, buffer.data(), buffer.size());
  if (got <= 0) return got < 0 && (errno == EINTR || errno == EAGAIN);
  if (count) *count += static_cast<std::uint64_t>(got);
  into.append(buffer.data(), std::min(static_cast<std::size_t>(got), most - std::min(most, into.size())));
  return true;
}

/// True if more is below `folder` than a process may write there.
bool holds_too_much(const std::filesystem::path& folder, const Limits& limits) {
  std::error_code gone;  // files come and go meanwhile
  std::uint64_t bytes = 0;
  int files = 0;
  for (std::filesystem::recursive_directory_iterator all(folder, gone), end; all != end && !gone; all.increment(gone)) {
    bytes += bytes_of(*all);
    if (bytes > limits.folder_bytes || ++files > Limits::kMostFiles) return true;
  }
  return false;
}

/// Collects what comes out of the child until it has ended, or has had enough.
class Watch {
 public:
  Watch(pid_t child, const Channels& channels, const Confined& command)
      : child_(child),
        channels_(channels),
        limits_(command.limits),
        folder_(command.rules == Rules::limits_only ? "" : command.folder),
        kept_(command.kept_bytes) {}

  /// The status that waitpid says.
  int follow(ConfinedEnd& end) {
    WorkClock passed(1);
    int status = 0;
    while (waitpid(child_, &status, WNOHANG) != child_) {
      interrupted = interrupts > 0;
      end.timed_out = passed.seconds() > limits_.wall_seconds;
      end.printed_too_much = printed_ > limits_.output_bytes;
      end.wrote_too_much = !folder_.empty() && holds_too_much(folder_, limits_);
      if (interrupted || end.timed_out || end.printed_too_much || end.wrote_too_much) {
        kill(-child_, SIGKILL), kill(child_, SIGKILL);
        waitpid(child_, &status, 0);
        break;
      }
      read_what_is_there(end, 20);
    }
    kill(-child_, SIGKILL);  // its descendants
    while (read_what_is_there(end, 0) && printed_ <= limits_.output_bytes) {
    }
    return status;
  }
  std::string seal;
  bool interrupted = false;

 private:
  bool read_what_is_there(ConfinedEnd& end, int milliseconds) {
    std::array<pollfd, 2> ready{pollfd{output_open_ ? channels_.output.read : -1, POLLIN, 0},
                                pollfd{seal_open_ ? channels_.seal.read : -1, POLLIN, 0}};
    if (poll(ready.data(), ready.size(), output_open_ || seal_open_ ? milliseconds : std::min(milliseconds, 2)) <= 0)
      return false;
    if (ready[0].revents) output_open_ = read_some(channels_.output.read, end.output, kept_, &printed_);
    if (ready[1].revents) seal_open_ = read_some(channels_.seal.read, seal, kLongestSeal);
    return true;
  }

  pid_t child_;
  const Channels& channels_;
  const Limits& limits_;
  std::filesystem::path folder_;  // that it writes to
  std::size_t kept_;
  bool output_open_ = true, seal_open_ = true;
  std::uint64_t printed_ = 0;
};

/// Fail closed: exactly one line, which begins with the secret.
void break_seal(const std::string& seal, const std::string& secret, ConfinedEnd& end) {
  if (seal.empty()) {
    end.without_seal = "it ended before its tests were over";
  } else if (!seal.starts_with(secret + " ") || seal.find('\n') != seal.size() - 1) {
    end.without_seal = "the verdict it sent lacks this run's secret, so something else wrote it";
  } else {
    end.sealed = true;
    end.under_seal = seal.substr(secret.size() + 1, seal.size() - secret.size() - 2);
  }
}

}  // namespace

std::uint64_t bytes_of(const std::filesystem::directory_entry& file) {
  std::error_code gone;
  const std::uint64_t bytes = file.is_regular_file(gone) ? file.file_size(gone) : 0;
  return gone ? 0 : bytes;
}

std::string Scratch::prefix() { return temporary_folder() + "/lockstep_grade_"; }

Scratch::Scratch() {
  std::string pattern = prefix() + std::string(kDrawn, 'X');
  if (!mkdtemp(pattern.data()))
    throw Error(Verdict::usage,
                fmt::format("cannot make a folder in {}: {}", temporary_folder(), std::strerror(errno)));
  path_ = pattern;
}

Scratch::~Scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Interruptible::Interruptible() {
  interrupts = 0;
  struct sigaction action {};
  action.sa_handler = [](int) { interrupts = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // and a wait for a lock ends
  struct sigaction before {};
  for (const int number : kInterrupts)
    if (sigaction(number, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(number, &action, nullptr);
}

Interruptible::~Interruptible() {
  struct sigaction now {};
  for (const int number : kInterrupts)
    if (sigaction(number, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) signal(number, SIG_DFL);
}

ConfinedEnd run_confined(const Confined& command) {
  Channels channels;
  const std::string secret = new_secret();
  if (write(channels.secret.write, secret.data(), secret.size()) != static_cast<ssize_t>(secret.size()))
    throw Error(Verdict::usage, "cannot hand over the secret");
  channels.secret.close_write();
  pid_t child = fork();
  if (child < 0) throw Error(Verdict::usage, fmt::format("cannot start a process: {}", std::strerror(errno)));
  if (child == 0) start(command, channels);
  channels.output.close_write(), channels.seal.close_write(), channels.failure.close_write();

  ConfinedEnd end;
  Watch watch(child, channels, command);
  int status = watch.follow(end);
  if (watch.interrupted) throw Interrupted("interrupted: this submission is not graded.");
  std::string failure;
  while (read_some(channels.failure.read, failure, 1000)) {
  }
  if (!failure.empty())
    throw Error(Verdict::usage, fmt::format("cannot start {} confined: {}", command.arguments[0], failure));
  end.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  break_seal(watch.seal, secret, end);
  return end;
}

}  // namespace lockstep::tools
