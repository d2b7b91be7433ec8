// Shared by the tests of 21.9: rough values, and what a run has sent.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <vector>

#include "common/runtime/ledger/ledger.hpp"
#include "common/testing/values.hpp"
#include "labs/week21_data_parallel/all_reduce_testing.hpp"

namespace lockstep::week21 {

/// Appends a slice's values.
inline void append_values(Rank me, const Slice& data, Values& seen) { testing::append(me, data, seen); }

/// Appends bytes and messages that `act` sent.
inline void append_traffic(Rank me, Values& seen, const std::function<void()>& act) {
  const Traffic before = ledger_of(me).traffic;
  act();
  const Traffic after = ledger_of(me).traffic;
  seen.push_back(static_cast<double>(after.bytes_sent - before.bytes_sent));
  seen.push_back(static_cast<double>(after.messages_sent - before.messages_sent));
}

/// The first of `size` elements from `at` on that differs from rank 0's on another rank.
inline std::string replicas_part(const Outcome& outcome, std::size_t at, std::size_t size) {
  for (std::size_t rank = 1; rank < outcome.values.size(); ++rank)
    for (std::size_t i = at; i < at + size; ++i)
      if (outcome.values[rank][i] != outcome.values[0][i])
        return fmt::format(
            "element {} is {:.9g} on rank 0 and {:.9g} on rank {}: replicas diverge when each adds in its own "
            "order, or keeps what it has not sent. Start from zeros and add all ranks' parts in rank order",
            i - at, outcome.values[0][i], outcome.values[rank][i], rank);
  return "";
}

/// No value that binary fractions hold well, different on each rank, element and step; positive and negative.
inline float rough(int rank, std::size_t i, int step = 0) {
  const auto mixed = static_cast<unsigned>(i * 2654435761u + static_cast<unsigned>(rank) * 40503u +
                                           static_cast<unsigned>(step) * 9973u);
  return static_cast<float>((mixed >> 8) % 20011) / 9973.0f - 1.0f;
}
inline std::vector<float> rough_array(int rank, std::size_t size, int step = 0) {
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = rough(rank, i, step);
  return values;
}

}  // namespace lockstep::week21
