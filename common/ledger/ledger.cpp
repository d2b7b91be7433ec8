#include "common/ledger/ledger.hpp"

#include "common/backend.hpp"

namespace lockstep {

const RegionTotal* RankLedger::region(std::string_view name) const {
  for (const RegionTotal& total : regions)
    if (total.name == name) return &total;
  return nullptr;
}

std::uint64_t RankLedger::sent_to(int peer) const {
  std::uint64_t bytes = 0;
  for (const PeerTraffic& entry : peers)
    if (entry.peer == peer) bytes += entry.traffic.bytes_sent;
  return bytes;
}

RankLedger ledger_of(Rank me) { return me.backend().ledger(); }

}  // namespace lockstep
