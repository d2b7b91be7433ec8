#include "common/devices/cuda/attention_fused.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "common/devices/cuda/attention_origins.hpp"
#include "common/devices/cuda/slow_paths.hpp"
#include "common/devices/cuda/status.hpp"

namespace lockstep::cuda {

AttentionChoice attention_choice() {
  const char* const asked = std::getenv("LOCKSTEP_ATTENTION");
  const std::string_view name = asked ? asked : "auto";
  if (name == "auto") return AttentionChoice::automatic;
  if (name == "cudnn") return AttentionChoice::cudnn;
  if (name == "ours") return AttentionChoice::ours;
  throw Error(Verdict::usage, fmt::format("LOCKSTEP_ATTENTION={}: allowed are auto, cudnn and ours", name));
}

bool expects_library(const AttentionKey& key, int major) {
  return major >= (key.backward ? 10 : 9) && key.dtype != DType::f32;
}

FusedAttention::FusedAttention(cudaStream_t stream, bool may_load)
    : stream_(stream), choice_(attention_choice()), may_load_(may_load) {}

bool FusedAttention::wants_library(const AttentionKey& key) {
  if (choice_ != AttentionChoice::automatic) return choice_ == AttentionChoice::cudnn;
  if (!may_load_ || attention_library_name().empty()) return false;
  if (major_ < 0) {
    int gpu = 0;
    check(cudaGetDevice(&gpu), "cudaGetDevice");
    check(cudaDeviceGetAttribute(&major_, cudaDevAttrComputeCapabilityMajor, gpu), "cudaDeviceGetAttribute");
  }
  return expects_library(key, major_);
}

std::string FusedAttention::try_library(const kernels::Queue& queue, const AttentionCall& call) {
  if (attention_library_name().empty()) return "this program was built without cuDNN";
  if (!may_load_) return "not on nccl, where loading a plan's kernels could wait for messages";
  std::string why = unsuitable(call);
  if (!why.empty()) return why;
  if (!library_) library_ = std::make_unique<AttentionLibrary>(stream_);
  return library_->run(queue, call);
}

bool FusedAttention::run(const kernels::Queue& queue, const AttentionCall& call) {
  const AttentionKey& key = call.key;
  if (key.batch * key.positions * key.heads * key.head_size == 0 || !wants_library(key)) return false;
  const std::string refusal = try_library(queue, call);
  attention_origins().note(attention_library_name(), refusal);
  if (!refusal.empty()) ++slow_paths().attentions_not_by_library;
  return refusal.empty();
}

}  // namespace lockstep::cuda
