#include <fmt/format.h>

#include "common/devices/cuda/slow_paths.hpp"
#include "common/devices/cuda/tuning.hpp"
#include "common/runtime/device_notes.hpp"

namespace lockstep {

std::vector<DeviceNote> device_notes() {
  const std::string slow = cuda::slow_paths().words();
  std::vector<DeviceNote> notes = {
      {"slow_paths", slow,
       slow == "none" ? "" : fmt::format("done in a slower way than usual (docs/gpu.md): {}", slow)}};
  if (const std::string file = cuda::tuning_file(); !file.empty()) {
    const cuda::TuningOrigins::Counts counts = cuda::tuning_origins().counts();
    const std::string tuned = fmt::format("{} from the file, {} measured", counts.from_file, counts.measured);
    notes.push_back({"tuned_products", tuned, fmt::format("matrix products tuned: {} ({})", tuned, file)});
  }
  return notes;
}

}  // namespace lockstep
