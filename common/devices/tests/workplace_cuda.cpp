// A stream of a GPU, real or fake, and the main function of the tests that use it: without a GPU they are skipped.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "common/devices/cuda/cuda_device.hpp"
#include "common/devices/cuda/gpu.hpp"
#include "common/devices/cuda/status.hpp"
#include "common/devices/cuda/stream.hpp"
#include "common/devices/tests/workplace.hpp"

namespace lockstep::testing {

namespace {

using cuda::check;

class StreamWorkplace final : public Workplace {
 public:
  StreamWorkplace() : device_(make_cuda_device(stream_.get())) {}

  Device& device() override { return *device_; }
  void* allocate(std::size_t bytes) override {
    void* data = nullptr;
    check(cudaMallocAsync(&data, bytes, stream_.get()), "cudaMallocAsync");
    check(cudaMemsetAsync(data, 0xff, bytes, stream_.get()), "cudaMemsetAsync");
    return data;
  }
  void release(void* data) override { (void)cudaFreeAsync(data, stream_.get()); }
  void upload(void* to, const void* from, std::size_t bytes) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_.get()), "cudaMemcpyAsync");
    stream_.synchronize();
  }
  void download(void* to, const void* from, std::size_t bytes) override {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_.get()), "cudaMemcpyAsync");
    stream_.synchronize();
  }
  void check_work(Location where) override { device_->check_indices(where); }

 private:
  cuda::Stream stream_;
  std::unique_ptr<CudaDevice> device_;
};

}  // namespace

std::unique_ptr<Workplace> make_workplace(int) { return std::make_unique<StreamWorkplace>(); }

}  // namespace lockstep::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  try {
    lockstep::cuda::open_gpu(0);
  } catch (const lockstep::NoDevice& reason) {
    std::puts(reason.what());
    return 77;
  }
  return RUN_ALL_TESTS();
}
