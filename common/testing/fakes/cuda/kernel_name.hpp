// The name of a kernel, from its address.
#pragma once

#include <string>

namespace lockstep::fake {

/// Returns "lockstep::kernels::add<float>", or its address if the program has no names.
std::string kernel_name(const void* kernel);

}  // namespace lockstep::fake
