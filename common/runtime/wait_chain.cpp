#include "common/runtime/wait_chain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace lockstep {

std::vector<int> find_chain(std::span<const Waiting> all) {
  std::vector<int> visited(all.size(), -1);  // number of the walk that visited it
  for (int start = 0; start < static_cast<int>(all.size()); ++start) {
    if (!all[start].starts) continue;
    std::vector<int> path;
    int at = start;
    while (at >= 0 && visited[at] < 0) {
      visited[at] = start;
      path.push_back(at);
      at = all[at].needs;
    }
    if (at < 0 && all[path.back()].needs_rank >= 0) return {path.back()};  // it waits for a rank that has ended
    if (at < 0 || visited[at] != start) continue;
    std::vector<int> cycle(std::find(path.begin(), path.end(), at), path.end());
    const auto smallest =
        std::min_element(cycle.begin(), cycle.end(), [&](int a, int b) { return all[a].rank < all[b].rank; });
    std::rotate(cycle.begin(), smallest, cycle.end());
    return cycle;
  }
  return {};
}

std::string who_waits(std::span<const Waiting> all, std::span<const int> chain) {
  if (chain.empty()) return "";
  const Waiting& last = all[chain.back()];
  if (last.needs < 0)
    return fmt::format("rank {} waits for rank {}, whose program has ended.", last.rank, last.needs_rank);
  std::string ring;
  std::size_t links = 0;
  int previous = -1;
  std::set<int> members;
  for (const int at : chain) {
    const int rank = all[at].rank;
    if (rank == previous) continue;  // main waits for its own closure
    previous = rank;
    members.insert(rank);
    if (links++ < kMostLinks) ring += fmt::format("{} → ", rank);
  }
  if (links > kMostLinks) ring += fmt::format("… {} more … → ", links - kMostLinks);
  const bool one = members.size() == 1;
  return fmt::format("{} rank{} wait{} for each other in a cycle: {}{}.", members.size(), one ? "" : "s",
                     one ? "s" : "", ring, all[chain.front()].rank);
}

}  // namespace lockstep
