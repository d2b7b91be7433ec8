#include "common/backends/mpi/backoff.hpp"

#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>

#include "common/runtime/processes/clock.hpp"

namespace lockstep::mpi {

using processes::monotonic_ns;

namespace {
constexpr int kSpins = 200;                       // about 10 µs of polling MPI
constexpr std::uint64_t kLongYield = 10'000'000;  // ns
constexpr std::uint64_t kShortYield = 10'000;     // ns; while arithmetic needs the core
constexpr long kLongestSleep = 200'000;           // ns
constexpr std::uint64_t kSpinBeforeDeadline = 5'000;
constexpr std::uint64_t kBillion = 1'000'000'000;
}  // namespace

void sleep_until_ns(std::uint64_t when) {
  const std::uint64_t wake = when - std::min(when, kSpinBeforeDeadline);
  if (wake > monotonic_ns()) {
    const timespec until{static_cast<time_t>(wake / kBillion), static_cast<long>(wake % kBillion)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) != 0) {
    }
  }
  while (monotonic_ns() < when) {
  }
}

void ask_for_exact_sleeps() { prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL); }

bool Backoff::rest(SpinPolicy spin_policy) {
  if (spin_policy == SpinPolicy::spin && ++looks_ <= kSpins) return false;
  const std::uint64_t now = monotonic_ns();
  if (first_ns_ == 0) first_ns_ = now;
  if (now - first_ns_ < (spin_policy == SpinPolicy::sleep ? kShortYield : kLongYield)) {
    sched_yield();
    return false;
  }
  const timespec nap{0, sleep_ns_};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, nullptr);
  sleep_ns_ = std::min(sleep_ns_ * 5 / 4, kLongestSleep);
  return true;
}

}  // namespace lockstep::mpi
