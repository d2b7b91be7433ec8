// Prices of messages and additions, measured on this computer: the basis of predictions on MPI.
#pragma once

#include <utility>
#include <vector>

#include "common/runtime/machine/measured_prices.hpp"
#include "common/runtime/run.hpp"

namespace lockstep::bench {

/// α (seconds), β (seconds per byte), γ (seconds per byte reduced), and the launch overhead of any operation (seconds).
struct LinkPrices {
  double alpha = 0;
  double beta = 0;
  double gamma = 0;
  double launch = 0;
  MeasuredPrices tables = {};  // the machine file's, if it has any

  /// Returns the four prices near messages and additions of this size: with tables, the line through the neighbouring
  /// points. The arguments `cold_messages` and `cold_additions` are the fractions of sent data, and of accumulators,
  /// that are in no cache.
  LinkPrices at(double bytes, double cold_messages = 0, double cold_additions = 0) const;
  /// The same for messages in one direction at a time.
  LinkPrices one_way_at(double bytes) const;
};

/// Measures prices. Two ranks exchange messages of 4 B to 1 MiB in both directions at once, as in a ring, and add
/// arrays of these sizes; lines through the medians with minimal relative errors give overheads and rates. With one
/// rank, messages cost nothing.
LinkPrices measure_links(RunOptions options);

/// Tables of the links for each observed state, the calibrated one first. A host that moves a virtual machine's
/// processors changes message times threefold, for seconds or minutes.
class LinkStates {
 public:
  explicit LinkStates(MeasuredPrices calibrated) { states_.push_back(std::move(calibrated)); }
  /// Times a message of Probes::kBytes between the first and the last rank, and returns the tables in which it takes
  /// the same time within a twentieth. If there are none, measures messages of all sizes for new tables, a few times at
  /// most; after that returns the nearest. Every rank returns the same.
  const MeasuredPrices& now(const RunOptions& options);
  int states() const { return static_cast<int>(states_.size()); }

 private:
  std::vector<MeasuredPrices> states_;
};

}  // namespace lockstep::bench
