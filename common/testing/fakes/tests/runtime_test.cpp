// The fake GPU as CUDA's runtime: its guarantees and its errors.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "common/testing/fakes/tests/examples.hpp"
#include "common/testing/fakes/tests/fixture.hpp"

namespace lockstep {

namespace {

constexpr int kSeeds = 20;

class Runtime : public FakeTest {};

TEST_F(Runtime, NoDevice) {
  start({.devices = 0});
  int count = -1;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
  EXPECT_EQ(count, -1);
  void* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, 4), cudaErrorNoDevice);
}

TEST_F(Runtime, NoDriverAndAnOldDriver) {
  for (const int driver : {0, 11040}) {
    start({.driver_version = driver, .runtime_version = 12080});
    int count = -1, version = -1;
    EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
    EXPECT_EQ(cudaDriverGetVersion(&version), cudaSuccess);
    EXPECT_EQ(version, driver);
    EXPECT_EQ(cudaRuntimeGetVersion(&version), cudaSuccess);
    EXPECT_EQ(version, 12080);
  }
}

TEST_F(Runtime, SeveralDevices) {
  start({.devices = 3});
  int count = 0, device = -1;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 3);
  EXPECT_EQ(cudaSetDevice(3), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(2), cudaSuccess);
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 2);
  const cudaStream_t there = stream();
  int* const x = allocate<int>(1, there);
  cudaPointerAttributes attributes{};
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, x), cudaSuccess);
  EXPECT_EQ(attributes.device, 2);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(cudaFreeAsync(x, there), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(there), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
}

TEST_F(Runtime, OutOfMemoryUntilTheFreeHasRun) {
  start({.seed = 5, .memory_bytes = 1000});
  char* const x = allocate<char>(900);
  void* more = nullptr;
  EXPECT_EQ(cudaMallocAsync(&more, 101, nullptr), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  free(x);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  std::size_t free_bytes = 0, total_bytes = 0;
  EXPECT_EQ(cudaMemGetInfo(&free_bytes, &total_bytes), cudaSuccess);
  EXPECT_EQ(free_bytes, 1000u);
  free(allocate<char>(1000));
}

TEST_F(Runtime, WhatIsAllocatedIsNotANumber) {
  float* const x = allocate<float>(64);
  for (const float value : download(x, 64)) EXPECT_TRUE(std::isnan(value));
  free(x);
}

/// Computes y = x + 1 on b, where x comes from a; b waits for it if `waits`. Returns true if y is correct.
bool right(cudaStream_t a, cudaStream_t b, bool waits) {
  constexpr int kCount = 10;
  void *x = nullptr, *y = nullptr;
  cudaMallocAsync(&x, kCount * sizeof(float), a);
  cudaMallocAsync(&y, kCount * sizeof(float), b);
  const std::vector<float> ones(kCount, 1.0f);
  cudaMemcpyAsync(x, ones.data(), kCount * sizeof(float), cudaMemcpyHostToDevice, a);
  cudaEvent_t event = nullptr;
  cudaEventCreate(&event);
  cudaEventRecord(event, a);
  if (waits) cudaStreamWaitEvent(b, event, 0);
  examples::add_one(static_cast<float*>(x), static_cast<float*>(y), kCount, 0, b);
  std::vector<float> result(kCount);
  cudaMemcpyAsync(result.data(), y, kCount * sizeof(float), cudaMemcpyDeviceToHost, b);
  cudaEventDestroy(event);
  cudaDeviceSynchronize();
  cudaFreeAsync(x, b);
  cudaFreeAsync(y, b);
  return result == std::vector<float>(kCount, 2.0f);
}

TEST_F(Runtime, AForgottenWaitGivesWrongResultsWithManySeeds) {
  int right_with = 0, right_without = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    for (const bool waits : {true, false}) {
      start({.seed = seed});
      const cudaStream_t a = stream(), b = stream();
      (waits ? right_with : right_without) += right(a, b, waits);
      cudaStreamDestroy(a);
      cudaStreamDestroy(b);
      EXPECT_EQ(fake::finish(), Found{});
    }
  }
  EXPECT_EQ(right_with, kSeeds);
  EXPECT_LT(right_without, kSeeds / 2);
  EXPECT_GT(right_without, 0);  // otherwise the order would always be the same
}

TEST_F(Runtime, TheSameSeedGivesTheSameOrder) {
  const auto order = [&](std::uint64_t seed) {
    start({.seed = seed});
    std::vector<int> ran;
    std::vector<cudaStream_t> streams;
    for (int i = 0; i < 8; ++i) {
      streams.push_back(stream());
      for (int turn = 0; turn < 3; ++turn) fake::enqueue(streams[i], [&ran, i] { ran.push_back(i); });
    }
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    for (const cudaStream_t one : streams) cudaStreamDestroy(one);
    return ran;
  };
  int different = 0;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    EXPECT_EQ(order(seed), order(seed));
    EXPECT_EQ(order(seed).size(), 24u);
    different += order(seed) != order(seed + 1);
  }
  EXPECT_GT(different, kSeeds / 2);
}

TEST_F(Runtime, TheDefaultStreamWaitsForThoseThatBlockAndTheyForIt) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    start({.seed = seed});
    cudaStream_t blocking = nullptr;
    EXPECT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
    std::vector<int> ran;
    for (int i = 0; i < 6; ++i) fake::enqueue(i % 2 == 0 ? blocking : nullptr, [&ran, i] { ran.push_back(i); });
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(ran, (std::vector<int>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(cudaStreamDestroy(blocking), cudaSuccess);
  }
}

TEST_F(Runtime, EventsTellHowFarAStreamIs) {
  start({.seed = 4});
  const cudaStream_t a = stream();
  cudaEvent_t before = nullptr, behind = nullptr, untimed = nullptr;
  EXPECT_EQ(cudaEventCreate(&before), cudaSuccess);
  EXPECT_EQ(cudaEventCreate(&behind), cudaSuccess);
  EXPECT_EQ(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(before), cudaSuccess);  // not recorded yet
  EXPECT_EQ(cudaStreamWaitEvent(a, before, 0), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(before, a), cudaSuccess);
  bool may_run = false;
  fake::enqueue_attempt(a, [&] { return may_run; });
  EXPECT_EQ(cudaEventRecord(behind, a), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(untimed, a), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(before), cudaSuccess);
  for (int turn = 0; turn < 20; ++turn) EXPECT_EQ(cudaEventQuery(behind), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamQuery(a), cudaErrorNotReady);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, before, behind), cudaErrorNotReady);
  may_run = true;
  EXPECT_EQ(cudaStreamSynchronize(a), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(behind), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(a), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, before, behind), cudaSuccess);
  EXPECT_GE(milliseconds, 0);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, before, untimed), cudaErrorInvalidResourceHandle);
  for (const cudaEvent_t event : {before, behind, untimed}) EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(a), cudaSuccess);
}

TEST_F(Runtime, AWaitIsForTheRecordingOfThatMoment) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    start({.seed = seed});
    const cudaStream_t a = stream(), b = stream();
    cudaEvent_t event = nullptr;
    EXPECT_EQ(cudaEventCreate(&event), cudaSuccess);
    bool first = false, seen = false, may_run = false;
    fake::enqueue(a, [&] { first = true; });
    EXPECT_EQ(cudaEventRecord(event, a), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(b, event, 0), cudaSuccess);
    fake::enqueue_attempt(a, [&] { return may_run; });
    EXPECT_EQ(cudaEventRecord(event, a), cudaSuccess);  // later: b does not wait for it
    fake::enqueue(b, [&] { seen = first; });
    EXPECT_EQ(cudaStreamSynchronize(b), cudaSuccess);
    EXPECT_TRUE(seen);
    may_run = true;
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);  // destroying a stream does not wait for its tasks, which use
                                                      // may_run
    EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(a), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(b), cudaSuccess);
  }
}

TEST_F(Runtime, PageableMemoryIsReadAtOnceAndPinnedMemoryInOrder) {
  start({.seed = 5});
  void* pinned = nullptr;
  EXPECT_EQ(cudaMallocHost(&pinned, sizeof(int)), cudaSuccess);
  int pageable = 1;
  *static_cast<int*>(pinned) = 1;
  int* const x = allocate<int>(2);
  EXPECT_EQ(cudaMemcpyAsync(x, &pageable, sizeof(int), cudaMemcpyHostToDevice, nullptr), cudaSuccess);
  pageable = 2;
  EXPECT_EQ(download(x, 1), std::vector<int>{1});
  bool may_run = false;
  fake::enqueue_attempt(nullptr, [&] { return may_run; });
  EXPECT_EQ(cudaMemcpyAsync(x + 1, pinned, sizeof(int), cudaMemcpyHostToDevice, nullptr), cudaSuccess);
  *static_cast<int*>(pinned) = 2;
  may_run = true;
  EXPECT_EQ(download(x + 1, 1), std::vector<int>{2});
  free(x);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST_F(Runtime, HostFunctionsMayNotCallCuda) {
  cudaError_t status = cudaSuccess;
  EXPECT_EQ(
      cudaLaunchHostFunc(
          nullptr, [](void* result) { *static_cast<cudaError_t*>(result) = cudaStreamSynchronize(nullptr); }, &status),
      cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(status, cudaErrorNotPermitted);
}

/// Tests whether work of stream b runs while stream a spins and has more queued, for a number of hardware channels.
class Channels : public FakeTest {
 protected:
  bool goes_on(const char* channels) {
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", channels, 1);
    start({.seed = 3});
    unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
    const cudaStream_t a = stream(), b = stream();
    bool begun = false, ends = false, ran = false;
    fake::enqueue_attempt(a, [&] {
      begun = true;
      return ends;
    });
    while (!begun) (void)cudaStreamQuery(a);
    fake::enqueue(a, [] {});  // cannot begin before the first has ended
    fake::enqueue(b, [&] { ran = true; });
    for (int looks = 0; looks < 100; ++looks) (void)cudaStreamQuery(b);
    const bool result = ran;
    ends = true;
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_TRUE(ran);
    EXPECT_EQ(cudaStreamDestroy(a), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(b), cudaSuccess);
    return result;
  }
};

TEST_F(Channels, HoldUpWhatStandsBehindAStreamThatWaits) {
  EXPECT_FALSE(goes_on("1"));
  EXPECT_TRUE(goes_on("32"));
}

TEST_F(Runtime, AKernelNeedsAMultiprocessor) {
  start({.seed = 3, .multiprocessors = 40});
  const cudaStream_t a = stream(), b = stream(), c = stream();
  bool first_ends = false, second_begun = false;
  fake::enqueue_attempt(
      a, [&] { return first_ends; }, 30);
  while (fake::spinning_kernels() == 0) (void)cudaStreamQuery(a);
  float* const y = allocate<float>(256, c);  // while 10 are left
  EXPECT_EQ(cudaStreamSynchronize(c), cudaSuccess);
  examples::missing_barrier(y, c);
  EXPECT_EQ(cudaStreamSynchronize(c), cudaSuccess);
  const auto spins = [&] {
    second_begun = true;
    return true;
  };
  fake::enqueue_attempt(b, spins, 11);  // takes the 10, and waits for another
  for (int looks = 0; looks < 100; ++looks) (void)cudaStreamQuery(b);
  EXPECT_FALSE(second_begun);
  examples::missing_barrier(y, c);
  for (int looks = 0; looks < 100; ++looks) EXPECT_EQ(cudaStreamQuery(c), cudaErrorNotReady);
  (void)cudaGetLastError();
  first_ends = true;
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_TRUE(second_begun);
  free(y);
  for (const cudaStream_t one : {a, b, c}) EXPECT_EQ(cudaStreamDestroy(one), cudaSuccess);
}

TEST_F(Runtime, AFaultStaysUntilTheDeviceIsReset) {
  fake::break_device(cudaErrorIllegalAddress, "a test");
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(fake::take_problems(), Found{"a test"});
  start({});
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

}  // namespace

}  // namespace lockstep
