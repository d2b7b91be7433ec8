// Given to exercise 23.6: how p ranks share sequences of T positions. T is split into 2p chunks, and each rank has two
// of them: neighbours, or in zig-zag. A rank's array is its earlier chunk, of all B sequences, and then its later one.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <vector>

#include "common/arithmetic.hpp"
#include "common/chunk.hpp"

namespace lockstep::week23 {

enum class SequenceCut : std::uint8_t { contiguous, zigzag };

/// The ranks, and their common settings. `shape` is that of the whole sequences: shape.positions = T, a multiple of 2p.
struct RingAttention {
  Rank group;
  AttentionShape shape;
  SequenceCut cut = SequenceCut::zigzag;
};

std::array<int, 2> zigzag_chunks(int rank, int ranks);  // 23.6d

/// The numbers of a rank's chunks, from 0 to 2p − 1, the earlier first.
inline std::array<int, 2> chunks_of(int rank, int ranks, SequenceCut cut) {
  if (cut == SequenceCut::zigzag) return zigzag_chunks(rank, ranks);
  return {2 * rank, 2 * rank + 1};
}

/// T/(2p); a T that is not a multiple of 2p is a USAGE error.
inline std::size_t chunk_positions(std::size_t positions, int ranks, Location where = Location::current()) {
  const std::size_t chunks = 2 * static_cast<std::size_t>(ranks);
  if (positions % chunks != 0)
    usage_error(fmt::format("{} positions do not divide into {} chunks, two for each of {} rank{}", positions, chunks,
                            ranks, ranks == 1 ? "" : "s"),
                where);
  return positions / chunks;
}

/// The earlier (i = 0) or the later (i = 1) half of a rank's array.
inline Slice half(const Slice& array, int i) { return chunk(array, i, 2); }

/// The queries of one chunk against the keys of another, by their numbers.
inline AttentionBlock block_between(const RingAttention& ring, int query_chunk, int key_chunk) {
  const std::size_t size = chunk_positions(ring.shape.positions, ring.group.size());
  return {.batch = ring.shape.batch,
          .queries = size,
          .keys = size,
          .heads = ring.shape.heads,
          .head_size = ring.shape.head_size,
          .first_query = static_cast<std::size_t>(query_chunk) * size,
          .first_key = static_cast<std::size_t>(key_chunk) * size,
          .kv_heads = ring.shape.kv_heads};
}

/// A rank's part of a replica's sequences: two of 2·ranks chunks, in zig-zag.
struct ContextShare {
  int rank = 0;
  int ranks = 1;
};

/// Returns, of `length` positions of each of some sequences, those of a rank's two chunks, in the order of its rows: on
/// the host.
template <class T>
std::vector<T> own_positions(const std::vector<T>& sequences, std::size_t length, ContextShare share) {
  if (share.ranks == 1) return sequences;
  std::vector<T> own;
  const auto size = static_cast<std::ptrdiff_t>(chunk_positions(length, share.ranks));
  for (const int number : chunks_of(share.rank, share.ranks, SequenceCut::zigzag))
    for (std::size_t first = 0; first < sequences.size(); first += length) {
      const auto from = sequences.begin() + static_cast<std::ptrdiff_t>(first) + number * size;
      own.insert(own.end(), from, from + size);
    }
  return own;
}

}  // namespace lockstep::week23
