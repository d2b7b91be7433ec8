// What the page has of data, from the suite's own models, machine files and runs.
#pragma once

#include <string>

namespace lockstep::playground {

/// JSON: models (parameters, bytes of activations per token), GPUs (bytes), links (α, β, γ) and plays: all-reduces of
/// 21.2 and 21.3 in the simulator, with who holds which partial sum after each step.
std::string data();

}  // namespace lockstep::playground
