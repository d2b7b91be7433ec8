// Splits an array into p parts, for collectives and shards.
#pragma once

#include "common/slice.hpp"

namespace lockstep {

/// The elements of one chunk.
struct ChunkRange {
  std::size_t offset = 0;
  std::size_t size = 0;
};

/// Chunk `index` of `elements` split into `count` chunks in order. Sizes differ by at most one, longer chunks first: 7
/// elements in 3 chunks are 3, 2, 2. If elements < count, the last chunks are empty. `index` may be any integer and is
/// taken modulo `count`: −1 is the last chunk, as on a ring.
constexpr ChunkRange chunk_range(std::size_t elements, int index, int count) {
  const auto c = static_cast<std::size_t>((index % count + count) % count);
  const std::size_t shorter = elements / count, longer = elements % count;  // `longer` chunks have one element more
  return {c * shorter + (c < longer ? c : longer), shorter + (c < longer ? 1 : 0)};
}

/// Chunk `index` of `count` of `data`; may be empty.
inline Slice chunk(const Slice& data, int index, int count) {
  const ChunkRange range = chunk_range(data.size(), index, count);
  return data.cut(range.offset, range.size);
}

/// Index of the chunk that holds `element`, which is below `elements`.
constexpr int chunk_of(std::size_t elements, std::size_t element, int count) {
  const std::size_t shorter = elements / count, longer = elements % count, border = longer * (shorter + 1);
  return static_cast<int>(element < border ? element / (shorter + 1) : longer + (element - border) / shorter);
}

}  // namespace lockstep
