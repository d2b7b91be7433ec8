#include "common/devices/cuda/event.hpp"

#include <algorithm>

#include "common/devices/cuda/status.hpp"

namespace lockstep::cuda {

bool Event::done() const {
  const cudaError_t status = cudaEventQuery(slot_->event);
  if (status == cudaErrorNotReady) {
    (void)cudaGetLastError();  // CUDA would report it again at a later check
    return false;
  }
  check(status, "cudaEventQuery");
  return true;
}

void Event::synchronize() const { check(cudaEventSynchronize(slot_->event), "cudaEventSynchronize"); }

void Event::drop() {
  if (!slot_ || slot_->holders.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  std::lock_guard lock(slot_->pool->mutex_);
  slot_->pool->spare_.push_back(slot_);
}

EventPool::~EventPool() {
  for (const auto& slot : all_) (void)cudaEventDestroy(slot->event);
}

Event EventPool::record(cudaStream_t stream) {
  Event::Slot* slot = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (spare_.empty()) {
      auto fresh = std::make_unique<Event::Slot>();
      check(cudaEventCreate(&fresh->event), "cudaEventCreate");
      fresh->pool = this;
      all_.push_back(std::move(fresh));
      spare_.reserve(all_.size());  // so that returning one never fails
      slot = all_.back().get();
    } else {
      slot = spare_.back();
      spare_.pop_back();
    }
  }
  Event event(slot);
  slot->seconds = -1;
  check(cudaEventRecord(slot->event, stream), "cudaEventRecord");
  return event;
}

double EventClock::seconds(const Event& event) {
  constexpr double kFar = 1;
  if (event.slot_->seconds >= 0) return event.slot_->seconds;
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, base_.get(), event.get()), "cudaEventElapsedTime");
  const double seconds = base_seconds_ + static_cast<double>(milliseconds) * 1e-3;
  if (static_cast<double>(milliseconds) * 1e-3 > kFar) {
    base_ = event;
    base_seconds_ = seconds;
  }
  return event.slot_->seconds = std::max(seconds, 0.0);
}

}  // namespace lockstep::cuda
