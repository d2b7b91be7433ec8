// Query to cuDNN that needs no GPU, for a test.
#pragma once

#include <string>

#include "common/devices/cuda/attention_library.hpp"

namespace lockstep::cuda {

/// Reason why cuDNN has no kernel for `key` on a GPU with these properties (JSON, as cuDNN writes them) and this
/// compute capability, such as 90; empty if it has one. Needs the driver's library, or the toolkit's stub of it.
std::string cudnn_refuses(const AttentionKey& key, const std::string& properties, int capability);

}  // namespace lockstep::cuda
