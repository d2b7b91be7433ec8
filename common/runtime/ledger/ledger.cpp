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

void add_traffic(RankLedger& ledger, const PeerTraffic& with) {
  const Traffic& traffic = with.traffic;
  if (traffic.messages_sent + traffic.messages_received == 0) return;
  ledger.traffic.messages_sent += traffic.messages_sent;
  ledger.traffic.messages_received += traffic.messages_received;
  ledger.traffic.bytes_sent += traffic.bytes_sent;
  ledger.traffic.bytes_received += traffic.bytes_received;
  ledger.peers.push_back(with);
}

}  // namespace lockstep
