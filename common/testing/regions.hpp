// What a test reads about the regions that an answer opens. The answer may have forgotten one: these functions never
// hand out a pointer to what is not there.
#pragma once

#include <string_view>

#include "common/runtime/ledger/ledger.hpp"

namespace lockstep::testing {

/// A rank's visits to regions called `name`, over all its queues; zeros where it opened none.
RegionTotal visits_to(const RankLedger& ledger, std::string_view name);

/// The same where the test cannot do without the region. Throws Error(fail) where there is none, which names the region
/// and says where it belongs: `place` continues "open it …", as in "around each gathering of a unit's values".
RegionTotal required_visits_to(const RankLedger& ledger, std::string_view name, std::string_view place);

}  // namespace lockstep::testing
