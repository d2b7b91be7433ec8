// Plays one rank of a program alone to find its cost: no memory, no messages, no other ranks. Its peers are assumed to
// do the same at the same time. In groups where that holds (a ring, a tensor-parallel layer), the clock shows what the
// simulator would show, thousands of times faster. Memory is counted as on every backend, in any group. On a machine
// with its vendor's libraries (Machine::as_library), the messages of a region take the library's time. Predictions are
// based on this.
//
//   DryRun dry_run(machine, {.ranks = 8, .alpha = 3.4e-6, .beta = 1 / 235e9});
//   Rank me = dry_run.rank();
//   …                                        allocate what must be there
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

/// A group that the rank plays in: its size, the cost of a message between any two members, and this rank's index.
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

  /// This rank in the group, on main. Streams are supported, sub-groups are not: `split` throws a USAGE error.
  Rank rank();
  /// This rank in another group. Splits return `part`, since no other rank says who joins; without it, as above.
  Rank rank(DryRunGroup group, std::optional<DryRunGroup> part = {});

  double seconds() const;          ///< on main's clock
  double arithmetic() const;       ///< seconds of main's own operations; the rest is waiting
  std::size_t live_bytes() const;  ///< in slices, now
  std::size_t peak_bytes() const;  ///< maximum since the last call of forget_peak
  void forget_peak();

 private:
  class World;
  std::unique_ptr<World> world_;
};

}  // namespace lockstep
