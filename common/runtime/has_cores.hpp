// Whether a time says anything about scaling.
#pragma once

#include "common/runtime/run.hpp"

namespace lockstep {

/// Virtual time, or slept through, or a core for each rank. Ranks that share cores, or one GPU, are not a larger
/// machine: no efficiency is worked out for them.
inline bool has_cores(const RunOptions& options) {
  return options.emulate || options.ranks == 1 || has_core_each(options.ranks);
}

}  // namespace lockstep
