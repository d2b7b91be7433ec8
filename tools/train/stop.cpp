#include "tools/train/stop.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>

namespace lockstep::train {

namespace {

constexpr std::array kSignals = {SIGTERM, SIGINT, SIGUSR1};

/// A handler reaches nothing but globals. It runs in whichever thread the system chooses, and every rank's reads this.
std::atomic<int> first_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free, "a handler may not wait");

extern "C" void note_signal(int number) {
  if (first_signal != 0 && number == SIGUSR1) return;
  if (first_signal != 0) {
    std::signal(number, SIG_DFL);
    std::raise(number);  // is delivered when this function returns
  }
  first_signal = number;
}

}  // namespace

StopSignals::StopSignals(bool listen) : listens_(listen) {
  if (!listens_) {
    std::signal(SIGUSR1, SIG_DFL);  // else a launcher that interrupts would wait for a run that does not end
    return;
  }
  first_signal = 0;
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = SA_RESTART;
  for (const int number : kSignals) sigaction(number, &action, nullptr);
}

StopSignals::~StopSignals() { leave(); }

int StopSignals::received() const { return listens_ ? first_signal.load() : 0; }

void StopSignals::leave() {
  if (!listens_ || first_signal != 0) return;
  for (const int number : kSignals) std::signal(number, SIG_DFL);
  listens_ = false;
}

bool StopSignals::end_after(int done) {
  if (last_ < 0 && received() != 0) last_ = std::max(done, furthest_ + 1);
  if (last_ >= 0 && done >= last_) return true;
  furthest_ = std::max(furthest_, done);
  return false;
}

}  // namespace lockstep::train
