#include "bench/support/price.hpp"

#include "common/runtime/dry_run/dry_run.hpp"

namespace lockstep::bench {

double priced_seconds(const Machine& machine, const std::function<std::function<void()>(Rank)>& prepare) {
  Rehearsal rehearsal(machine);
  const std::function<void()> work = prepare(rehearsal.rank());
  const double before = rehearsal.seconds();
  work();
  return rehearsal.seconds() - before;
}

}  // namespace lockstep::bench
