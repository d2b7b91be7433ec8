// One rank that plays a program alone, to learn what it costs: no memory, no messages, no other ranks. Its peers are
// taken to do the same at the same time, so that in a group where that is so (a ring, a tensor-parallel layer) the
// clock shows what the simulator would say, thousands of times faster. Memory is counted as every backend counts it, in
// any group. On a machine with its vendor's libraries (Machine::as_library), what a region sends takes the library's
// time. Predictions start from here.
//
//   DryRun dry_run(machine, {.ranks = 8, .alpha = 3.4e-6, .beta = 1 / 235e9});
//   Rank me = dry_run.rank();
//   …                                        what has to be there
//   const double before = dry_run.seconds();
//   block_forward(me, …);
//   const double forward = dry_run.seconds() - before;
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "common/rank.hpp"
#include "common/runtime/machine/machine.hpp"

namespace lockstep {

/// A group that the rank plays in: its size, the price of a message between any two, and this rank's number in it.
struct DryRunGroup {
  int ranks = 1;
  double alpha = 0;  ///< seconds
  double beta = 0;   ///< seconds per byte
  int rank = 0;
};

class DryRun {
 public:
  explicit DryRun(const Machine& machine, DryRunGroup group = {});
  ~DryRun();
  DryRun(const DryRun&) = delete;
  DryRun& operator=(const DryRun&) = delete;

  /// In the group, on main. There are streams, but no sub-groups: to `split` off into one is a USAGE error.
  Rank rank();
  /// In another group of this rank, whose splits give `part`, since nobody else says who is in it; without, as above.
  Rank rank(DryRunGroup group, std::optional<DryRunGroup> part = {});

  double seconds() const;          ///< of main's clock
  double arithmetic() const;       ///< of that, what main's own operations take; the rest is waiting
  std::size_t live_bytes() const;  ///< of slices, now
  std::size_t peak_bytes() const;  ///< since the last call of forget_peak
  void forget_peak();

 private:
  class Stage;
  std::unique_ptr<Stage> stage_;
};

}  // namespace lockstep
