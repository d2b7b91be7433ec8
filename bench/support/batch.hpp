// Tokens for benchmarks: the same in every run and on every computer. Each token's successor is its target.
#pragma once

#include <cstdint>
#include <vector>

#include "common/arithmetic.hpp"
#include "common/gpt/model/gpt.hpp"

namespace lockstep::bench {

/// Returns sequences first, first + 1, … of `length` tokens, all below `vocabulary`; a token's target is the next
/// token.
inline Batch counted_batch(Rank me, std::size_t first, std::size_t sequences, std::size_t length,
                           std::size_t vocabulary) {
  const auto tokens = [&](std::size_t shift) {
    std::vector<std::int32_t> values;
    values.reserve(sequences * length);
    for (std::size_t s = first; s < first + sequences; ++s)
      for (std::size_t t = shift; t < length + shift; ++t)
        values.push_back(static_cast<std::int32_t>((s * s + 3 * t + s * t) % vocabulary));
    Slice slice = me.allocate(values.size(), DType::i32, Category::buffer);
    upload(me, slice, values);
    return slice;
  };
  return {tokens(0), tokens(1), sequences, length};
}

}  // namespace lockstep::bench
