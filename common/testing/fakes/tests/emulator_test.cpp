// Kernels on the fake GPU: correct ones give the expected results, and mistakes are found.
#include <algorithm>
#include <cmath>

#include "common/testing/fakes/tests/examples.hpp"
#include "common/testing/fakes/tests/fixture.hpp"

namespace lockstep {

namespace {

class Emulator : public FakeTest {
 protected:
  /// Returns the problem found in a kernel on 1,024 floats.
  std::string problem_of(void (*launch)(float*, cudaStream_t)) {
    float* const y = allocate<float>(1024);
    launch(y, nullptr);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
    EXPECT_EQ(cudaFreeAsync(y, nullptr), cudaErrorLaunchFailure);  // like every call on a GPU after a fault
    const Found found = fake::take_problems();
    EXPECT_EQ(found.size(), 1u);
    start({});
    return found.empty() ? "" : found[0];
  }
};

void expect_in(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
}

TEST_F(Emulator, ABlockAddsWithShufflesAndSharedMemory) {
  constexpr int kCount = 1000, kBlocks = 4;
  std::vector<float> values(kCount);
  float all = 0;
  for (int i = 0; i < kCount; ++i) all += values[i] = static_cast<float>(i % 17);
  float *const x = upload(values), *const sums = allocate<float>(kBlocks);
  examples::block_sums(x, kCount, sums, kBlocks, nullptr);
  float found = 0;
  for (const float sum : download(sums, kBlocks)) found += sum;
  EXPECT_EQ(found, all);
  free(x, sums);
}

TEST_F(Emulator, AWarpMultipliesAsTensorCoresDo) {
  std::vector<__nv_bfloat16> a(16 * 16), b(16 * 8);
  for (int i = 0; i < 16 * 16; ++i) a[i] = __float2bfloat16_rn(static_cast<float>(i % 13 - 6));
  for (int i = 0; i < 16 * 8; ++i) b[i] = __float2bfloat16_rn(static_cast<float>(i % 11 - 5));
  __nv_bfloat16 *const a_gpu = upload(a), *const b_gpu = upload(b);
  float* const c_gpu = allocate<float>(16 * 8);
  examples::tiny_product(a_gpu, b_gpu, c_gpu, nullptr);
  const std::vector<float> c = download(c_gpu, 16 * 8);
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      float sum = 0;
      for (int k = 0; k < 16; ++k) sum += __bfloat162float(a[row * 16 + k]) * __bfloat162float(b[k * 8 + column]);
      EXPECT_EQ(c[row * 8 + column], sum) << row << ' ' << column;
    }
  }
  free(a_gpu, b_gpu, c_gpu);
}

TEST_F(Emulator, DynamicSharedMemory) {
  constexpr int kCount = 1000;
  std::vector<float> x(kCount);
  for (int i = 0; i < kCount; ++i) x[i] = static_cast<float>(i);
  float *const x_gpu = upload(x), *const y_gpu = allocate<float>(kCount);
  examples::reverse(x_gpu, y_gpu, kCount, nullptr);
  const std::vector<float> y = download(y_gpu, kCount);
  for (int i = 0; i < kCount; ++i) EXPECT_EQ(y[i], static_cast<float>(kCount - 1 - i));
  free(x_gpu, y_gpu);
}

TEST_F(Emulator, Atomics) {
  int* const counts = upload(std::vector<int>(4));
  examples::count_modulo_4(counts, 1001, nullptr);
  EXPECT_EQ(download(counts, 4), (std::vector<int>{251, 250, 250, 250}));
  free(counts);
}

TEST_F(Emulator, ABarrierThatSomeThreadsNeverReach) {
  expect_in(problem_of(examples::barrier_in_half),
            {"barrier_in_half_kernel", "block (0, 0, 0)", "thread (0, 0, 0)", "forever in __syncthreads",
             "examples.cu:", "thread (32, 0, 0) and 223 others have returned"});
}

TEST_F(Emulator, AShuffleFromLanesThatHaveReturned) {
  expect_in(problem_of(examples::shuffle_without_lanes),
            {"shuffle_without_lanes_kernel", "__shfl_xor_sync", "examples.cu:", "0xffffffff", "lane 1 has returned"});
}

TEST_F(Emulator, ThreadsThatMeetAtDifferentBarriers) {
  expect_in(problem_of(examples::two_barriers),
            {"two_barriers_kernel", "__syncthreads", "while thread (0, 0, 0) is in"});
}

TEST_F(Emulator, WritesBeyondDynamicSharedMemory) {
  expect_in(problem_of(examples::past_shared),
            {"past_shared_kernel", "beyond its 1020 bytes of dynamic shared memory"});
}

TEST_F(Emulator, AVectorAccessToAnAddressThatIsNotAligned) {
  for (int turn = 0; turn < 2; ++turn)  // the emulator is usable again
    expect_in(problem_of(examples::misaligned_load),
              {"misaligned_load_kernel", "thread (5, 0, 0)", "examples.cu:", "float4", "multiple of 4, not of 16"});
}

TEST_F(Emulator, AnAsynchronousCopyFromAnAddressThatIsNotAligned) {
  expect_in(problem_of(examples::misaligned_copy),
            {"misaligned_copy_kernel", "examples.cu:", "cp_async_16 from an address that is not a multiple of 16"});
}

TEST_F(Emulator, BlocksRunInAnyOrder) {
  std::vector<float> last;
  float* const y = allocate<float>(1);
  for (int turn = 0; turn < 10; ++turn) {
    examples::last_block(y, nullptr);
    last.push_back(download(y, 1)[0]);
  }
  free(y);
  std::sort(last.begin(), last.end());
  EXPECT_GT(std::unique(last.begin(), last.end()) - last.begin(), 5);
}

TEST_F(Emulator, ShortFunctionsAreNotExact) {
  constexpr int kCount = 512;
  std::vector<float> x(kCount);
  for (int i = 0; i < kCount; ++i) x[i] = static_cast<float>(i) * 0.37f - 95;
  x[0] = 0;
  x[1] = 0x1p127f;
  float *const x_gpu = upload(x), *const e_gpu = allocate<float>(kCount), *const r_gpu = allocate<float>(kCount);
  examples::short_functions(x_gpu, e_gpu, r_gpu, kCount, nullptr);
  const std::vector<float> e = download(e_gpu, kCount), r = download(r_gpu, kCount);
  int wrong = 0;
  for (int i = 2; i < kCount; ++i) {
    const float exact = std::exp(x[i]), beside = std::nextafter(exact, 2 * exact);
    if (!std::isnormal(exact)) continue;
    wrong += e[i] != exact;
    EXPECT_LE(std::fabs(e[i] - exact), 2 * (beside - exact)) << x[i];
  }
  EXPECT_GT(wrong, kCount / 2);
  EXPECT_EQ(e[0], 1);
  EXPECT_EQ(e[20], 0) << "a subnormal result";
  EXPECT_EQ(r[1], 0) << "of what is beyond 2^126";
  free(x_gpu, e_gpu, r_gpu);
}

TEST_F(Emulator, SharedMemoryIsNotANumberUntilItIsWritten) {
  float* const y = allocate<float>(256);
  for (int turn = 0; turn < 2; ++turn) {  // values written by an earlier block do not persist, either
    examples::unwritten_shared(y, nullptr);
    const std::vector<float> values = download(y, 256);
    for (int i = 0; i < 256; ++i) EXPECT_EQ(std::isnan(values[i]), i == 3) << i;
    examples::missing_barrier(y, nullptr);
  }
  free(y);
}

TEST_F(Emulator, AMissingBarrierGivesWrongResults) {
  float* const y = allocate<float>(256);
  examples::missing_barrier(y, nullptr);
  int wrong = 0;
  for (const float value : download(y, 256)) wrong += value != 1;
  EXPECT_GT(wrong, 0);
  free(y);
}

TEST_F(Emulator, WritesBeyondAnAllocation) {
  float *const x = upload(std::vector<float>(100)), *const y = allocate<float>(100);
  examples::add_one(x, y, 100, 1, nullptr);
  free(x, y);
  EXPECT_EQ(fake::finish(), Found{"something wrote beyond the end of 400 bytes of GPU memory"});
}

TEST_F(Emulator, LaunchesThatAGpuRefuses) {
  float* const y = allocate<float>(2048);
  EXPECT_THROW(examples::reverse(y, y, 1025, nullptr), std::exception);  // threads per block
  free(y);
}

}  // namespace

}  // namespace lockstep
