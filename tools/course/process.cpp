#include "tools/course/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string_view>
#include <utility>

#include "common/error.hpp"
#include "common/support/host/host.hpp"

namespace lockstep::tools {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// While it lives, Ctrl-C ends the child and not us.
class OutliveInterrupt {
 public:
  OutliveInterrupt() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGINT, &ignore, &before_);
  }
  ~OutliveInterrupt() { sigaction(SIGINT, &before_, nullptr); }
  OutliveInterrupt(const OutliveInterrupt&) = delete;

 private:
  struct sigaction before_ {};
};

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw Error(Verdict::usage, fmt::format("no pipe: {}", std::strerror(errno)));
    read = ends[0], write = ends[1];
  }
  ~Pipe() { close(read), close(write); }
  Pipe(const Pipe&) = delete;
};

std::vector<char*> pointers(const std::vector<std::string>& arguments) {
  std::vector<char*> result;
  for (const std::string& argument : arguments) result.push_back(const_cast<char*>(argument.c_str()));
  result.push_back(nullptr);
  return result;
}

/// In the child, between fork and exec.
[[noreturn]] void start_child(const Command& command, const Pipe* output, const Pipe& failure) {
  signal(SIGINT, SIG_DFL);
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // nothing that we started survives us
  if (!command.folder.empty() && chdir(command.folder.c_str()) != 0) _exit(127);
  if (output) dup2(output->write, STDOUT_FILENO), dup2(output->write, STDERR_FILENO);
  const rlimit memory{command.memory_bytes, command.memory_bytes};
  if (command.memory_bytes > 0) setrlimit(RLIMIT_AS, &memory);
  execvp(command.arguments[0].c_str(), pointers(command.arguments).data());
  int why = errno;
  if (write(failure.write, &why, sizeof why) < 0) _exit(126);
  _exit(127);
}

/// Hands out whole lines of what arrives.
class Lines {
 public:
  explicit Lines(const std::function<void(std::string_view)>& on_line) : on_line_(on_line) {}
  ~Lines() {
    if (!rest_.empty()) on_line_(rest_);
  }
  /// False at the end of the stream.
  bool read_some(int from) {
    char buffer[4096];
    ssize_t got = read(from, buffer, sizeof buffer);
    if (got <= 0) return got < 0 && errno == EINTR;
    rest_.append(buffer, static_cast<std::size_t>(got));
    for (auto end = rest_.find('\n'); end != rest_.npos; end = rest_.find('\n')) {
      on_line_(std::string_view(rest_).substr(0, end));
      rest_.erase(0, end + 1);
    }
    return true;
  }

 private:
  const std::function<void(std::string_view)>& on_line_;
  std::string rest_;
};

/// Reads until the child has ended or the time is over; afterwards the rest of the pipe. True if it has ended.
bool follow(pid_t child, int& status, Pipe* output, Lines* lines, double timeout_seconds, int processes = 1,
            const std::function<void()>& on_silence = {}) {
  WorkClock passed(processes);
  bool open = output != nullptr;
  const int looks = open || timeout_seconds > 0 ? WNOHANG : 0;  // else nothing but the end: no look takes a core's time
  while (true) {
    if (waitpid(child, &status, looks) == child) break;
    if (timeout_seconds > 0 && passed.seconds() > timeout_seconds) return false;
    pollfd ready{open ? output->read : -1, POLLIN, 0};
    if (poll(&ready, 1, open ? 20 : 2) > 0)
      open = lines->read_some(output->read);
    else if (on_silence)
      on_silence();
  }
  pollfd ready{output ? output->read : -1, POLLIN, 0};
  while (open && poll(&ready, 1, 0) > 0 && lines->read_some(output->read)) {
  }
  return true;
}

Error not_started(const std::string& program, int why) {
  const bool named = program.find('/') == program.npos;
  return {Verdict::usage, fmt::format("cannot start {}: {}", program,
                                      named && why == ENOENT ? "it is not installed" : std::strerror(why))};
}

/// Processes of this computer that run or want to: on average over the last minute, or now, where that is more.
double runnable_processes() {
  std::ifstream file("/proc/loadavg");  // "0.20 0.18 0.12 1/80 11206"
  double average = 0, ignored = 0, now = 0;
  file >> average >> ignored >> ignored >> now;
  return std::max(average, now - 1);  // without the one that reads this
}

}  // namespace

std::uint64_t memory_of_tests() { return std::string_view{LOCKSTEP_SANITIZE}.empty() ? std::uint64_t{4} << 30 : 0; }

double slowdown(double runnable, int cores, int processes) {
  return std::clamp(runnable / std::max({cores, processes, 1}), 1.0, 10.0);
}

WorkClock::WorkClock(int processes) : processes_(processes), cores_(read_host().usable_cores) {}

double WorkClock::seconds() {
  constexpr double kBetweenLooks = 0.1;
  const double since = seconds_since(last_);
  if (since >= kBetweenLooks) {
    passed_ += since / slowdown(runnable_processes(), cores_, processes_);
    last_ = Clock::now();
  }
  return passed_;
}

bool Ended::interrupted() const { return exit_code == 128 + SIGINT; }

Ended run_command(const Command& command) {
  OutliveInterrupt outlive;
  Pipe failure;
  std::unique_ptr<Pipe> output = command.on_line ? std::make_unique<Pipe>() : nullptr;
  auto begin = Clock::now();
  pid_t child = fork();
  if (child < 0) throw not_started(command.arguments[0], errno);
  if (child == 0) start_child(command, output.get(), failure);
  close(std::exchange(failure.write, -1));
  if (output) close(std::exchange(output->write, -1));

  Lines lines(command.on_line);
  Ended ended;
  int status = 0;
  if (!follow(child, status, output.get(), &lines, command.timeout_seconds, command.processes, command.on_silence)) {
    ended.timed_out = true;
    kill(child, SIGTERM);
    if (!follow(child, status, output.get(), &lines, 2)) {
      kill(child, SIGKILL);
      follow(child, status, output.get(), &lines, 0);
    }
  }
  ended.seconds = seconds_since(begin);
  int why = 0;
  if (read(failure.read, &why, sizeof why) == sizeof why) throw not_started(command.arguments[0], why);
  if (WIFSIGNALED(status)) ended.signal = WTERMSIG(status);
  ended.exit_code = ended.signal ? 128 + ended.signal : WEXITSTATUS(status);
  return ended;
}

Ended run_uninterrupted(const Command& command, std::string_view what) {
  Ended ended = run_command(command);
  if (ended.interrupted()) throw Interrupted(fmt::format("interrupted: {} did not finish.", what));
  return ended;
}

std::string printed_by(Command command, std::string_view what, std::string_view failed) {
  std::string said;
  command.on_line = [&](std::string_view line) { said.append(line).append("\n"); };
  if (!run_uninterrupted(command, what).ok()) throw Error(Verdict::usage, fmt::format("{}:\n{}", failed, said));
  return said;
}

void become(const std::vector<std::string>& arguments) {
  execvp(arguments[0].c_str(), pointers(arguments).data());
  throw not_started(arguments[0], errno);
}

std::string find_program(std::string_view program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string candidate = folder + "/" + std::string(program);
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

}  // namespace lockstep::tools
