// A kernel of the fake GPU that spins until it is released.
#pragma once

#include <atomic>
#include <memory>

#include "common/testing/fakes/cuda/fake.hpp"

namespace lockstep {

class Spin {
 public:
  ~Spin() {
    end();
    (void)cudaDeviceSynchronize();
  }
  void on(cudaStream_t stream) const {
    (void)fake::enqueue_attempt(stream, [ends = ends_] { return ends->load(); });
  }
  void end() const { *ends_ = true; }

 private:
  std::shared_ptr<std::atomic<bool>> ends_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace lockstep
