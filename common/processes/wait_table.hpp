// The table of what every rank does when nothing moves, and what it means.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "common/error.hpp"

namespace lockstep::processes {

/// One rank's line of the wait table.
struct Row {
  enum class State : int { no_answer, working, waiting, finished };
  State state = State::no_answer;
  int peer = -1;            // whom it waits for (in the world), if that is known
  double idle_seconds = 0;  // since anything completed
  std::uint64_t activity = 0;
  std::string words;
};

/// What a headline says before the table: who waits for whom in a circle, or for a rank that has finished.
std::string wait_table(const std::string& headline, std::span<const Row> rows);

/// What the rows mean when nothing has moved for `patience_seconds`. `last_activity`, by rank, is what each counted the
/// time before.
struct Finding {
  bool silent = false;              // a rank does not answer
  Verdict verdict = Verdict::pass;  // deadlock: all wait or have ended; timeout: one is at the same thing as before
};
Finding judge(std::span<const Row> rows, std::span<const std::uint64_t> last_activity, double patience_seconds);

}  // namespace lockstep::processes
