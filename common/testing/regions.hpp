// Visits to the regions that an answer opens. The answer may have forgotten one: these functions never return a pointer
// to a missing region.
#pragma once

#include <string_view>

#include "common/runtime/ledger/ledger.hpp"

namespace lockstep::testing {

/// Returns a rank's visits to regions called `name`, over all its streams; zeros if it opened none.
RegionTotal visits_to(const RankLedger& ledger, std::string_view name);

/// The same for tests that need the region. Throws Error(fail) if there is none, with its name and where it belongs:
/// `place` continues "open it …", as in "around each gathering of a unit's values".
RegionTotal required_visits_to(const RankLedger& ledger, std::string_view name, std::string_view place);

}  // namespace lockstep::testing
