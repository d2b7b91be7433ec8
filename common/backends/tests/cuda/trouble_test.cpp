// Messages when a GPU lacks something or hangs; the fake GPU can be made to do either.
#include <chrono>
#include <cmath>
#include <thread>

#include "common/backends/cuda/world.hpp"
#include "common/backends/tests/support.hpp"
#include "common/runtime/machine/operation.hpp"
#include "common/testing/fakes/tests/spin.hpp"

namespace lockstep {
namespace {

using namespace backend_tests;

void expect_words(const std::string& text, std::initializer_list<const char*> words) {
  for (const char* word : words) EXPECT_NE(text.find(word), std::string::npos) << word << " in\n" << text;
}

/// Spins on the stream of a rank's queue.
void spin_on(const Spin& spin, Rank me, const Slice& x, Location where = Location::current()) {
  const cudaStream_t stream = static_cast<cuda::CudaRank&>(me.backend()).queue(me.queue()).stream.get();
  const Operation operation{"spin", 0, 0, x.dtype(), {}, {&x}};
  me.backend().compute({me.group(), me.queue()}, operation, Kernel([&](Device&) { spin.on(stream); }), where);
}

constexpr double kShortTimeout = 0.2;  // seconds

RunOptions hasty(int ranks, double timeout_seconds = kShortTimeout) {
  RunOptions options = options_for(ranks);
  options.timeout_seconds = timeout_seconds;
  return options;
}

TEST(Hang, OfAKernelIsExplainedAtTheNextDoor) {
  const Spin spin;
  const Outcome outcome = run(hasty(3), [&](Rank me) {
    Slice x = filled(me, 1, 1);
    if (me.rank() == 1) {
      (void)read(me, x, 0);  // all earlier work is done
      spin_on(spin, me, x);
      scale(me, x, 2);
    }
    (void)read(me, x, 0);
  });
  EXPECT_EQ(to_string(outcome.verdict), "TIMEOUT");
  expect_words(outcome.message, {"TIMEOUT: the GPU has done nothing for 0.2 s", "rank 0: has nothing on the GPU",
                                 "rank 1: queue \"main\" waits at trouble_test.cpp", "for the GPU",
                                 "is not done with the last 2 operations, from spin at trouble_test.cpp"});
}

TEST(Hang, OfAnotherQueueAndWhoWaitsForIt) {
  const Spin spin;
  const Outcome outcome = run(hasty(2), [&](Rank me) {
    Rank comm = me.stream("comm");
    Slice x = filled(me, 1, 1);
    const Ticket ticket = me.run(comm, [&spin, x](Rank r) {
      if (r.rank() == 0) spin_on(spin, r, x);
      Slice in = r.allocate(1, DType::f32, Category::buffer);
      r.exchange({send(1 - r.rank(), x), receive(1 - r.rank(), in)});
    });
    me.wait(ticket);
    (void)read(me, x, 0);
  });
  EXPECT_EQ(to_string(outcome.verdict), "TIMEOUT");
  expect_words(outcome.message, {"queue \"comm\": the GPU is not done with the last operation, from spin",
                                 "rank 0: queue \"main\"", "rank 1: queue \"main\" waits at trouble_test.cpp"});
}

TEST(Hang, IsNoticedWhereNobodyAsksAnyMore) {
  const Spin spin;
  const Outcome outcome = run(hasty(1), [&](Rank me) { spin_on(spin, me, filled(me, 8, 1)); });
  EXPECT_EQ(to_string(outcome.verdict), "TIMEOUT");
  expect_words(outcome.message, {"the GPU is not done with the last 2 operations, from fill at"});
}

TEST(Hang, IsNotWhatHasFailed) {
  const Spin spin;
  const Outcome outcome = run(hasty(2), [&](Rank me) {
    spin_on(spin, me, filled(me, 8, 1));
    if (me.rank() == 1) throw std::runtime_error("rank 1 has had enough");
  });
  EXPECT_EQ(to_string(outcome.verdict), "FAIL");
  expect_words(outcome.message, {"rank 1 has had enough"});
}

/// A GPU that hung does not delay the next run.
TEST(Hang, IsOfOneRun) {
  {
    const Spin spin;
    EXPECT_EQ(run(hasty(1), [&](Rank me) { spin_on(spin, me, filled(me, 8, 1)); }).verdict, Verdict::timeout);
  }
  const Outcome outcome = run(hasty(2), [](Rank me) { (void)read(me, filled(me, 1, 1), 0); });
  EXPECT_TRUE(outcome.passed()) << outcome.message;
}

// Memory freed in stream order -----------------------------------------------------------------------------------

/// Changes the properties of the GPU during its lifetime.
class Other {
 public:
  explicit Other(const fake::Settings& settings) { fake::configure(settings); }
  ~Other() { fake::configure(fake::settings_of_environment()); }
};

/// One rank allocates 800,000 of 2^20 bytes, frees them after a kernel, and allocates as many again.
Outcome wants_what_is_on_its_way(const Spin& spin, double timeout_seconds) {
  return run(hasty(2, timeout_seconds), [&](Rank me) {
    if (me.rank() == 1) return;
    Slice most = filled(me, 200'000, 1);
    spin_on(spin, me, most);
    most = {};
    most = me.allocate(200'000, DType::f32, Category::gradient);
    fill(me, most, 2);
    EXPECT_EQ(read(me, most.cut(199'999, 1), 0), 2);
  });
}

TEST(Hang, OfWhatWouldFreeMemoryNamesWhoWantsIt) {
  const Other gpu({.memory_bytes = 1 << 20});
  const Spin spin;
  const Outcome outcome = wants_what_is_on_its_way(spin, kShortTimeout);
  EXPECT_EQ(to_string(outcome.verdict), "TIMEOUT");
  expect_words(outcome.message, {"TIMEOUT: the GPU has done nothing for 0.2 s", "is not done with", "from fill at",
                                 "The GPU is full: at trouble_test.cpp", "800000 bytes for gradients wait"});
}

TEST(Memory, ComesFromWhatTheGpuFreesInTime) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    const Other gpu({.seed = seed, .memory_bytes = 1 << 20});
    const Spin spin;
    std::thread lets_go([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      spin.end();
    });
    const Outcome outcome = wants_what_is_on_its_way(spin, 10);  // the thread may be late on a busy computer
    lets_go.join();
    EXPECT_TRUE(outcome.passed()) << outcome.message;
  }
}

// Bad input -----------------------------------------------------------------------------------------------------------

std::string complaint(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no complaint";
}

TEST(Trouble, ADriverOlderThanTheToolkit) {
  const Other gpu({.driver_version = 12040, .runtime_version = 13000});
  const std::string text = complaint([] { run(hasty(1), [](Rank) {}); });
  expect_words(text, {"driver supports CUDA up to 12.4", "built with CUDA 13.0", "update the driver"});
}

TEST(Trouble, NoDriverAndNoGpu) {
  int argc = 0;
  char** argv = nullptr;
  {
    const Other gpu({.driver_version = 0});
    expect_words(complaint([&] { Session(argc, argv); }), {"no CUDA device", "no NVIDIA driver is installed"});
  }
  const Other gpu({.devices = 0});
  expect_words(complaint([&] { Session(argc, argv); }), {"no CUDA device"});
}

TEST(Trouble, AnOldGpu) {
  int argc = 0;
  char** argv = nullptr;
  const Other gpu({.major = 7, .minor = 5});
  expect_words(complaint([&] { Session(argc, argv); }), {"compute capability 7.5", "8.0 or later"});
}

TEST(Trouble, MemoryThatRunsOutIsNamedWithItsCategory) {
  const Other gpu({.memory_bytes = 1 << 20});
  for (const auto& [category, name] : {std::pair{Category::parameter, "parameters"},
                                       {Category::gradient, "gradients"},
                                       {Category::optimizer, "optimizer"},
                                       {Category::activation, "activations"},
                                       {Category::buffer, "buffers"}}) {
    const Outcome outcome = run(hasty(2), [category = category](Rank me) {
      Slice most = me.allocate(200'000, DType::f32, Category::buffer);  // 800,000 bytes
      if (me.rank() == 1) (void)me.allocate(150'000, DType::bf16, category);
    });
    EXPECT_EQ(to_string(outcome.verdict), "FAIL");
    EXPECT_EQ(outcome.failed_rank, 1);
    expect_words(outcome.message, {"rank 1: out of memory: 300000 bytes for ", name, " of 1048576 bytes are free"});
  }
}

TEST(Trouble, RanksThatDoNotFitOneGpu) {
  for (int ranks : {0, -1, 257})
    expect_words(complaint([&] { run(hasty(ranks), [](Rank) {}); }),
                 {std::to_string(ranks).c_str(), "ranks: the cuda backend runs 1 to 256 on one GPU"});
}

TEST(Trouble, ADtypeThatAnOperationDoesNotTake) {
  for (DType dtype : {DType::i32, DType::i8}) {
    const Outcome outcome = run(hasty(2), [dtype](Rank me) {
      Slice x = me.allocate(4, dtype, Category::buffer);
      if (me.rank() == 1) gelu(me, x, x);
    });
    EXPECT_EQ(to_string(outcome.verdict), "USAGE");
    EXPECT_EQ(outcome.failed_rank, 1);
    expect_words(outcome.message, {"gelu", dtype == DType::i32 ? "int32" : "int8"});
  }
}

/// Computes dqkv of causal attention with heads of 128 in bf16.
Values gradients_of_long_heads() {
  constexpr AttentionShape shape{.batch = 1, .positions = 70, .heads = 2, .head_size = 128};
  constexpr std::size_t size = 70 * 2 * 128;
  const Outcome outcome = run(options_for(1), [shape](Rank me) -> Values {
    const auto normal = [&](std::size_t n, std::uint64_t tensor) {
      const Slice x = me.allocate(n, DType::bf16, Category::buffer);
      random_normal(me, x, {.seed = 3, .tensor = tensor}, 0, 1);
      return x;
    };
    const Slice qkv = normal(3 * size, 1), dy = normal(size, 2), y = normal(size, 3), dqkv = normal(3 * size, 4);
    const Slice statistics = me.allocate(140, DType::f32, Category::buffer);
    attention(me, y, statistics, qkv, shape);
    attention_backward(me, dqkv, dy, y, qkv, statistics, shape);
    const std::vector<float> values = to_host(me, dqkv);
    return {values.begin(), values.end()};
  });
  EXPECT_TRUE(outcome.passed()) << outcome.message;
  return outcome.passed() ? outcome.values[0] : Values{};
}

// Tiles of long heads do not fit in shared memory there, so plain loops replace tensor cores.
TEST(Trouble, AGpuWithLittleSharedMemory) {
  const Values expected = gradients_of_long_heads();
  const Other gpu({.major = 8, .minor = 9, .most_shared_bytes = 99 * 1024});
  const Values values = gradients_of_long_heads();
  ASSERT_EQ(values.size(), expected.size());
  ASSERT_FALSE(values.empty());
  // Both implementations round probabilities or gradients of up to about 8 to bf16, some of them twice.
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], expected[i], 8 * 3 * 0x1p-8) << i;
}

/// Loss and gradients of rows of logits that fit an H100's shared memory twice, and of longer ones.
Values losses_of_long_rows(std::size_t vocabulary) {
  const Outcome outcome = run(options_for(1), [&](Rank me) -> Values {
    constexpr std::size_t kRows = 3;
    Slice logits = me.allocate(kRows * vocabulary, DType::bf16, kBuffer), loss = filled(me, 1, 0);
    Slice targets = me.allocate(kRows, DType::i32, kBuffer);
    random_normal(me, logits, {.seed = 2}, 0, 3);
    upload(me, targets, std::vector<std::int32_t>{7, -1, static_cast<std::int32_t>(vocabulary) - 1});
    cross_entropy(me, loss, logits, targets, 0.5f);
    std::vector<float> values = to_host(me, logits);
    values.push_back(read(me, loss, 0));
    return {values.begin(), values.end()};
  });
  EXPECT_TRUE(outcome.passed()) << outcome.message;
  return outcome.passed() ? outcome.values[0] : Values{};
}

// There, a row is read again from memory; the sums are the same, in the same order.
TEST(Trouble, AGpuWithLittleSharedMemoryGivesTheSameLoss) {
  for (const std::size_t vocabulary : {24, 1000, 50304}) {
    const Values expected = losses_of_long_rows(vocabulary);
    ASSERT_FALSE(expected.empty());
    double sum = 0;  // each row's gradients sum to 0 up to rounding
    for (std::size_t i = 0; i + 1 < expected.size(); ++i) sum += expected[i];
    EXPECT_NEAR(sum, 0, 0x1p-6);
    EXPECT_GT(expected.back(), 0.9 * std::log(static_cast<double>(vocabulary)));
    const Other gpu({.most_shared_bytes = 15});
    EXPECT_TRUE(losses_of_long_rows(vocabulary) == expected) << vocabulary;
  }
}

}  // namespace
}  // namespace lockstep
