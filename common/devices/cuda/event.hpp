// Points on the timelines of streams: what one stream waits for on another, and what time it was there.
//
// Events are recorded by the thousand, so they are taken from a pool and given back when nobody holds them any more.
// That may be before the GPU gets there: a wait that was issued keeps what it waits for.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace lockstep::cuda {

class EventPool;

/// A counted handle on one recording; empty when made without.
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
  bool done() const;         ///< the GPU has passed it
  void synchronize() const;  ///< the host waits until it has

 private:
  friend class EventPool;
  friend class EventClock;
  struct Slot {
    cudaEvent_t event = nullptr;
    double seconds = -1;  // once known; who asks is one thread
    std::atomic<int> holders{0};
    EventPool* pool = nullptr;
  };
  explicit Event(Slot* slot) : slot_(slot) { slot->holders.store(1, std::memory_order_relaxed); }
  void drop();
  Slot* slot_ = nullptr;
};

/// Outlives the events taken from it. May be used by several threads.
class EventPool {
 public:
  EventPool() = default;
  EventPool(const EventPool&) = delete;
  ~EventPool();
  /// Where `stream` is now, when everything given to it so far is done.
  Event record(cudaStream_t stream);

 private:
  friend class Event;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Event::Slot>> all_;
  std::vector<Event::Slot*> spare_;
};

/// Seconds between events that the GPU has passed. CUDA gives single-precision milliseconds, which would be coarse
/// after minutes, so the origin moves along.
class EventClock {
 public:
  explicit EventClock(Event origin) : base_(std::move(origin)) {}
  double seconds(const Event& event);

 private:
  Event base_;
  double base_seconds_ = 0;
};

}  // namespace lockstep::cuda
