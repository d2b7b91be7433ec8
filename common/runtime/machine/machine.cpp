// Cost of arithmetic and messages on a machine. It uses only + − × ÷, with contraction to fused multiply-adds off, so
// every cost is bit-identical on every computer.
#include "common/runtime/machine/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "common/error.hpp"
#include "common/support/text/nearest.hpp"

namespace lockstep {

double Machine::matmul_efficiency(double flop) const {
  if (efficiency.empty()) return 1;
  if (flop <= efficiency.front().flop) return efficiency.front().fraction;
  if (flop >= efficiency.back().flop) return efficiency.back().fraction;
  auto above = std::upper_bound(efficiency.begin(), efficiency.end(), flop,
                                [](double value, const EfficiencyPoint& point) { return value < point.flop; });
  auto below = above - 1;
  double time_below = below->flop / below->fraction;  // in units of one FLOP at the peak
  double time_above = above->flop / above->fraction;
  double share = (flop - below->flop) / (above->flop - below->flop);
  return flop / (time_below + share * (time_above - time_below));
}

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// FLOP per second measured for this operation's name; 0: none. Of attention from 64 to 256 positions, seconds per FLOP
/// are linear in 1 / positions: each token takes some time, and so does each score. Outside, the nearer rate holds.
double measured_rate(const MeasuredPrices& measured, const Operation& operation) {
  const auto known = measured.operations.find(std::string_view(operation.name));
  if (known == measured.operations.end()) return 0;
  const auto longer = measured.operations.find(known->first + "_256");
  if (longer == measured.operations.end()) return known->second;
  const double share = (4 - 256 / std::clamp(static_cast<double>(operation.mnk[0]), 64.0, 256.0)) / 3;
  return 1 / ((1 - share) / known->second + share / longer->second);
}

/// Seconds measured for this operation's name, or for a product of its shape; otherwise the time for its bytes, or its
/// FLOP at `rate`.
double seconds_by_tables(const Machine& machine, const Operation& operation, double rate) {
  const MeasuredPrices& measured = machine.measured;
  if (const double own = measured_rate(measured, operation); own > 0) return operation.flop / own + machine.launch;
  const auto m = static_cast<double>(operation.mnk[0]), n = static_cast<double>(operation.mnk[1]),
             k = static_cast<double>(operation.mnk[2]);
  if (operation.matmul && !measured.products.empty() && operation.flop == 2 * m * n * k)  // exactly one product
    return measured.product_seconds(m, n * k) * machine.peak(DType::f32) / machine.peak(operation.dtype);
  return std::max(operation.flop / rate + machine.launch, measured.walk_seconds(operation.bytes, 0));
}

}  // namespace

double Machine::seconds(const Operation& operation, double live_bytes) const {
  if (by_library) return library_seconds(*library, *this, operation);
  const double rate = peak(operation.dtype) * (operation.matmul ? matmul_efficiency(operation.flop) : 1);
  if (!measured.additions.empty())
    return seconds_by_tables(*this, operation, rate) +
           (measured.walk_seconds(operation.bytes, live_bytes) - measured.walk_seconds(operation.bytes, 0));
  return std::max(operation.flop / rate, operation.bytes / memory_bytes_per_second) + launch;
}

double Machine::overhead(const Operation& operation) const {
  if (by_library || !operation.matmul || efficiency.empty()) return launch;
  const double smallest = efficiency.front().flop / (peak(operation.dtype) * efficiency.front().fraction);
  return std::min(seconds(operation), smallest + launch);
}

double Machine::message_seconds(int level, double bytes) const {
  if (!measured.exchanges.empty() && level == 0) return line_at(measured.exchanges, bytes, 0).at(bytes);
  return alpha(level) + bytes * beta(level);
}

int Machine::level_between(int a, int b) const {
  for (std::size_t level = 0; level < levels.size(); ++level) {
    int ranks = levels[level].ranks;
    if (ranks == 0 || a / ranks == b / ranks) return static_cast<int>(level);
  }
  throw Error(Verdict::usage, fmt::format("machine {} holds {} ranks; no link joins ranks {} and {}", name, capacity(),
                                          std::min(a, b), std::max(a, b)));
}

Machine::LevelPorts Machine::ports(int level, int from, int to) const {
  const int width = ranks_per_port(level);
  const bool bus = level == 0 && levels[level].shared;
  return width == 0 ? LevelPorts{0, 0, bus} : LevelPorts{from / width, to / width, bus};
}

int Machine::ranks_per_port(int level) const {
  if (!levels[level].shared) return 1;
  return levels[level == 0 ? 0 : level - 1].ranks;
}

double Machine::alpha(int level) const {
  double sum = 0;
  for (int l = 0; l <= level; ++l) sum += levels[l].latency;
  return sum;
}

double Machine::beta(int level) const {
  double smallest = kInfinity;
  for (int l = 0; l <= level; ++l) smallest = std::min(smallest, levels[l].bytes_per_second);
  return 1 / smallest;
}

Machine Machine::as_library(AttentionKernel kernel, const std::string& flash) const {
  if (!library)
    throw Error(
        Verdict::usage,
        fmt::format("machine {} has no library cost model: add a field \"library\" to its file (docs/use/machines.md)",
                    name));
  Machine machine = *this;
  machine.by_library = true;
  machine.library->kernel = kernel;
  std::vector<std::string> names;
  for (const FlashKernel& each : library->flash) names.push_back(each.name);
  const auto found = flash.empty() ? names.begin() : std::find(names.begin(), names.end(), flash);
  if (found == names.end()) throw Error(Verdict::usage, unknown_name("attention kernel", flash, names));
  machine.library->which = static_cast<std::size_t>(found - names.begin());
  machine.memory_bytes_per_second = library->memory_bytes_per_second;
  for (std::size_t level = 1; level < levels.size(); ++level)
    if (!levels[level].shared) {
      machine.levels[level].shared = true;
      machine.levels[level].bytes_per_second *= levels[level - 1].ranks;
    }
  return machine;
}

Machine Machine::uniform(double alpha, double beta, double gamma) {
  Machine machine;
  machine.description = "all pairs of ranks have identical links";
  machine.levels = {{.name = "link", .ranks = 0, .latency = alpha, .bytes_per_second = 1 / beta}};
  machine.peak_flop_per_second.fill(kInfinity);
  machine.memory_bytes = kInfinity;
  machine.memory_bytes_per_second = 3 / gamma;
  return machine;
}

}  // namespace lockstep
