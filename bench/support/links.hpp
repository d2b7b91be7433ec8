// What messages and additions cost on this computer, measured: predictions on MPI start from these four numbers.
#pragma once

#include <utility>
#include <vector>

#include "common/runtime/machine/measured_prices.hpp"
#include "common/runtime/run.hpp"

namespace lockstep::bench {

/// α (seconds), β (seconds per byte), γ (seconds per byte reduced), seconds that any operation takes.
struct LinkPrices {
  double alpha = 0;
  double beta = 0;
  double gamma = 0;
  double launch = 0;
  MeasuredPrices tables = {};  // where the machine file has some

  /// The same four numbers around messages and additions of so many bytes, where there are tables: the line through the
  /// neighbouring points. Of what is sent, and of what is added to, the given share is in no cache.
  LinkPrices at(double bytes, double cold_messages = 0, double cold_additions = 0) const;
  /// Likewise for messages that nothing comes back beside.
  LinkPrices one_way_at(double bytes) const;
};

/// Two ranks exchange messages of 4 B to 1 MiB, both directions at once as in a ring, and add arrays of these sizes;
/// a line through the medians, relative errors minimised, gives price and slope. With one rank, messages cost nothing.
LinkPrices measure_links(RunOptions options);

/// Tables of the links in each state that they were found in, the calibrated one first: a host that moves a virtual
/// machine's processors changes what its messages take, threefold and for seconds or minutes.
class LinkStates {
 public:
  explicit LinkStates(MeasuredPrices calibrated) { states_.push_back(std::move(calibrated)); }
  /// Times a message of Probes::kBytes between the first and the last rank and returns the tables in which it takes as
  /// long, to a twentieth. Where there are none, messages of all sizes are measured for new ones, a few times;
  /// after that the nearest count. Every rank returns the same.
  const MeasuredPrices& now(const RunOptions& options);
  int states() const { return static_cast<int>(states_.size()); }

 private:
  std::vector<MeasuredPrices> states_;
};

}  // namespace lockstep::bench
