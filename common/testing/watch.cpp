#include "common/testing/watch.hpp"

#include <execinfo.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <ctime>

#include "common/runtime/last_call.hpp"

namespace lockstep::testing {
namespace {

constexpr int kEverySeconds = 3, kMostFrames = 64;
std::time_t begin;
std::array<char, 300> the_case{'\t'};  // "CASE\tOPTIONS", for handlers; its last character stays 0

void say(const char* text, int length) {
  if (length > 0 && write(STDERR_FILENO, text, static_cast<std::size_t>(length)) < 0) return;  // nobody reads it
}

void still(int) {
  const LastCall* call = running_call;
  std::array<char, 900> line{};
  const Location where = call ? call->where : Location{};
  const int length =
      std::snprintf(line.data(), line.size(), "%s%ld\t%d\t%s:%u\t%s\t%s\n", kStill.data(),
                    static_cast<long>(std::time(nullptr) - begin), call ? call->rank : -1, where.file_name(),
                    static_cast<unsigned>(where.line()), where.function_name(), the_case.data());
  say(line.data(), length < static_cast<int>(line.size()) ? length : 0);
}

using Frames = std::array<void*, kMostFrames>;

/// True if the outer half of so many frames are the same few calls again and again.
bool never_ends(const Frames& frames, int count) {
  constexpr int kCycle = 8;  // of functions that call each other, at most
  const auto* const outer = frames.begin() + kMostFrames / 2;
  for (int cycle = 1; count == kMostFrames && cycle <= kCycle; ++cycle)
    if (std::equal(outer, frames.end(), outer - cycle)) return true;
  return false;
}

const char* cause(int signal, int code, const Frames& frames, int count) {
  if (signal == SIGFPE && code == FPE_INTDIV)
    return "An integer was divided by 0, with / or %, or cut into 0 parts, as by chunk(x, 0, 0).";
  if (signal == SIGILL || signal == SIGTRAP)
    return "The compiler stopped it there, because what follows has no meaning: an index outside of an array, for "
           "example, or a division by a constant 0.";
  if (signal == SIGSEGV && never_ends(frames, count)) return "Endless recursion: a function calls itself without end.";
  return "";
}

/// A backtrace can be had in a handler once its library is loaded.
void died(int signal, siginfo_t* info, void*) {
  Frames frames{};
  const int count = backtrace(frames.data(), kMostFrames);
  std::array<char, 500> line{};
  say(line.data(), std::snprintf(line.data(), line.size(), "%s%s\t%s\n", kDied.data(),
                                 cause(signal, info->si_code, frames, count), the_case.data()));
  backtrace_symbols_fd(frames.data(), count, STDERR_FILENO);
  raise(signal);  // with its default action
}

}  // namespace

void say_what_runs() {
  std::array<void*, 1> loaded{};
  backtrace(loaded.data(), 1);
  static std::array<char, 1 << 16> stack;  // where a rank's own has overflowed
  stack_t other{};
  other.ss_sp = stack.data(), other.ss_size = stack.size();
  sigaltstack(&other, nullptr);
  using Action = struct sigaction;
  Action dies{}, continues{};
  dies.sa_sigaction = died, dies.sa_flags = SA_SIGINFO | SA_ONSTACK | static_cast<int>(SA_RESETHAND) | SA_NODEFER;
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigaction(signal, &dies, nullptr);
  begin = std::time(nullptr);
  continues.sa_handler = still, continues.sa_flags = SA_ONSTACK | SA_RESTART;
  sigaction(SIGALRM, &continues, nullptr);
  const itimerval every{.it_interval = {.tv_sec = kEverySeconds, .tv_usec = 0},
                        .it_value = {.tv_sec = kEverySeconds, .tv_usec = 0}};
  setitimer(ITIMER_REAL, &every, nullptr);
}

CaseThatRuns::CaseThatRuns(std::string_view words, std::string_view options) {
  const auto length = [](std::string_view text) { return static_cast<int>(text.size()); };
  std::snprintf(the_case.data(), the_case.size(), "%.*s\t%.*s", length(words), words.data(), length(options),
                options.data());
}

CaseThatRuns::~CaseThatRuns() { the_case = {'\t'}; }

}  // namespace lockstep::testing
