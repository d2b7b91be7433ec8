#include "common/runtime/fibers/groups.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace lockstep {

namespace {
std::string text_of(const Groups::Call& call) {
  return call.is_split ? "split" : fmt::format("stream(\"{}\")", call.name);
}
}  // namespace

Groups::Groups(int ranks) {
  std::vector<int> everyone(ranks);
  std::iota(everyone.begin(), everyone.end(), 0);
  make(everyone);
}

int Groups::make(const std::vector<int>& members) {
  auto [known, fresh] = known_.try_emplace(members, count());
  if (!fresh) return known->second;
  groups_.push_back(std::make_unique<Group>());
  groups_.back()->members = members;
  groups_.back()->calls.resize(members.size());
  groups_.back()->callers = static_cast<int>(members.size());
  return known->second;
}

int Groups::symmetric_group(int world_rank, int size, int level, double share, CollectiveSeconds library) {
  groups_.push_back(std::make_unique<Group>());
  Group& group = *groups_.back();
  group.members.assign(static_cast<std::size_t>(size), world_rank);
  group.calls.resize(group.members.size());
  group.callers = 1;
  group.level = level;
  group.share = share;
  group.library = std::move(library);
  return count() - 1;
}

Groups::Arrival Groups::arrive(int group_index, int member, int world_rank, const Call& call) {
  Group& group = *groups_[group_index];
  Arrival arrival{.number = group.calls[member]++};
  if (arrival.number == group.setups.size()) {
    SetUp& fresh = group.setups.emplace_back();
    fresh.first = call;
    fresh.first_rank = world_rank;
    fresh.colors.resize(group.members.size());
    fresh.keys.resize(group.members.size());
  }
  SetUp& setup = group.setups[arrival.number];
  if (setup.first.is_split != call.is_split || setup.first.name != call.name)
    throw Error(
        Verdict::mismatch,
        fmt::format("MISMATCH: set-up call {} of a group differs: rank {} calls {} at {}, rank {} calls {} at {}. "
                    "Every member makes the same set-up calls in the same order.",
                    arrival.number + 1, setup.first_rank, text_of(setup.first), describe(setup.first.where), world_rank,
                    text_of(call), describe(call.where)));
  setup.colors[member] = call.color;
  setup.keys[member] = call.key;
  arrival.complete = ++setup.arrived == group.callers;
  if (!arrival.complete) {
    setup.waiting.push_back(world_rank);
    return arrival;
  }
  if (call.is_split) split(group_index, setup);
  arrival.waiting = std::move(setup.waiting);
  return arrival;
}

void Groups::split(int group, SetUp& setup) {
  const std::vector<int> members = groups_[group]->members;
  setup.result.assign(members.size(), -1);
  std::map<int, std::vector<int>> by_color;
  for (std::size_t i = 0; i < members.size(); ++i)
    if (setup.colors[i] >= 0) by_color[setup.colors[i]].push_back(static_cast<int>(i));
  for (auto& [color, ranks] : by_color) {
    std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) { return setup.keys[a] < setup.keys[b]; });
    std::vector<int> world;
    for (int rank : ranks) world.push_back(members[rank]);
    const int made = make(world);
    for (int rank : ranks) setup.result[rank] = made;
  }
}

int Groups::result(int group, std::uint64_t number, int member) const {
  const SetUp& setup = groups_[group]->setups[number];
  return setup.first.is_split ? setup.result[member] : group;
}

Groups::Missing Groups::missing(int group_index, std::uint64_t number) const {
  const Group& group = *groups_[group_index];
  const auto late = std::find_if(group.calls.begin(), group.calls.end(), [&](auto calls) { return calls <= number; });
  const int rank = group.members[late - group.calls.begin()];
  return {rank, fmt::format("set-up call {} ({}) waits for rank {}, which has not made it", number + 1,
                            text_of(group.setups[number].first), rank)};
}

}  // namespace lockstep
