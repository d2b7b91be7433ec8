// Messages between the processes of a group about a split or stream call, and the groups that result.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"

namespace lockstep::processes {

/// One rank's call, in the form that is sent.
struct SetUp {
  bool is_split = false;
  int color = 0;
  int key = 0;
  std::uint64_t call = 0;  // number of the call on this group
  char name[64] = "";      // name of the stream
  char where[80] = "";
};
/// Throws Error(usage) for a name that is too long.
SetUp stream_call(std::string_view name, Location where);

/// Checks that all members made the same call: split, or stream with one name. Otherwise throws Error(mismatch) that
/// names both calls. `members` are the group's world ranks.
void compare(std::span<const SetUp> calls, std::span<const int> members);

/// Ranks of the group by colour, each list in order of (key, rank).
std::map<int, std::vector<int>> by_color(std::span<const SetUp> calls);

/// Copies as much of `text` as fits, and a terminating zero.
void copy_text(char* to, std::size_t room, std::string_view text);

}  // namespace lockstep::processes
