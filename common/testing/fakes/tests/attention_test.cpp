// Choice of attention: LOCKSTEP_ATTENTION, the GPU and the library decide, and each rejection records its reason.
#include <cstdlib>

#include "common/devices/cuda/attention_fused.hpp"
#include "common/devices/cuda/attention_origins.hpp"
#include "common/devices/cuda/slow_paths.hpp"
#include "common/devices/cuda/status.hpp"
#include "common/testing/fakes/tests/fixture.hpp"

namespace lockstep {
namespace {

enum { kNoCudnn = 0, kCudnn = 1, kRefusesAll = 2 };

class ChoiceOfAttention : public FakeTest {
 protected:
  static constexpr std::size_t kPositions = 6, kHeads = 2;

  void SetUp() override {
    FakeTest::SetUp();
    if (const char* before = std::getenv("LOCKSTEP_ATTENTION")) before_ = before;
    unsetenv("LOCKSTEP_ATTENTION");
    forget();
  }
  void TearDown() override {
    before_.empty() ? unsetenv("LOCKSTEP_ATTENTION") : setenv("LOCKSTEP_ATTENTION", before_.c_str(), 1);
    FakeTest::TearDown();
  }
  void forget() {
    cuda::attention_origins().forget();
    counted_ = cuda::slow_paths().attentions_not_by_library;
  }

  struct Case {
    const char* choice = nullptr;  // value of LOCKSTEP_ATTENTION; null: not set
    int cudnn = kCudnn;
    int major = 9;
    bool backward = false;
    DType dtype = DType::bf16;
    std::size_t head_size = 16, shift = 0;  // shift: of qkv, in bytes
    bool may_load = true;
  };
  /// True if the library was used.
  bool by_library(const Case& of) {
    forget();
    of.choice ? setenv("LOCKSTEP_ATTENTION", of.choice, 1) : unsetenv("LOCKSTEP_ATTENTION");
    fake::Settings settings;
    settings.cudnn = of.cudnn;
    settings.major = of.major;
    start(settings);
    cuda::AttentionCall call{{1, kPositions, kHeads, kHeads, of.head_size, of.dtype, of.backward}};
    const std::size_t bytes = kPositions * 3 * kHeads * of.head_size * bytes_of(of.dtype) + 16;
    char *const qkv = zeros(bytes), *const y = zeros(bytes), *const dy = zeros(bytes), *const dqkv = zeros(bytes),
                *const log_sums = zeros(kPositions * kHeads * sizeof(float));
    call.qkv = qkv + of.shift;
    call.y = y;
    call.log_sums = log_sums;
    if (of.backward) call.dy = dy, call.dqkv = dqkv;
    bool done = false;
    {
      kernels::Workspace workspace(nullptr);
      done = cuda::FusedAttention(nullptr, of.may_load).run({nullptr, workspace, nullptr}, call);
    }
    free(qkv, y, dy, dqkv, log_sums);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    return done;
  }
  /// Returns the reason, if the rejection was also counted as a slow path.
  std::string refusal() const {
    EXPECT_EQ(cuda::slow_paths().attentions_not_by_library - counted_, 1u);
    EXPECT_EQ(cuda::attention_origins().counts().by_ours, 1u);
    return cuda::attention_origins().counts().refusal;
  }
  bool counted() const {
    return cuda::attention_origins().counts().by_ours + cuda::slow_paths().attentions_not_by_library - counted_ > 0;
  }
  char* zeros(std::size_t bytes) { return upload(std::vector<char>(bytes)); }

 private:
  std::string before_;
  std::uint64_t counted_ = 0;
};

TEST_F(ChoiceOfAttention, AutoTakesItOnNewerGpus) {
  for (const char* choice : {static_cast<const char*>(nullptr), "auto"}) {
    EXPECT_TRUE(by_library({.choice = choice}));
    EXPECT_TRUE(by_library({.choice = choice, .major = 10, .dtype = DType::f16}));
    EXPECT_TRUE(by_library({.choice = choice, .major = 10, .backward = true}));
    for (const Case& ours : {Case{.choice = choice, .major = 8}, Case{.choice = choice, .backward = true},
                             Case{.choice = choice, .dtype = DType::f32}, Case{.choice = choice, .cudnn = kNoCudnn},
                             Case{.choice = choice, .may_load = false}}) {
      EXPECT_FALSE(by_library(ours));
      EXPECT_FALSE(counted()) << "nobody asked for it, nor expected it";
    }
  }
}

TEST_F(ChoiceOfAttention, OursIsNeverTheLibrarys) {
  EXPECT_FALSE(by_library({.choice = "ours"}));
  EXPECT_FALSE(counted());
}

TEST_F(ChoiceOfAttention, CudnnIsTakenWhereItCan) {
  for (const int major : {8, 9})
    for (const bool backward : {false, true})
      for (const DType dtype : {DType::bf16, DType::f16})
        EXPECT_TRUE(by_library({.choice = "cudnn", .major = major, .backward = backward, .dtype = dtype}));
  EXPECT_EQ(cuda::attention_origins().counts().by_library, 1u);
  EXPECT_EQ(cuda::attention_origins().counts().library, "fake cuDNN");
}

TEST_F(ChoiceOfAttention, ARefusalIsCountedWithItsReason) {
  EXPECT_FALSE(by_library({.choice = "cudnn", .cudnn = kNoCudnn}));
  EXPECT_EQ(refusal(), "this program was built without cuDNN");
  EXPECT_FALSE(by_library({.choice = "cudnn", .cudnn = kRefusesAll}));
  EXPECT_EQ(refusal(), "the fake cuDNN has a plan for nothing");
  EXPECT_FALSE(by_library({.cudnn = kRefusesAll}));
  EXPECT_EQ(refusal(), "the fake cuDNN has a plan for nothing") << "auto expected it";
  EXPECT_FALSE(by_library({.choice = "cudnn", .dtype = DType::f32}));
  EXPECT_EQ(refusal(), "elements are fp32, not bf16 or fp16");
  EXPECT_FALSE(by_library({.choice = "cudnn", .head_size = 12}));
  EXPECT_EQ(refusal(), "heads of 12, not a multiple of 8");
  EXPECT_FALSE(by_library({.choice = "cudnn", .shift = 8}));
  EXPECT_EQ(refusal(), "a slice that does not begin at a multiple of 16 bytes");
  EXPECT_FALSE(by_library({.choice = "cudnn", .may_load = false}));
  EXPECT_EQ(refusal(), "not on nccl, where loading a plan's kernels could wait for messages");
}

TEST_F(ChoiceOfAttention, AnotherWordIsAnError) {
  for (const char* word : {"", "flash", "cuDNN"}) {
    setenv("LOCKSTEP_ATTENTION", word, 1);
    try {
      (void)cuda::attention_choice();
      FAIL() << word;
    } catch (const Error& error) {
      EXPECT_EQ(error.verdict(), Verdict::usage);
      EXPECT_NE(std::string(error.what()).find("allowed are auto, cudnn and ours"), std::string::npos) << error.what();
    }
  }
}

// A plan's kernels are loaded when it is made, which may block forever on a GPU that waits for a message.
TEST_F(ChoiceOfAttention, APlanThatIsMadeWhileTheGpuSpinsIsFound) {
  fake::Settings settings;
  settings.cudnn = kCudnn;
  start(settings);
  setenv("LOCKSTEP_ATTENTION", "cudnn", 1);
  cudaStream_t const other = stream();
  bool sent = false;
  EXPECT_EQ(fake::enqueue_attempt(
                other, [&] { return sent; }, /*multiprocessors=*/1),
            cudaSuccess);
  while (fake::spinning_kernels() == 0) (void)cudaStreamQuery(other);
  char* const all = zeros(4096);
  cuda::AttentionCall call{{1, 4, 1, 1, 8, DType::bf16, false}};
  call.qkv = all;
  call.y = all + 1024;
  call.log_sums = all + 2048;
  {
    kernels::Workspace workspace(nullptr);
    EXPECT_TRUE(cuda::FusedAttention(nullptr, true).run({nullptr, workspace, nullptr}, call));
  }
  sent = true;
  EXPECT_EQ(cudaStreamSynchronize(other), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(other), cudaSuccess);
  free(all);
  const Found found = fake::take_problems();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_NE(found[1].find("a plan of attention is loaded"), std::string::npos) << found[1];
}

}  // namespace
}  // namespace lockstep
