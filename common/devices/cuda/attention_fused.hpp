// Which attention does an operation: a library's, or our kernels'. LOCKSTEP_ATTENTION chooses (docs/gpu.md).
#pragma once

#include <memory>
#include <string>

#include "common/devices/cuda/attention_library.hpp"

namespace lockstep::cuda {

enum class AttentionChoice : std::uint8_t { automatic, cudnn, ours };

/// What LOCKSTEP_ATTENTION says: auto (also where it is not set), cudnn or ours. Throws Error(usage) for anything else.
AttentionChoice attention_choice();

/// Whether `auto` uses a library that this program has, in 16 bits, on a GPU of compute capability `major`: for the
/// forward pass from 9 (H100) on, whose faster tensor-core instruction our kernels do not use; for the backward pass
/// from 10 (B200) on, since before that cuDNN's deterministic one stores a T × T matrix for each head.
bool expects_library(const AttentionKey& key, int major);

/// The attention of one stream's device that a library does.
class FusedAttention {
 public:
  /// may_load: plans may be made at any time. On `nccl` they may not, since loading their kernels can wait for messages
  /// in flight, and no library is used.
  FusedAttention(cudaStream_t stream, bool may_load);

  /// False, with nothing queued, where our kernels must do it; counted where the library was asked for or expected.
  bool run(const kernels::Queue& queue, const AttentionCall& call);

 private:
  bool wants_library(const AttentionKey& key);
  std::string try_library(const kernels::Queue& queue, const AttentionCall& call);

  cudaStream_t stream_;
  AttentionChoice choice_;
  bool may_load_;
  int major_ = -1;                             // of the GPU, once known
  std::unique_ptr<AttentionLibrary> library_;  // from the first call on that wants it
};

}  // namespace lockstep::cuda
