#include "bench/support/price.hpp"

#include "common/runtime/dry_run/dry_run.hpp"

namespace lockstep::bench {

double priced_seconds(const Machine& machine, const std::function<std::function<void()>(Rank)>& prepare) {
  DryRun dry_run(machine);
  const std::function<void()> work = prepare(dry_run.rank());
  const double before = dry_run.seconds();
  work();
  return dry_run.seconds() - before;
}

}  // namespace lockstep::bench
