// A fake GPU for one test, which must release everything.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "common/testing/fakes/cuda/fake.hpp"

namespace lockstep {

using Found = std::vector<std::string>;

class FakeTest : public testing::Test {
 protected:
  void SetUp() override { start({}); }
  void TearDown() override { EXPECT_EQ(fake::finish(), Found{}); }

  void start(const fake::Settings& settings) {
    (void)cudaGetLastError();
    fake::configure(settings);
  }
  cudaStream_t stream() {
    cudaStream_t made = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), cudaSuccess);
    return made;
  }
  template <typename T>
  T* allocate(std::size_t count, cudaStream_t stream = nullptr) {
    void* made = nullptr;
    EXPECT_EQ(cudaMallocAsync(&made, count * sizeof(T), stream), cudaSuccess);
    return static_cast<T*>(made);
  }
  template <typename T>
  T* upload(const std::vector<T>& values, cudaStream_t stream = nullptr) {
    T* const made = allocate<T>(values.size(), stream);
    EXPECT_EQ(cudaMemcpyAsync(made, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice, stream),
              cudaSuccess);
    return made;
  }
  template <typename T>
  std::vector<T> download(const T* values, std::size_t count, cudaStream_t stream = nullptr) {
    std::vector<T> result(count);
    EXPECT_EQ(cudaMemcpyAsync(result.data(), values, count * sizeof(T), cudaMemcpyDeviceToHost, stream), cudaSuccess);
    return result;
  }
  template <typename... T>
  void free(T*... data) {
    for (void* one : {static_cast<void*>(data)...}) EXPECT_EQ(cudaFreeAsync(one, nullptr), cudaSuccess);
  }
};

}  // namespace lockstep
