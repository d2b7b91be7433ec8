// Chooses the implementation of an attention operation: a library, or our kernels. LOCKSTEP_ATTENTION overrides the
// choice (docs/use/gpu.md).
#pragma once

#include <memory>
#include <string>

#include "common/devices/cuda/attention_library.hpp"

namespace lockstep::cuda {

enum class AttentionChoice : std::uint8_t { automatic, cudnn, ours };

/// Value of LOCKSTEP_ATTENTION: auto (also if unset), cudnn or ours. Throws Error(usage) for anything else.
AttentionChoice attention_choice();

/// True if `auto` uses a library that this program has, in 16 bits, on a GPU of compute capability `major`. Forward:
/// from 9 (H100), whose faster tensor-core instruction our kernels do not use. Backward: from 10 (B200), since before
/// that cuDNN's deterministic one stores a T × T matrix for each head.
bool expects_library(const AttentionKey& key, int major);

/// Attention by a library, for the device of one stream.
class FusedAttention {
 public:
  /// may_load: plans may be made at any time. They may not on `nccl`, where loading their kernels can wait for messages
  /// in flight, so no library is used there.
  FusedAttention(cudaStream_t stream, bool may_load);

  /// False, with nothing queued, if our kernels must do it; counted if the library was asked for or expected.
  bool run(const kernels::Queue& queue, const AttentionCall& call);

 private:
  bool wants_library(const AttentionKey& key);
  std::string try_library(const kernels::Queue& queue, const AttentionCall& call);

  cudaStream_t stream_;
  AttentionChoice choice_;
  bool may_load_;
  int major_ = -1;                             // of the GPU; −1: not known yet
  std::unique_ptr<AttentionLibrary> library_;  // made by the first call that wants it
};

}  // namespace lockstep::cuda
