#include "common/runtime/ledger/ledger.hpp"

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

}  // namespace lockstep
