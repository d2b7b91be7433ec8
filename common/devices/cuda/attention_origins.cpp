#include "common/devices/cuda/attention_origins.hpp"

namespace lockstep::cuda {

void AttentionOrigins::note(const std::string& library, const std::string& refusal) {
  const std::lock_guard lock(mutex_);
  counts_.library = library;
  ++(refusal.empty() ? counts_.by_library : counts_.by_ours);
  if (counts_.refusal.empty()) counts_.refusal = refusal;
}

AttentionOrigins::Counts AttentionOrigins::counts() {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void AttentionOrigins::forget() {
  const std::lock_guard lock(mutex_);
  counts_ = {};
}

AttentionOrigins& attention_origins() {
  static AttentionOrigins all;
  return all;
}

}  // namespace lockstep::cuda
