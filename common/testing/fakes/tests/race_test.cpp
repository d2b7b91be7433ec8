// ThreadSanitizer on the fake GPU: reports each missing order, with any seed, and nothing else.
#include <cerrno>
#include <cstring>

#include "common/testing/fakes/tests/examples.hpp"
#include "common/testing/fakes/tests/fixture.hpp"

namespace {

int reports = 0;

}  // namespace

// Called by ThreadSanitizer, which reads its options from here. The names are its own.
// NOLINTBEGIN(bugprone-reserved-identifier)
extern "C" {
__attribute__((no_sanitize("thread"))) void __tsan_on_report(void*) { ++reports; }
const char* __tsan_default_options() {
  return "exitcode=0:symbolize=0:log_path=/dev/null:suppress_equal_stacks=0:suppress_equal_addresses=0";
}
}
// NOLINTEND(bugprone-reserved-identifier)

namespace lockstep {

namespace {

constexpr int kCount = 100;

class Race : public FakeTest {
 protected:
  /// Number of races that ThreadSanitizer finds in `body`, which is given two streams; the maximum over several seeds.
  template <typename Body>
  int most_races(Body body, bool check_threads = false) {
    return races(body, check_threads).most;
  }
  template <typename Body>
  int fewest_races(Body body, bool check_threads = false) {
    return races(body, check_threads).fewest;
  }

 private:
  struct Races {
    int fewest, most;
  };
  template <typename Body>
  Races races(Body body, bool check_threads) {
    Races found{1 << 20, 0};
    for (std::uint64_t seed = 1; seed <= (check_threads ? 1 : 5); ++seed) {
      start({.seed = seed, .check_threads = check_threads});
      const cudaStream_t a = stream(), b = stream();
      reports = 0;
      body(a, b);
      EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
      found = {std::min(found.fewest, reports), std::max(found.most, reports)};
      cudaStreamDestroy(a);
      cudaStreamDestroy(b);
      EXPECT_EQ(fake::finish(), Found{});
    }
    return found;
  }
};

/// Makes b wait for the work that a has been given so far.
void order_after(cudaStream_t b, cudaStream_t a) {
  cudaEvent_t event = nullptr;
  cudaEventCreate(&event);
  cudaEventRecord(event, a);
  cudaStreamWaitEvent(b, event, 0);
  cudaEventDestroy(event);
}

void free_on(cudaStream_t stream, std::initializer_list<float*> all) {
  for (float* one : all) cudaFreeAsync(one, stream);
}

TEST_F(Race, NoneWhereStreamsWaitForEvents) {
  const auto body = [&](cudaStream_t a, cudaStream_t b) {
    float *const x = upload(std::vector<float>(kCount, 1.0f), a), *const y = allocate<float>(kCount, a);
    order_after(b, a);
    examples::add_one(x, y, kCount, 0, b);
    order_after(a, b);
    examples::add_one(y, x, kCount, 0, a);
    EXPECT_EQ(download(x, kCount, a), std::vector<float>(kCount, 3.0f));
    free_on(a, {x, y});
  };
  EXPECT_EQ(most_races(body), 0);
}

TEST_F(Race, AKernelThatDoesNotWaitForItsInput) {
  const auto body = [&](cudaStream_t a, cudaStream_t b) {
    float *const x = allocate<float>(kCount, a), *const y = allocate<float>(kCount, a);
    order_after(b, a);
    examples::add_one(y, x, kCount, 0, a);
    examples::add_one(x, y, kCount, 0, b);
    order_after(a, b);
    free_on(a, {x, y});
  };
  EXPECT_GT(fewest_races(body), 0);
}

TEST_F(Race, ACopyThatDoesNotWaitForItsSource) {
  const auto body = [&](cudaStream_t a, cudaStream_t b) {
    float *const x = allocate<float>(kCount, a), *const y = allocate<float>(kCount, a);
    order_after(b, a);
    examples::add_one(y, x, kCount, 0, a);
    cudaMemcpyAsync(y, x, kCount * sizeof(float), cudaMemcpyDeviceToDevice, b);
    order_after(a, b);
    free_on(a, {x, y});
  };
  EXPECT_GT(fewest_races(body), 0);
}

TEST_F(Race, AnEventRecordedTooEarly) {
  const auto body = [&](cudaStream_t a, cudaStream_t b) {
    float *const x = allocate<float>(kCount, a), *const y = allocate<float>(kCount, a);
    order_after(b, a);
    cudaEvent_t event = nullptr;
    cudaEventCreate(&event);
    cudaEventRecord(event, a);
    examples::add_one(y, x, kCount, 0, a);
    cudaStreamWaitEvent(b, event, 0);
    examples::add_one(x, y, kCount, 0, b);
    cudaEventDestroy(event);
    order_after(a, b);
    free_on(a, {x, y});
  };
  EXPECT_GT(fewest_races(body), 0);
}

TEST_F(Race, MemoryFreedWhileAnotherStreamUsesIt) {
  const auto body = [&](cudaStream_t a, cudaStream_t b) {
    float *const x = upload(std::vector<float>(kCount), a), *const y = allocate<float>(kCount, a);
    order_after(b, a);
    examples::add_one(x, y, kCount, 0, b);
    free_on(a, {x});
    free_on(b, {y});
  };
  EXPECT_GT(fewest_races(body), 0);
}

TEST_F(Race, MemoryUsedBeforeItsAllocation) {
  const auto body = [&](cudaStream_t a, cudaStream_t b) {
    float* const x = allocate<float>(kCount, a);
    cudaMemsetAsync(x, 0, kCount * sizeof(float), b);
    order_after(a, b);
    free_on(a, {x});
  };
  EXPECT_GT(fewest_races(body), 0);
}

TEST_F(Race, TheHostReadsPinnedMemoryTooEarly) {
  void* pinned = nullptr;
  const auto body = [&](cudaStream_t a, bool waits) {
    cudaMallocHost(&pinned, kCount * sizeof(float));
    float* const x = upload(std::vector<float>(kCount, 2.0f), a);
    cudaMemcpyAsync(pinned, x, kCount * sizeof(float), cudaMemcpyDeviceToHost, a);
    if (waits) cudaStreamSynchronize(a);
    float sum = 0;
    for (int i = 0; i < kCount; ++i) sum += static_cast<volatile float*>(pinned)[i];
    if (waits) {
      EXPECT_EQ(sum, 2.0f * kCount);
    }
    free_on(a, {x});
    cudaFreeHost(pinned);
  };
  EXPECT_EQ(most_races([&](cudaStream_t a, cudaStream_t) { body(a, true); }), 0);
  EXPECT_GT(fewest_races([&](cudaStream_t a, cudaStream_t) { body(a, false); }), 0);
}

TEST_F(Race, TheHostChangesPinnedMemoryTooEarly) {
  void* pinned = nullptr;
  const auto body = [&](cudaStream_t a, cudaStream_t) {
    cudaMallocHost(&pinned, kCount * sizeof(float));
    float* const x = allocate<float>(kCount, a);
    cudaMemcpyAsync(x, pinned, kCount * sizeof(float), cudaMemcpyHostToDevice, a);
    for (int i = 0; i < kCount; ++i) static_cast<volatile float*>(pinned)[i] = 1;
    free_on(a, {x});
    cudaFreeHost(pinned);
  };
  EXPECT_GT(fewest_races(body), 0);
}

TEST_F(Race, NoneBetweenThreadsThatMeetInShufflesAndBarriers) {
  const auto body = [&](cudaStream_t stream, cudaStream_t) {
    float *const x = upload(std::vector<float>(kCount, 1.0f), stream), *const sums = allocate<float>(4, stream);
    float* const y = allocate<float>(kCount, stream);
    examples::block_sums(x, kCount, sums, 4, stream);
    examples::reverse(x, y, kCount, stream);
    free_on(stream, {x, y, sums});
  };
  EXPECT_EQ(most_races(body, /*check_threads=*/true), 0);
  EXPECT_EQ(most_races([&](cudaStream_t a, cudaStream_t b) {  // each has its own shared memory
              body(a, b);
              body(b, a);
            }),
            0);
}

TEST_F(Race, NoneOnErrnoWhichTheHostsThreadHasOnce) {
  const auto body = [&](cudaStream_t a, cudaStream_t b) {
    errno = 0;
    for (const cudaStream_t stream : {a, b}) fake::enqueue(stream, [] { errno = EAGAIN; });
    cudaDeviceSynchronize();
    errno = 0;
  };
  EXPECT_EQ(most_races(body), 0);
}

TEST_F(Race, AMissingBarrier) {
  const auto body = [&](cudaStream_t a, cudaStream_t) {
    float* const y = allocate<float>(256, a);
    examples::missing_barrier(y, a);
    free_on(a, {y});
  };
  EXPECT_GT(fewest_races(body, /*check_threads=*/true), 0);
}

}  // namespace

}  // namespace lockstep
