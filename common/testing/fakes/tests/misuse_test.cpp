// Problems that the fake GPU finds in a program that misuses CUDA's runtime.
#include "common/testing/fakes/tests/examples.hpp"
#include "common/testing/fakes/tests/fixture.hpp"

namespace lockstep {

namespace {

class Misuse : public FakeTest {};

TEST_F(Misuse, OfMemoryIsFound) {
  int *const x = allocate<int>(10), *const y = allocate<int>(10);
  int host[11] = {};
  EXPECT_EQ(cudaMemcpyAsync(x, host, sizeof host, cudaMemcpyHostToDevice, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(host, x + 5, 24, cudaMemcpyDeviceToHost, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(x, host, 4, cudaMemcpyDeviceToDevice, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(y + 9, 0, 5, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeAsync(host, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeAsync(x + 1, nullptr), cudaErrorInvalidValue);
  free(x);
  EXPECT_EQ(cudaFreeAsync(x, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(y, x, 4, cudaMemcpyDeviceToDevice, nullptr), cudaErrorInvalidValue);
  const Found found = fake::finish();
  const Found expected = {"a copy writes 44 bytes at offset 0 of an allocation of 40",
                          "a copy reads 24 bytes at offset 20 of an allocation of 40",
                          "a copy goes between other kinds of memory than it says",
                          "a fill writes 5 bytes at offset 36 of an allocation of 40",
                          "memory was freed that was not allocated, or not in this way",
                          "memory was freed that was not allocated, or not in this way",
                          "40 bytes were freed twice",
                          "a copy reads 40 bytes that were freed",
                          "40 bytes of GPU memory were never freed"};
  EXPECT_EQ(found, expected);
  start({});
}

TEST_F(Misuse, WhatIsWrittenAfterTheFreeIsFound) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    start({.seed = seed});
    const cudaStream_t a = stream(), b = stream();
    float *const x = upload(std::vector<float>(100), a), *const y = allocate<float>(100, a);
    EXPECT_EQ(cudaStreamSynchronize(a), cudaSuccess);
    bool may_run = false;
    fake::enqueue_attempt(b, [&] { return may_run; });
    examples::add_one(x, y, 100, 0, b);
    EXPECT_EQ(cudaFreeAsync(y, a), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(a), cudaSuccess);
    may_run = true;
    EXPECT_EQ(cudaFreeAsync(x, b), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(a), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(b), cudaSuccess);
    EXPECT_EQ(fake::finish(), Found{"something wrote to 400 bytes after they were freed"});
  }
}

TEST_F(Misuse, StreamsAndEventsThatDoNotExistAreFound) {
  const cudaStream_t gone = stream();
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaEventCreate(&event), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(gone), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(gone), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecord(event, nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamWaitEvent(nullptr, event, 0), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(fake::take_problems(),
            (Found{"a stream was used that does not exist", "an event was recorded that does not exist",
                   "a stream waits for an event that does not exist"}));
}

TEST_F(Misuse, WhatIsLeftIsFound) {
  allocate<float>(3);
  stream();
  cudaEvent_t event = nullptr;
  EXPECT_EQ(cudaEventCreate(&event), cudaSuccess);
  EXPECT_EQ(fake::finish(), (Found{"12 bytes of GPU memory were never freed", "1 streams were never destroyed",
                                   "1 events were never destroyed"}));
  start({});
}

}  // namespace

}  // namespace lockstep
