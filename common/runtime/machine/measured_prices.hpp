// What one α, one β and one γ leave out, measured: prices as tables over sizes. A table is the same law in pieces,
// since between two of its points time is a line: an α and a β of their own. Machine files of computers that nobody
// measured have none, and their prices are one line throughout.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace lockstep {

/// Of one size: where what is touched lies in the caches, and where it does not.
struct SizePrice {
  double bytes = 0;
  double seconds = 0;
  double cold_seconds = 0;
};

/// fixed + bytes · per_byte: α and β of a message, launch and γ of an addition, around one size.
struct PriceLine {
  double fixed = 0;
  double per_byte = 0;
  double at(double bytes) const { return fixed + bytes * per_byte; }
};

/// The piece of the table, by rising bytes and not empty, that holds `bytes`: the line through its two neighbours;
/// below the first point its time, beyond the last one its rate. `cold_share`, from 0 to 1, of what is touched is in no
/// cache.
PriceLine line_at(const std::vector<SizePrice>& table, double bytes, double cold_share);

/// Of a product of an m × k and a k × n matrix.
struct ProductPrice {
  double m = 0;
  double nk = 0;  // n · k
  double seconds = 0;
};

/// Of additions that take turns through so many bytes, each one's seconds.
struct FootprintPrice {
  double bytes = 0;
  double seconds = 0;
};

struct MeasuredPrices {
  std::vector<SizePrice> exchanges;    // a message each way between two ranks at once
  std::vector<SizePrice> one_way;      // a message, nothing coming back meanwhile
  std::vector<SizePrice> additions;    // y += x; of x `bytes`
  std::vector<ProductPrice> products;  // fp32, a full grid: for each m, rising, the same nk, rising
  std::map<std::string, double, std::less<>>
      operations;  // FLOP per second by name, of what is neither bound by memory nor one product
  std::vector<FootprintPrice> footprints;  // by rising bytes; none: cache_bytes decides
  double cache_bytes = 0;                  // a rank's share of the last cache: what touches more finds the caches cold

  /// Seconds of a product in fp32, linear in m and in n·k between the points; beyond them at the last one's rate.
  double product_seconds(double m, double nk) const;

  /// Seconds of what reads and writes `bytes` (an addition's y twice, once its x) and does little with them, while the
  /// program goes again and again through `live_bytes`: an addition's time of as many bytes, or, where that is more, at
  /// the rate of an addition that is itself so long a walk. In a training step an operation finds its arguments where
  /// the whole step left them, and not in its core's own cache.
  double walk_seconds(double bytes, double live_bytes) const;

  /// From 0 to 1, how cold a rank finds the caches that goes again and again through so many bytes: how far an addition
  /// in such a footprint is from the smallest one's time to the largest one's. A core's own caches, the last one, of
  /// which a virtual machine has an unknown share, and memory are steps of one curve.
  double cold_share(double footprint_bytes) const;
};

}  // namespace lockstep
