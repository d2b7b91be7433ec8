// Peers that an endpoint has met, and its data about each.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/backends/sim/network.hpp"
#include "common/runtime/ledger/ledger.hpp"

namespace lockstep::sim {

/// Unmatched halves of messages from one rank to another on one (group, queue): either sends only or receives only.
struct Pair {
  Message* first = nullptr;
  Message* last = nullptr;
};

/// An endpoint's data about one peer; fits in one cache line.
struct alignas(64) Peer {
  int rank = 0;                  // rank in the group
  std::uint32_t world : 28 = 0;  // world rank
  std::uint32_t level : 4 = 0;   // innermost level that joins the two
  Pair* out = nullptr;           // `in` of the other end
  Pair in;
  Traffic traffic;
};
static_assert(sizeof(Peer) == 64);

/// The peers of one endpoint, in the order met, at stable addresses. A thousand ranks that all meet have a million.
class Peers {
 public:
  std::size_t size() const { return count_; }
  Peer& operator[](std::size_t index) const {
    const Position position = position_of(index);
    return chunks_[position.chunk][position.offset];
  }
  Peer* find(int rank) const;  ///< null if never met
  Peer& add(int rank);         ///< adds a peer not met before
  /// Calls f(peer) in the order met; in rank order if there are many.
  template <class F>
  void each(F f) const {
    if (slots_.empty())
      for (std::size_t i = 0; i < count_; ++i) f((*this)[i]);
    else
      for (const Peer* peer : by_rank()) f(*peer);
  }
  void clear() { *this = {}; }

 private:
  // Chunks hold 2, 2, 4, 8, 16, 32 and then always 64 peers.
  static constexpr std::size_t kChunk = 64, kFirstChunks = 6;
  struct Position {
    std::size_t chunk, offset;
  };
  static Position position_of(std::size_t index) {
    if (index >= kChunk) return {kFirstChunks + index / kChunk - 1, index % kChunk};
    if (index < 2) return {0, index};
    return {static_cast<std::size_t>(std::bit_width(index)) - 1, index - std::bit_floor(index)};
  }
  /// First slot to search for `rank`. Neighbours in rank, which most algorithms meet, have adjacent slots.
  std::size_t slot_of(int rank) const {
    const auto number = static_cast<std::size_t>(rank);
    return (number + (number >> std::countr_zero(slots_.size()))) & (slots_.size() - 1);
  }
  void enter(std::size_t index);
  std::vector<const Peer*> by_rank() const;

  static constexpr std::size_t kFew = 8;
  std::array<int, kFew> ranks_{};  // of the first peers, so that one cache line is enough to find them
  std::uint32_t count_ = 0;
  std::vector<std::unique_ptr<Peer[]>> chunks_;
  std::vector<std::uint16_t> slots_;  // open addressing: index + 1, or 0; empty while there are few peers
};

}  // namespace lockstep::sim
