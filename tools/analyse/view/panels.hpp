// The panels next to the lanes: each function writes members of the scene's object, "name":value, and the next.
#pragma once

#include <string>
#include <vector>

#include "common/analysis/labels.hpp"
#include "common/analysis/shares.hpp"
#include "common/runtime/trace/trace.hpp"

namespace lockstep::view {

/// Its rank, and the seconds of it.
std::string share_json(const analysis::TimeShare& share);
/// "legend": seconds by rank and of all; "ledger": the same of the ledgers, and whether they agree.
std::string legend_json(const Trace& trace, const analysis::Shares& shares);
/// "why": what ./lab why says, or why it cannot. `whole`: all ranks' events were recorded;
/// `limit`: as in SceneOptions.
std::string why_json(const Trace& trace, bool whole, const std::string& limit);
/// "links": messages and bytes from rank to rank, the most first.
std::string traffic_json(const Trace& trace, const std::vector<analysis::Flight>& flights);
/// "memory": live bytes of each category over time.
std::string memory_json(const Trace& trace);
/// "holdings": who holds which partial sum; "stuck": the wait graph of a deadlock; "race": its two accesses.
std::string picture_json(const Trace& trace, const std::vector<analysis::Flight>& flights,
                         const analysis::Labels& labels);

/// "diff": two runs, operation by operation.
std::string diff_json(const Trace& a, const Trace& b);

}  // namespace lockstep::view
