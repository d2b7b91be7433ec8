// A child process of a benchmark.
#pragma once

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace lockstep::bench {

/// The process has ended when the object is destroyed.
class ChildProcess {
 public:
  /// Starts words[0], searched for as a shell does. `connect` redirects its standard streams. Throws if it cannot
  /// start.
  ChildProcess(std::vector<std::string> words, const std::function<void(posix_spawn_file_actions_t*)>& connect) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    connect(&actions);
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    const int failed = posix_spawnp(&process_, pointers[0], &actions, nullptr, pointers.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) throw std::runtime_error(words[0] + " cannot be started");
  }
  ~ChildProcess() {
    if (ended_) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Waits, asleep, for its end. Returns true if its exit code is 0.
  bool succeeds() {
    int status = 0;
    waitpid(process_, &status, 0);
    ended_ = true;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }

 private:
  pid_t process_ = -1;
  bool ended_ = false;
};

}  // namespace lockstep::bench
