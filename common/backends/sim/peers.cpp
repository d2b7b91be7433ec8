#include "common/backends/sim/peers.hpp"

#include <algorithm>

namespace lockstep::sim {

Peer* Peers::find(int rank) const {
  if (slots_.empty()) {
    for (std::size_t i = 0; i < count_; ++i)
      if (ranks_[i] == rank) return &(*this)[i];
    return nullptr;
  }
  for (std::size_t slot = slot_of(rank); slots_[slot] != 0; slot = (slot + 1) & (slots_.size() - 1))
    if (Peer& peer = (*this)[slots_[slot] - 1u]; peer.rank == rank) return &peer;
  return nullptr;
}

Peer& Peers::add(int rank) {
  const Position position = position_of(count_);
  if (position.chunk == chunks_.size()) {
    const std::size_t room = count_ < kChunk ? std::max<std::size_t>(2, count_) : kChunk;
    chunks_.push_back(std::make_unique<Peer[]>(room));
  }
  Peer& made = (*this)[count_++];
  made.rank = rank;
  if (count_ <= kFew) {
    ranks_[count_ - 1] = rank;
    return made;
  }
  if (8 * count_ > 7 * slots_.size()) {
    slots_.assign(std::bit_ceil(8 * count_ / 7 + 1), 0);
    for (std::size_t i = 0; i < count_; ++i) enter(i);
  } else {
    enter(count_ - 1);
  }
  return made;
}

void Peers::enter(std::size_t index) {
  std::size_t slot = slot_of((*this)[index].rank);
  while (slots_[slot] != 0) slot = (slot + 1) & (slots_.size() - 1);
  slots_[slot] = static_cast<std::uint16_t>(index + 1);
}

std::vector<const Peer*> Peers::by_rank() const {
  std::vector<const Peer*> all;
  all.reserve(count_);
  for (std::size_t i = 0; i < count_; ++i) all.push_back(&(*this)[i]);
  std::sort(all.begin(), all.end(), [](const Peer* a, const Peer* b) { return a->rank < b->rank; });
  return all;
}

}  // namespace lockstep::sim
