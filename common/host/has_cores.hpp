// Whether a time says anything about scaling.
#pragma once

#include <string_view>

#include "common/host/host.hpp"
#include "common/run.hpp"

namespace lockstep {

/// Virtual time, or slept through, or a core for each rank. Ranks that share cores, or one GPU, are not a larger
/// machine: no efficiency is worked out for them.
inline bool has_cores(const RunOptions& options) {
  const std::string_view backend = backend_name();
  if (backend == "sim" || options.emulate || options.ranks == 1) return true;
  return backend != "cuda" && options.ranks <= read_host().usable_cores;
}

}  // namespace lockstep
