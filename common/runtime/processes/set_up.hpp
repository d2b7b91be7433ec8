// What the processes of a group tell each other when they call split or stream, and what comes of it.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"

namespace lockstep::processes {

/// One rank's call, as it travels.
struct SetUp {
  bool is_split = false;
  int color = 0;
  int key = 0;
  std::uint64_t call = 0;  // counts the group's set-up calls
  char name[64] = "";      // of the stream
  char where[80] = "";
};
/// Throws Error(usage) for a name that is too long.
SetUp stream_call(std::string_view name, Location where);

/// All members made the same call: split, or stream of one name. Else throws Error(mismatch) that names both.
/// `members` are the group's, in the world.
void compare(std::span<const SetUp> calls, std::span<const int> members);

/// The ranks of the group by the colour they gave, in the order of (key, rank).
std::map<int, std::vector<int>> by_color(std::span<const SetUp> calls);

/// As much of `text` as there is room for, and the zero behind it.
void copy_text(char* to, std::size_t room, std::string_view text);

}  // namespace lockstep::processes
