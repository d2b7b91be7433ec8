// The fake library of products: identical calls give identical bits, and nothing else is guaranteed about the order of
// sums, so a test that relies on more fails on the fake GPU.
#include "common/devices/cuda/gemm.hpp"

#include <random>

#include "common/testing/fakes/tests/fixture.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kRows = 8, kColumns = 32, kTerms = 96;

class LibraryOfProducts : public FakeTest {
 protected:
  struct Call {
    std::size_t m = kRows, n = kColumns, k = kTerms, shift = 0;  // shift: of the result, in floats
    std::uint64_t library = 1, streams = 1;
    bool another_stream = false;
  };

  /// Returns the first element of a (m × k) · b (k × n), whose terms are the same for every call with the same k.
  float first_element(Call call) {
    start({.seed = call.streams, .library_seed = call.library});
    std::mt19937 generator(1);
    std::normal_distribution<float> draw;
    std::vector<float> a(call.m * call.k), b(call.k * call.n);
    for (std::size_t s = 0; s < call.k; ++s) a[s] = draw(generator), b[s * call.n] = draw(generator);
    cudaStream_t const other = call.another_stream ? stream() : nullptr;
    float *const on_a = upload(a), *const on_b = upload(b);
    float* const room = allocate<float>(call.m * call.n + 8);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    cuda::Product product{call.m, call.n, call.k};
    product.a = on_a;
    product.b = on_b;
    product.c = room + call.shift;
    EXPECT_TRUE(cuda::ProductLibrary(other, false).run(product));
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const float result = download(room + call.shift, 1).front();
    free(on_a, on_b, room);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    if (other) {
      EXPECT_EQ(cudaStreamDestroy(other), cudaSuccess);
    }
    EXPECT_EQ(fake::finish(), Found{});
    return result;
  }
  /// Number of these calls whose first element differs from the plain one's.
  int others_than_plain(const std::vector<Call>& calls) {
    const float plain = first_element({});
    int others = 0;
    for (const Call& call : calls) {
      const float result = first_element(call);
      EXPECT_NEAR(result, plain, 1e-4);  // 96 terms of about 1, each rounded to 2⁻²⁴ of a partial sum of at most about
                                         // 10
      others += result != plain;
    }
    return others;
  }
};

TEST_F(LibraryOfProducts, IdenticalCallsGiveIdenticalBits) {
  EXPECT_EQ(others_than_plain({{}, {.another_stream = true}, {.shift = 4}, {.streams = 7}}), 0)
      << "again, on another stream, 16 bytes further, in another order of streams";
}

TEST_F(LibraryOfProducts, OtherShapesMayAddInAnotherOrder) {
  EXPECT_GE(others_than_plain({{.m = 4}, {.m = 2}, {.m = 1}, {.m = 16}}), 2) << "a shard of the rows";
  EXPECT_GE(others_than_plain({{.n = 16}, {.n = 8}, {.n = 4}, {.n = 64}}), 2) << "a shard of the columns";
}

TEST_F(LibraryOfProducts, OtherAlignmentsMayAddInAnotherOrder) {
  EXPECT_GE(others_than_plain({{.shift = 1}, {.shift = 2}}), 1);
}

TEST_F(LibraryOfProducts, OtherVersionsMayAddInAnotherOrder) {
  EXPECT_GE(others_than_plain({{.library = 2}, {.library = 3}, {.library = 4}, {.library = 5}}), 2);
}

}  // namespace
}  // namespace lockstep
