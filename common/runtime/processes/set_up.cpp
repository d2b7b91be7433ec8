#include "common/runtime/processes/set_up.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace lockstep::processes {

void copy_text(char* to, std::size_t room, std::string_view text) {
  const std::size_t length = std::min(room - 1, text.size());
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

SetUp stream_call(std::string_view name, Location where) {
  SetUp call;
  if (name.size() >= sizeof call.name)
    usage_error(fmt::format("a queue's name has at most {} characters", sizeof call.name - 1), where);
  copy_text(call.name, sizeof call.name, name);
  return call;
}

void compare(std::span<const SetUp> calls, std::span<const int> members) {
  auto text_of = [](const SetUp& c) { return c.is_split ? "split" : fmt::format("stream(\"{}\")", c.name); };
  const SetUp& first = calls[0];
  for (std::size_t peer = 1; peer < calls.size(); ++peer) {
    const SetUp& other = calls[peer];
    if (first.is_split == other.is_split && std::strcmp(first.name, other.name) == 0) continue;
    throw Error(
        Verdict::mismatch,
        fmt::format("MISMATCH: set-up call {} of a group differs: rank {} calls {} at {}, rank {} calls {} at "
                    "{}. Every member makes the same set-up calls in the same order.",
                    first.call, members[0], text_of(first), first.where, members[peer], text_of(other), other.where));
  }
}

std::map<int, std::vector<int>> by_color(std::span<const SetUp> calls) {
  std::map<int, std::vector<int>> groups;
  for (int rank = 0; rank < static_cast<int>(calls.size()); ++rank)
    if (calls[rank].color >= 0) groups[calls[rank].color].push_back(rank);
  for (auto& [color, ranks] : groups)
    std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) { return calls[a].key < calls[b].key; });
  return groups;
}

}  // namespace lockstep::processes
