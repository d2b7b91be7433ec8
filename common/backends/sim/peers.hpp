// Whom one endpoint has met, and what it knows of each.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/backends/sim/network.hpp"
#include "common/runtime/ledger/ledger.hpp"

namespace lockstep::sim {

/// Unmatched halves of messages from one rank to another on one (group, queue): all sends, or all receives.
struct Pair {
  Message* first = nullptr;
  Message* last = nullptr;
};

/// What an endpoint knows of one peer: one line of the cache.
struct alignas(64) Peer {
  int rank = 0;                  // in the group
  std::uint32_t world : 28 = 0;  // …and in the world
  std::uint32_t level : 4 = 0;   // innermost that joins the two
  Pair* out = nullptr;           // the other end's `in`
  Pair in;
  Traffic traffic;
};
static_assert(sizeof(Peer) == 64);

/// The peers of one endpoint, in the order met. They stay where they are; a thousand ranks that all meet have a
/// million.
class Peers {
 public:
  std::size_t size() const { return count_; }
  Peer& operator[](std::size_t index) const {
    const Place place = place_of(index);
    return chunks_[place.chunk][place.offset];
  }
  Peer* find(int rank) const;  ///< null: never met
  Peer& add(int rank);         ///< who was never met
  /// f(peer) in the order met; by rank where they are many.
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
  struct Place {
    std::size_t chunk, offset;
  };
  static Place place_of(std::size_t index) {
    if (index >= kChunk) return {kFirstChunks + index / kChunk - 1, index % kChunk};
    if (index < 2) return {0, index};
    return {static_cast<std::size_t>(std::bit_width(index)) - 1, index - std::bit_floor(index)};
  }
  /// Where `rank` is looked for first. Neighbours in rank, whom most algorithms meet, lie side by side.
  std::size_t slot_of(int rank) const {
    const auto number = static_cast<std::size_t>(rank);
    return (number + (number >> std::countr_zero(slots_.size()))) & (slots_.size() - 1);
  }
  void enter(std::size_t index);
  std::vector<const Peer*> by_rank() const;

  static constexpr std::size_t kFew = 8;
  std::array<int, kFew> ranks_{};  // of the first peers, so that one line of the cache says which of them it is
  std::uint32_t count_ = 0;
  std::vector<std::unique_ptr<Peer[]>> chunks_;
  std::vector<std::uint16_t> slots_;  // open addressing: index + 1, or 0; empty while peers are few
};

}  // namespace lockstep::sim
