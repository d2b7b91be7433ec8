// The data in the page, from the suite's own models, machine files and runs.
#pragma once

#include <string>

namespace lockstep::playground {

/// JSON: models (parameters, bytes of activations per token), GPUs (bytes), links (α, β, γ) and programs
/// of the virtual cluster, with their text.
std::string data();

}  // namespace lockstep::playground
