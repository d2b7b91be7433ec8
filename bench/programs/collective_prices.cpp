#include "bench/programs/collective_prices.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <tuple>

namespace lockstep::bench {
namespace {

constexpr double kLeastSegment = 4096;  // bytes; shorter messages cost the same

/// Messages from every rank to the rank `distance` further.
std::vector<Hop> shift(int ranks, int distance) {
  std::vector<Hop> round;
  for (int r = 0; r < ranks; ++r) round.push_back({r, (r + distance) % ranks});
  return round;
}

std::vector<Hop> all_pairs(int ranks) {
  std::vector<Hop> all;
  for (int distance = 1; distance < ranks; ++distance)
    for (const Hop& hop : shift(ranks, distance)) all.push_back(hop);
  return all;
}

std::vector<Hop> chain_links(int ranks) {
  std::vector<Hop> round;
  for (int r = 0; r + 1 < ranks; ++r) round.push_back({r, r + 1});
  return round;
}

/// Total time of the messages through the busiest port; `machine` has several levels.
double busiest_port(const Machine& machine, const std::vector<Hop>& round, double bytes) {
  std::map<std::tuple<int, int, bool>, double> seconds;  // by level, port, ingress
  double most = 0;
  for (const Hop& hop : round)
    for (int level = 0; level <= machine.level_between(hop.from, hop.to); ++level) {
      const Machine::LevelPorts ports = machine.ports(level, hop.from, hop.to);
      const double takes = hop.share * bytes / machine.levels[static_cast<std::size_t>(level)].bytes_per_second;
      most = std::max(most, seconds[{level, ports.egress, false}] += takes);
      if (!ports.bus) most = std::max(most, seconds[{level, ports.ingress, true}] += takes);
    }
  return most;
}

/// The largest sum of shares of a round that one rank sends, or that one rank receives.
double most_of_a_rank(const std::vector<Hop>& round) {
  std::map<int, double> sent, received;
  double most = 0;
  for (const Hop& hop : round) most = std::max({most, sent[hop.from] += hop.share, received[hop.to] += hop.share});
  return most;
}

/// Time of a message during which it does not occupy its ports.
double alpha_of(const CollectivePrices& prices, Hop hop, double bytes) {
  if (!prices.machine) return prices.links.one_way_at(bytes).alpha;
  return prices.machine->alpha(prices.machine->level_between(hop.from, hop.to));
}

double addition_seconds(const CollectivePrices& prices, double bytes) {
  const LinkPrices around = prices.links.at(bytes);
  return around.launch + bytes * around.gamma;
}

}  // namespace

double copy_seconds(const CollectivePrices& prices, double bytes) {
  const LinkPrices around = prices.links.at(bytes);
  return around.launch + bytes * around.gamma * 2 / 3;
}

double round_seconds(const CollectivePrices& prices, const std::vector<Hop>& round, double bytes, bool one_way) {
  if (round.empty()) return 0;
  if (!prices.machine) {
    const LinkPrices around = one_way ? prices.links.one_way_at(bytes) : prices.links.at(bytes);
    return around.alpha + most_of_a_rank(round) * bytes * around.beta;
  }
  double alpha = 0;
  for (const Hop& hop : round)
    alpha = std::max(alpha, prices.machine->alpha(prices.machine->level_between(hop.from, hop.to)));
  return alpha + busiest_port(*prices.machine, round, bytes);
}

double ring_reduce_scatter_seconds(const CollectivePrices& prices, int ranks, double bytes) {
  return ring_all_gather_seconds(prices, ranks, bytes) + (ranks - 1) * addition_seconds(prices, bytes / ranks);
}

double ring_all_gather_seconds(const CollectivePrices& prices, int ranks, double bytes) {
  return (ranks - 1) * round_seconds(prices, shift(ranks, 1), bytes / ranks);
}

double star_seconds(const CollectivePrices& prices, int ranks, double bytes) {
  double port = 0, last = 0;  // times at which the port becomes free and the last array arrives
  for (int peer = 1; peer < ranks; ++peer) {
    const Hop hop{0, peer};
    last = port + round_seconds(prices, {hop}, bytes, true);
    port = last - alpha_of(prices, hop, bytes);
  }
  return last;
}

double tree_seconds(const CollectivePrices& prices, int ranks, double bytes) {
  std::vector<double> has_it(static_cast<std::size_t>(ranks));  // time at which a rank has the array and a free port
  for (int distance = static_cast<int>(std::bit_ceil(static_cast<unsigned>(ranks))) / 2; distance > 0; distance /= 2)
    for (int r = 0; r + distance < ranks; r += 2 * distance) {
      const Hop hop{r, r + distance};
      const auto from = static_cast<std::size_t>(hop.from), to = static_cast<std::size_t>(hop.to);
      has_it[to] = has_it[from] + round_seconds(prices, {hop}, bytes, true);
      has_it[from] = has_it[to] - alpha_of(prices, hop, bytes);
    }
  return *std::max_element(has_it.begin(), has_it.end());
}

double chain_seconds(const CollectivePrices& prices, int ranks, double bytes, int segments) {
  const std::vector<Hop> links = chain_links(ranks);
  const double segment = bytes / segments;
  double seconds = (segments - 1) * round_seconds(prices, links, segment, ranks == 2);
  for (const Hop& link : links) seconds += round_seconds(prices, {link}, segment, true);
  return seconds;
}

int best_segments(const CollectivePrices& prices, int ranks, double bytes) {
  const double eager = prices.machine ? static_cast<double>(prices.machine->eager_bytes) + 4 : 0;
  double least = std::numeric_limits<double>::infinity();
  int best = 1;
  for (int segments = 1; segments == 1 || bytes / segments >= std::max(kLeastSegment, eager); segments *= 2) {
    const double seconds = chain_seconds(prices, ranks, bytes, segments);
    if (seconds < least) best = segments;
    least = std::min(least, seconds);
  }
  return best;
}

double direct_seconds(const CollectivePrices& prices, int ranks, double bytes) {
  return std::max(round_seconds(prices, all_pairs(ranks), bytes / ranks), copy_seconds(prices, bytes / ranks));
}

double all_to_all_floor_seconds(const Machine& machine, int ranks, double bytes) {
  return busiest_port(machine, all_pairs(ranks), bytes / ranks);
}

double pairwise_seconds(const CollectivePrices& prices, int ranks, double bytes) {
  double seconds = 0;
  for (int distance = 1; distance < ranks; ++distance) {
    const double round = round_seconds(prices, shift(ranks, distance), bytes / ranks);
    seconds += distance == 1 ? std::max(round, copy_seconds(prices, bytes / ranks)) : round;
  }
  return seconds;
}

}  // namespace lockstep::bench
