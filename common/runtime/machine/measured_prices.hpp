// Measured costs that one α, one β and one γ leave out, as tables over sizes. A table is the same model in pieces:
// between two of its points time is linear, with an α and a β of that piece. Machine files of computers that were not
// measured have none, and use one line throughout.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace lockstep {

/// Seconds for one size: with the data in the caches, and without.
struct SizePrice {
  double bytes = 0;
  double seconds = 0;
  double cold_seconds = 0;
};

/// fixed + bytes · per_byte, around one size: α and β of a message, or launch and γ of an addition.
struct PriceLine {
  double fixed = 0;
  double per_byte = 0;
  double at(double bytes) const { return fixed + bytes * per_byte; }
};

/// The line through the two points of the table (not empty, bytes rising) that enclose `bytes`. Below the first point
/// its time, beyond the last one its rate. `cold_share`, from 0 to 1, is the fraction of the data that is in no cache.
PriceLine line_at(const std::vector<SizePrice>& table, double bytes, double cold_share);

/// Measured seconds of a product of an m × k and a k × n matrix.
struct ProductPrice {
  double m = 0;
  double nk = 0;  // n · k
  double seconds = 0;
};

/// Measured seconds of each addition when additions cycle through this many bytes.
struct FootprintPrice {
  double bytes = 0;
  double seconds = 0;
};

struct MeasuredPrices {
  std::vector<SizePrice> exchanges;    // a message each way between two ranks at once
  std::vector<SizePrice> one_way;      // a message with no traffic in the other direction
  std::vector<SizePrice> additions;    // y += x, by bytes of x
  std::vector<ProductPrice> products;  // fp32, a full grid: the same nk for each m, both rising
  /// FLOP per second by name, of operations neither memory-bound nor one product; NAME_256: of 256 positions, not 64.
  std::map<std::string, double, std::less<>> operations;
  std::vector<FootprintPrice> footprints;  // bytes rising; empty: cache_bytes decides
  double cache_bytes = 0;  // a rank's share of the last-level cache: larger working sets find the caches cold

  /// Seconds of a product in fp32, linear in m and in n·k between the points; beyond them, at the rate of the last one.
  double product_seconds(double m, double nk) const;

  /// Seconds of an operation that reads and writes `bytes` (in an addition, y twice and x once) and computes little,
  /// while the program cycles through `live_bytes`: the time of an addition of as many bytes or, if that is longer, the
  /// rate of an addition whose own working set is this large. In a training step, an operation finds its arguments
  /// where the rest of the step left them, not in its core's own cache.
  double walk_seconds(double bytes, double live_bytes) const;

  /// Coldness of the caches, from 0 to 1, for a rank that cycles through this many bytes: the position of an addition
  /// with this footprint between the times of the smallest and the largest footprint. A core's own caches, the
  /// last-level cache (of which a virtual machine has an unknown share) and memory are steps of one curve.
  double cold_share(double footprint_bytes) const;
};

}  // namespace lockstep
