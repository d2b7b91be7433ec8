// One rank with a device and nothing else, for tests of arithmetic. Memory starts as NaN, begins at odd addresses and
// is guarded on both sides; the last operation is kept.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <vector>

#include "common/arithmetic.hpp"
#include "common/devices/tests/workplace.hpp"
#include "common/runtime/backend.hpp"
#include "common/runtime/ledger/ledger.hpp"
#include "common/runtime/machine/operation.hpp"
#include "common/runtime/new_block.hpp"

namespace lockstep::testing {

class SerialBackend final : public Backend, private BlockOwner {
 public:
  explicit SerialBackend(Workplace& workplace) : workplace_(workplace) {}

  Rank rank() { return Rank(*this, 0, 0, 0, 1); }
  /// The last operation; its slices may be gone.
  const std::optional<Operation>& last() const { return last_; }
  void forget() { last_.reset(); }

  Slice allocate(CommunicatorKey, std::size_t count, DType dtype, Category category, Location where) override {
    Block* block = new_block({}, count, dtype, category, *this, 0, where).release();
    const std::size_t before = kGuard + allocations_++ % 9 * bytes_of(dtype);
    block->history = workplace_.allocate(before + block->bytes + kGuard);  // there is no race detector that uses it
    block->data = static_cast<char*>(block->history) + before;
    return Slice(*block);
  }
  void compute(CommunicatorKey, const Operation& operation, Kernel kernel, Location) override {
    last_ = operation;
    kernel(workplace_.device());
  }
  // Enables the fused operations on every device, to test them.
  bool fuses_gelu() const override { return true; }
  bool fuses_pieces() const override { return true; }
  void upload(CommunicatorKey, const Slice& slice, const void* values, Location) override {
    if (!slice.empty()) workplace_.upload(slice.data(), values, slice.bytes());
  }
  bool download(CommunicatorKey, const Slice& slice, void* bytes, Location where) override {
    if (!slice.empty()) workplace_.download(bytes, slice.data(), slice.bytes());
    workplace_.check_work(where);
    return true;
  }
  bool peek(CommunicatorKey at, const Slice& slice, void* bytes) override { return download(at, slice, bytes, {}); }
  RankLedger ledger() const override { return {}; }
  double now(int) const override { return 0; }
  int world_rank() const override { return 0; }
  void open_region(CommunicatorKey, const char*, std::size_t, Location) override {}
  void close_region(int) override {}

  Ticket start(CommunicatorKey, std::span<const Transfer>, Location) override { throw alone(); }
  void wait(CommunicatorKey, Ticket, Location) override { throw alone(); }
  Rank split(CommunicatorKey, int, int, Location) override { throw alone(); }
  Rank stream(CommunicatorKey, std::string_view, Location) override { throw alone(); }
  Ticket run(CommunicatorKey, Rank, std::function<void(Rank)>, Location) override { throw alone(); }

 private:
  static std::logic_error alone() { return std::logic_error("the serial backend of the tests has no peers"); }
  static constexpr std::size_t kGuard = 64;  // bytes on both sides of a block
  void release(Block& block) override {
    const auto* first = static_cast<const char*>(block.history);
    expect_untouched(block, first, static_cast<std::size_t>(static_cast<const char*>(block.data) - first), "before");
    expect_untouched(block, static_cast<const char*>(block.data) + block.bytes, kGuard, "after");
    workplace_.release(block.history);
    delete &block;
  }
  void expect_untouched(const Block& block, const char* data, std::size_t bytes, const char* side) {
    std::vector<unsigned char> guard(bytes);
    workplace_.download(guard.data(), data, bytes);
    EXPECT_TRUE(std::all_of(guard.begin(), guard.end(), [](unsigned char byte) { return byte == 0xff; }))
        << "memory " << side << " a block of " << block.bytes << " bytes was written";
  }

  Workplace& workplace_;
  std::size_t allocations_ = 0;
  std::optional<Operation> last_;
};

/// One rank, and functions that make slices. Inputs are rounded to the slice's type, and read back as the device sees
/// them.
struct Bench {
  explicit Bench(int threads = 1, std::uint32_t seed = 1) : Bench(make_workplace(threads), seed) {}
  explicit Bench(std::unique_ptr<Workplace> place, std::uint32_t seed = 1)
      : workplace(std::move(place)), backend(*workplace), me(backend.rank()), generator(seed) {}

  Slice poisoned(std::size_t n, DType dtype = DType::f32) { return me.allocate(n, dtype, Category::buffer); }
  Slice of(const std::vector<float>& values, DType dtype = DType::f32) {
    Slice x = poisoned(values.size(), dtype);
    upload(me, x, values);
    return x;
  }
  Slice integers(const std::vector<std::int32_t>& values) {
    Slice x = poisoned(values.size(), DType::i32);
    upload(me, x, values);
    return x;
  }
  Slice normal(std::size_t n, DType dtype = DType::f32, float deviation = 1) {
    std::normal_distribution<float> draw(0, deviation);
    std::vector<float> values(n);
    for (float& value : values) value = draw(generator);
    return of(values, dtype);
  }
  Slice constant(std::size_t n, float value, DType dtype = DType::f32) {
    return of(std::vector<float>(n, value), dtype);
  }
  std::vector<double> read(const Slice& x) {
    const std::vector<float> values = to_host(me, x);
    return {values.begin(), values.end()};
  }
  template <class T>
  std::vector<T> read_bits(const Slice& x) {
    std::vector<T> values(x.bytes() / sizeof(T));
    backend.download({}, x, values.data(), Location::current());
    return values;
  }
  std::vector<std::int32_t> tokens(std::size_t n, std::size_t vocabulary, std::int32_t lowest = 0) {
    std::uniform_int_distribution<std::int32_t> draw(lowest, static_cast<std::int32_t>(vocabulary) - 1);
    std::vector<std::int32_t> values(n);
    for (std::int32_t& value : values) value = draw(generator);
    return values;
  }

  std::unique_ptr<Workplace> workplace;
  SerialBackend backend;
  Rank me;
  std::mt19937 generator;
};

inline std::vector<double> random_values(std::size_t n, std::uint32_t seed) {
  Bench bench(1, seed);
  return bench.read(bench.normal(n));
}

}  // namespace lockstep::testing
