// Shared by the tests of 23.4: tokens of a small vocabulary, and tables of which each rank has some rows.
#pragma once

#include <vector>

#include "common/testing/cases.hpp"
#include "labs/week23_tensor_parallel/shard_testing.hpp"
#include "labs/week23_tensor_parallel/sums_testing.hpp"
#include "labs/week23_tensor_parallel/tensor_block.hpp"

namespace lockstep::week23::tensor_block_test {

inline constexpr std::size_t kSequence = 4, kRows = 8, kChannels = 3;

/// A case's size is the vocabulary; few of them divide.
inline testing::CasePlan plan() {
  testing::CasePlan plan;
  plan.sizes = drawn_sizes({5, 8, 13}, 12);
  plan.unit = "token";
  return plan;
}

inline std::vector<std::int32_t> tokens(std::size_t vocabulary, std::size_t seed, bool some_ignored) {
  std::vector<std::int32_t> result;
  seed += testing::drawn({23, 0, seed}, 1000);
  for (std::size_t n = 0; n < kRows; ++n)
    result.push_back(some_ignored && n % 4 == 1 ? -1 : static_cast<std::int32_t>((seed + 5 * n * n + n) % vocabulary));
  return result;
}
inline Slice uploaded_tokens(Rank me, const std::vector<std::int32_t>& values) {
  Slice slice = me.allocate(values.size(), DType::i32, Category::buffer);
  upload(me, slice, values);
  return slice;
}

/// This rank's rows of a V × columns table; padding is 9, which must never show.
inline HostMatrix padded_rows(const HostMatrix& table, int rank, int ranks) {
  const VocabularyShard shard = vocabulary_shard(table.rows, rank, ranks);
  HostMatrix own = cut_rows(table, shard.first, shard.count);
  own.rows = (table.rows + static_cast<std::size_t>(ranks) - 1) / static_cast<std::size_t>(ranks);
  own.values.resize(own.rows * table.columns, 9);
  return own;
}

}  // namespace lockstep::week23::tensor_block_test
