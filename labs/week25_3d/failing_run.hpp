// Given for exercise 25.5: when a run fails, and the simulation of a whole run, which calls the answer's advance and
// fail.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "common/error.hpp"
#include "common/support/stats/mix.hpp"
#include "labs/week25_3d/save_interval.hpp"

namespace lockstep::week25 {

/// Seconds from one failure to the next, exponential with the mean `mtbf`. A counter-based generator: failure n is the
/// same for one seed, in whichever order they are asked for.
class Failures {
 public:
  Failures(std::uint64_t seed, double mtbf) : key_(mix(seed)), mtbf_(mtbf) {}
  double operator()(std::uint64_t n) const {
    const double uniform = static_cast<double>(mix(key_ ^ mix(n)) >> 11) * 0x1p-53;  // in [0, 1)
    return -mtbf_ * std::log1p(-uniform);
  }

 private:
  std::uint64_t key_;
  double mtbf_;
};

/// A run of `seconds` that saves after every `interval` seconds of work; failure n comes gap(n) seconds after the one
/// before. Unsaved work at the end counts as work. Throws Error(fail) where `advance` lets no time pass.
template <class Gap>
TimeSpent simulate(const SavingCosts& costs, double interval, double seconds, const Gap& gap) {
  RunState run{.left = interval};
  for (std::uint64_t n = 0;; ++n) {
    const double next = gap(n);
    const bool last = next >= seconds;
    int still = 0;  // calls in a row in which no time passed
    for (double available = last ? seconds : next; available > 0;) {
      const double passed = advance(run, costs, interval, available);
      if (!(passed >= 0 && passed <= available) || (passed == 0 && ++still > 2))
        throw Error(Verdict::fail, "advance() returned " + std::to_string(passed) + " of " + std::to_string(available) +
                                       " s: what passed is at least 0, at most what is " +
                                       "available, and not 0 again and again");
      if (passed > 0) still = 0;
      available -= passed;
    }
    if (last) break;
    seconds -= next;
    fail(run, costs);
  }
  run.spent.work += run.unsaved;
  return run.spent;
}

}  // namespace lockstep::week25
