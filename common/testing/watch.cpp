#include "common/testing/watch.hpp"

#include <execinfo.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <ctime>

#include "common/runtime/last_call.hpp"

namespace lockstep::testing {
namespace {

constexpr int kEverySeconds = 3, kMostFrames = 64;
std::time_t begin;

void say(const char* text, int length) {
  if (length > 0 && write(STDERR_FILENO, text, static_cast<std::size_t>(length)) < 0) return;  // nobody reads it
}

void still(int) {
  const LastCall* call = running_call;
  std::array<char, 600> line{};
  const Location where = call ? call->where : Location{};
  const int length = std::snprintf(line.data(), line.size(), "%s%ld\t%d\t%s:%u\t%s\n", kStill.data(),
                                   static_cast<long>(std::time(nullptr) - begin), call ? call->rank : -1,
                                   where.file_name(), static_cast<unsigned>(where.line()), where.function_name());
  say(line.data(), length < static_cast<int>(line.size()) ? length : 0);
}

/// A backtrace can be had in a handler once its library is loaded.
void died(int signal) {
  std::array<void*, kMostFrames> frames{};
  const int count = backtrace(frames.data(), kMostFrames);
  std::array<char, 40> line{};
  say(line.data(), std::snprintf(line.data(), line.size(), "%s\n", kDied.data()));
  backtrace_symbols_fd(frames.data(), count, STDERR_FILENO);
  raise(signal);  // with its default action
}

void handle(int signal, void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler, action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

}  // namespace

void say_what_runs() {
  std::array<void*, 1> loaded{};
  backtrace(loaded.data(), 1);
  static std::array<char, 1 << 16> stack;  // where a rank's own has overflowed
  stack_t other{};
  other.ss_sp = stack.data(), other.ss_size = stack.size();
  sigaltstack(&other, nullptr);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
    handle(signal, died, SA_ONSTACK | static_cast<int>(SA_RESETHAND) | SA_NODEFER);
  begin = std::time(nullptr);
  handle(SIGALRM, still, SA_ONSTACK | SA_RESTART);
  const itimerval every{.it_interval = {.tv_sec = kEverySeconds, .tv_usec = 0},
                        .it_value = {.tv_sec = kEverySeconds, .tv_usec = 0}};
  setitimer(ITIMER_REAL, &every, nullptr);
}

}  // namespace lockstep::testing
