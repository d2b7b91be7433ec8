// The choice of an all-reduce by size. Every prediction of the α-β-γ model is a straight line in the bytes: the latency
// at 0, and the price per byte as its slope. So the fastest algorithm for each size has the lowest line, and the
// thresholds follow from the machine's prices; no threshold is a constant.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "common/runtime/machine/machine.hpp"
#include "common/support/text/units.hpp"

namespace lockstep::bench {

/// A candidate for `auto`: its name and its predicted seconds, linear in the bytes.
struct Priced {
  std::string name;
  std::function<double(double bytes)> seconds;
};

/// `name` is the fastest from this many bytes up to the next stretch.
struct Stretch {
  std::string name;
  double from_bytes = 0;
};

/// The lowest line for each size, from 0 bytes upwards. Of lines with the same start the flatter one wins, of equal
/// ones the first.
inline std::vector<Stretch> fastest_by_size(const std::vector<Priced>& all) {
  constexpr double kFar = 1 << 30;
  const auto slope = [](const Priced& p) { return (p.seconds(kFar) - p.seconds(0)) / kFar; };
  const Priced* lowest = nullptr;
  for (const Priced& p : all)
    if (!lowest || p.seconds(0) < lowest->seconds(0) ||
        (p.seconds(0) == lowest->seconds(0) && slope(p) < slope(*lowest)))
      lowest = &p;
  std::vector<Stretch> stretches;
  for (double from = 0; lowest;) {
    stretches.push_back({lowest->name, from});
    const Priced* next = nullptr;
    double crossing = std::numeric_limits<double>::infinity();
    for (const Priced& p : all) {
      const double gain = slope(*lowest) - slope(p);
      if (!(gain > 1e-9 * slope(*lowest))) continue;  // equally steep, except for rounding
      const double at = (p.seconds(0) - lowest->seconds(0)) / gain;
      const bool together = next && at <= crossing * (1 + 1e-9);  // several cross at one size: the flattest wins
      if (at < crossing * (1 - 1e-9) || (together && slope(p) < slope(*next))) crossing = at, next = &p;
    }
    lowest = next;
    from = crossing;
  }
  return stretches;
}

/// Returns the stretch that contains `bytes`.
inline const Stretch& stretch_of(const std::vector<Stretch>& stretches, double bytes) {
  std::size_t i = 0;
  while (i + 1 < stretches.size() && stretches[i + 1].from_bytes <= bytes) ++i;
  return stretches[i];
}

/// Returns "recursive_doubling up to 86.2 KiB, rabenseifner up to 3.1 MiB, then hierarchical".
inline std::string words_of(const std::vector<Stretch>& stretches) {
  std::string text;
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    const bool last = i + 1 == stretches.size();
    if (i > 0) text += last ? ", then " : ", ";
    text += stretches[i].name;
    if (!last) text += " up to " + format_bytes(stretches[i + 1].from_bytes);
  }
  return text;
}

/// One measurement.
struct Timed {
  std::string name;
  double bytes = 0, seconds = 0;
};

/// Returns the fastest algorithm of each size, as measured: "recursive_doubling up to 64 KiB, rabenseifner from 128
/// KiB, …". Empty if there is only one name or one size.
inline std::string words_of_measured(const std::vector<Timed>& all) {
  std::map<double, const Timed*> fastest;  // by size
  for (const Timed& timed : all) {
    const Timed*& best = fastest[timed.bytes];
    if (!best || timed.seconds < best->seconds) best = &timed;
  }
  if (fastest.size() < 2 || fastest.size() == all.size()) return "";
  std::string text, name;
  double last = 0;
  for (const auto& [bytes, timed] : fastest) {
    if (timed->name != name) {
      if (!name.empty()) text += fmt::format(" up to {}, ", format_bytes(last));
      name = timed->name;
      text += name + (text.empty() ? "" : " from " + format_bytes(bytes));
    }
    last = bytes;
  }
  return text;
}

/// Returns g for a hierarchical all-reduce of `ranks`: the ranks within the slowest links, or the largest number of
/// neighbours among them that divides `ranks` (1: a flat ring across, `ranks`: one ring inside).
inline int ranks_per_node(const Machine& machine, int ranks) {
  const int level = ranks == 1 ? 0 : machine.level_between(0, ranks - 1);
  return level == 0 ? ranks : std::gcd(ranks, machine.levels[static_cast<std::size_t>(level) - 1].ranks);
}

}  // namespace lockstep::bench
