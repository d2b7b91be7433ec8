// Batches for tests of models: tokens by a formula, so that every rank, backend and script makes the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/arithmetic.hpp"
#include "common/gpt/model/gpt.hpp"

namespace lockstep::model_tests {

inline Batch make_batch(Rank me, std::size_t sequences, std::size_t length, const std::vector<std::int32_t>& tokens,
                        const std::vector<std::int32_t>& targets) {
  Batch batch{me.allocate(tokens.size(), DType::i32, Category::buffer),
              me.allocate(targets.size(), DType::i32, Category::buffer), sequences, length};
  upload(me, batch.tokens, tokens);
  upload(me, batch.targets, targets);
  return batch;
}

/// Tokens number first, first + 1, … by the formulas of make_golden.py. Masks target `ignored` of the batch; −1: none.
inline Batch batch_by_formula(Rank me, std::size_t sequences, std::size_t length, std::size_t vocabulary,
                              int ignored = -1, std::size_t first = 0) {
  std::vector<std::int32_t> tokens, targets;
  for (std::size_t n = first; n < first + sequences * length; ++n) {
    tokens.push_back(static_cast<std::int32_t>((31 * n * n + 7 * n + 3) % vocabulary));
    targets.push_back(static_cast<std::int32_t>((17 * n + 5) % vocabulary));
  }
  if (ignored >= 0) targets.at(static_cast<std::size_t>(ignored)) = -1;
  return make_batch(me, sequences, length, tokens, targets);
}

}  // namespace lockstep::model_tests
