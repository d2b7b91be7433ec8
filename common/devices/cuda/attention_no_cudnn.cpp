// No attention library, in builds that did not find cuDNN and its frontend; never called.
#include <stdexcept>

#include "common/devices/cuda/attention_library.hpp"

namespace lockstep::cuda {

struct AttentionLibrary::State {};

std::string attention_library_name() { return ""; }
AttentionLibrary::AttentionLibrary(cudaStream_t) {}
AttentionLibrary::~AttentionLibrary() = default;
std::string AttentionLibrary::run(const kernels::Queue&, const AttentionCall&) {
  throw std::logic_error("there is no library of attention in this program");
}

}  // namespace lockstep::cuda
