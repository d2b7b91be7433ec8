#include <fmt/format.h>

#include "common/devices/cuda/attention_origins.hpp"
#include "common/devices/cuda/slow_paths.hpp"
#include "common/runtime/device_notes.hpp"

namespace lockstep {

namespace {

/// Adds nothing if no library was asked for or expected.
void note_attention(std::vector<DeviceNote>& notes) {
  const cuda::AttentionOrigins::Counts counts = cuda::attention_origins().counts();
  if (counts.by_library + counts.by_ours == 0) return;
  std::string who = fmt::format("{} by {}, {} by our kernels", counts.by_library,
                                counts.library.empty() ? "cuDNN" : counts.library, counts.by_ours);
  if (!counts.refusal.empty()) who += fmt::format(" ({})", counts.refusal);
  notes.push_back({"attention", who, fmt::format("attention: {}", who)});
}

}  // namespace

std::vector<DeviceNote> device_notes() {
  const std::string slow = cuda::slow_paths().words();
  std::vector<DeviceNote> notes = {
      {"slow_paths", slow,
       slow == "none" ? "" : fmt::format("done in a slower way than usual (docs/use/gpu.md): {}", slow)}};
  note_attention(notes);
  return notes;
}

}  // namespace lockstep
