// Working memory for kernels, kept by the device between calls: fibers have small stacks, and allocation is slow.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace lockstep::cpu {

class Scratch {
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(float* data) const { ::operator delete(data, kAlignment); }
  };
  struct Buffer {
    std::unique_ptr<float, Free> data;
    std::size_t size = 0;
  };

 public:
  /// Floats, contents undefined, returned on destruction.
  class Lease {
   public:
    Lease(Scratch& owner, Buffer buffer) : owner_(owner), buffer_(std::move(buffer)) {}
    ~Lease() { owner_.give_back(std::move(buffer_)); }
    Lease(const Lease&) = delete;
    float* data() const { return buffer_.data.get(); }

   private:
    Scratch& owner_;
    Buffer buffer_;
  };

  /// Thread-safe.
  Lease take(std::size_t floats) {
    Buffer buffer;
    {
      std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        // The last buffer that is large enough, otherwise the last.
        std::size_t chosen = free_.size() - 1;
        for (std::size_t i = free_.size(); i-- > 0;)
          if (free_[i].size >= floats) {
            chosen = i;
            break;
          }
        std::swap(free_[chosen], free_.back());
        buffer = std::move(free_.back());
        free_.pop_back();
      }
    }
    if (buffer.size < floats) {
      buffer.data.reset();
      buffer.data.reset(static_cast<float*>(::operator new(floats * sizeof(float), kAlignment)));
      buffer.size = floats;
    }
    return Lease(*this, std::move(buffer));
  }

 private:
  void give_back(Buffer buffer) {
    std::lock_guard lock(mutex_);
    free_.push_back(std::move(buffer));
  }

  std::mutex mutex_;
  std::vector<Buffer> free_;
};

}  // namespace lockstep::cpu
