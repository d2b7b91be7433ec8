// What a test asks cuDNN without a GPU.
#pragma once

#include <string>

#include "common/devices/cuda/attention_library.hpp"

namespace lockstep::cuda {

/// Why cuDNN has no kernel for `key` on a GPU with these properties (JSON, as cuDNN writes them) and of this compute
/// capability, such as 90; empty where it has one. Needs the driver's library, or the toolkit's stub of it.
std::string cudnn_refuses(const AttentionKey& key, const std::string& properties, int capability);

}  // namespace lockstep::cuda
