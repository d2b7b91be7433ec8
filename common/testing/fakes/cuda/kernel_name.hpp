// What a kernel is called, from its address.
#pragma once

#include <string>

namespace lockstep::fake {

/// "lockstep::kernels::add<float>", or its address where the program has no names.
std::string kernel_name(const void* kernel);

}  // namespace lockstep::fake
