// Clock of a run whose ranks are processes.
#pragma once

#include <chrono>
#include <cstdint>

namespace lockstep::processes {

/// CLOCK_MONOTONIC, in nanoseconds.
inline std::uint64_t monotonic_ns() {
  return static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

/// Seconds since a moment that all ranks agree on, divided by the emulation's scale.
class Clock {
 public:
  Clock() = default;
  Clock(std::uint64_t epoch_ns, double scale) : epoch_ns_(epoch_ns), scale_(scale) {}
  double now() const { return at(monotonic_ns()); }
  double at(std::uint64_t ns) const {
    return static_cast<double>(static_cast<std::int64_t>(ns - epoch_ns_)) * 1e-9 / scale_;
  }
  std::uint64_t ns_of(double seconds) const { return epoch_ns_ + static_cast<std::int64_t>(seconds * scale_ * 1e9); }
  double scale() const { return scale_; }

 private:
  std::uint64_t epoch_ns_ = 0;
  double scale_ = 1;
};

}  // namespace lockstep::processes
