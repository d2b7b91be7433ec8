// Points on the timelines of streams, for waits between streams and for timing.
//
// Events are recorded by the thousand, so they come from a pool and return when their last holder is gone. That may be
// before the GPU gets there: a wait that was issued keeps its event.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace lockstep::cuda {

class EventPool;

/// A counted handle to one recording; empty if default-constructed.
class Event {
 public:
  Event() = default;
  Event(const Event& other) : slot_(other.slot_) {
    if (slot_) slot_->holders.fetch_add(1, std::memory_order_relaxed);
  }
  Event(Event&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}
  Event& operator=(Event other) noexcept {
    std::swap(slot_, other.slot_);
    return *this;
  }
  ~Event() { drop(); }

  explicit operator bool() const { return slot_ != nullptr; }
  bool operator==(const Event& other) const { return slot_ == other.slot_; }
  cudaEvent_t get() const { return slot_->event; }
  bool done() const;         ///< true once the GPU has passed it
  void synchronize() const;  ///< blocks the host until then

 private:
  friend class EventPool;
  friend class EventClock;
  struct Slot {
    cudaEvent_t event = nullptr;
    double seconds = -1;  // once known; only one thread asks
    std::atomic<int> holders{0};
    EventPool* pool = nullptr;
  };
  explicit Event(Slot* slot) : slot_(slot) { slot->holders.store(1, std::memory_order_relaxed); }
  void drop();
  Slot* slot_ = nullptr;
};

/// Must outlive the events taken from it. Thread-safe.
class EventPool {
 public:
  EventPool() = default;
  EventPool(const EventPool&) = delete;
  ~EventPool();
  /// Records the current end of `stream`: done once everything given to it so far is.
  Event record(cudaStream_t stream);

 private:
  friend class Event;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Event::Slot>> all_;
  std::vector<Event::Slot*> spare_;
};

/// Seconds between events that the GPU has passed. CUDA gives single-precision milliseconds, too coarse after minutes,
/// so the origin moves along.
class EventClock {
 public:
  explicit EventClock(Event origin) : base_(std::move(origin)) {}
  double seconds(const Event& event);

 private:
  Event base_;
  double base_seconds_ = 0;
};

}  // namespace lockstep::cuda
