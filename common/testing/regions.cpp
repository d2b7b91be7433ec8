#include "common/testing/regions.hpp"

#include <fmt/format.h>

#include "common/error.hpp"

namespace lockstep::testing {

RegionTotal visits_to(const RankLedger& ledger, std::string_view name) {
  RegionTotal sum;
  sum.name = name;
  for (const RegionTotal& on_queue : ledger.regions) {
    if (on_queue.name != name) continue;
    sum.visits += on_queue.visits;
    sum.bytes += on_queue.bytes;
    sum.batches += on_queue.batches;
    sum.traffic.messages_sent += on_queue.traffic.messages_sent;
    sum.traffic.messages_received += on_queue.traffic.messages_received;
    sum.traffic.bytes_sent += on_queue.traffic.bytes_sent;
    sum.traffic.bytes_received += on_queue.traffic.bytes_received;
    sum.seconds += on_queue.seconds;
  }
  return sum;
}

RegionTotal required_visits_to(const RankLedger& ledger, std::string_view name, std::string_view place) {
  const RegionTotal sum = visits_to(ledger, name);
  if (sum.visits > 0) return sum;
  throw Error(Verdict::fail, fmt::format("the region \"{0}\" was never opened, and this test measures what happens in "
                                         "it: open it {1}, Scope scope = queue.region(\"{0}\", bytes);",
                                         name, place));
}

}  // namespace lockstep::testing
