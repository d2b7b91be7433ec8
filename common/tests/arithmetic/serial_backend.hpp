// One rank with a device and nothing else, for tests of arithmetic: memory starts as NaN, the last operation is kept.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <vector>

#include "common/arithmetic.hpp"
#include "common/backend.hpp"
#include "common/device/cpu/cpu_device.hpp"
#include "common/device/device.hpp"
#include "common/device/operation.hpp"
#include "common/ledger/ledger.hpp"

namespace lockstep::testing {

class SerialBackend final : public Backend, private BlockOwner {
 public:
  explicit SerialBackend(Device& device) : device_(device) {}

  Rank rank() { return Rank(*this, 0, 0, 0, 1); }
  /// Of the last operation; its slices may be gone.
  const std::optional<Operation>& last() const { return last_; }
  void forget() { last_.reset(); }

  Slice allocate(Channel, std::size_t count, DType dtype, Category category, Location where) override {
    auto* block = new Block;
    block->dtype = dtype;
    block->category = category;
    block->bytes = count * bytes_of(dtype);
    block->data = std::malloc(block->bytes + 1);
    block->owner = this;
    block->where = where;
    std::memset(block->data, 0xff, block->bytes);  // NaN in every floating-point type
    return Slice(*block);
  }
  void compute(Channel, const Operation& operation, Kernel kernel, Location) override {
    last_ = operation;
    kernel(device_);
  }
  void upload(Channel, const Slice& slice, const void* values, Location) override {
    std::memcpy(slice.data(), values, slice.bytes());
  }
  bool download(Channel, const Slice& slice, void* bytes, Location) override {
    std::memcpy(bytes, slice.data(), slice.bytes());
    return true;
  }
  bool peek(Channel channel, const Slice& slice, void* bytes) override { return download(channel, slice, bytes, {}); }
  RankLedger ledger() const override { return {}; }
  double now(int) const override { return 0; }
  int world_rank() const override { return 0; }
  void open_region(Channel, const char*, std::size_t, Location) override {}
  void close_region(int) override {}

  Ticket start(Channel, std::span<const Transfer>, Location) override { throw alone(); }
  void wait(Channel, Ticket, Location) override { throw alone(); }
  Rank split(Channel, int, int, Location) override { throw alone(); }
  Rank stream(Channel, std::string_view, Location) override { throw alone(); }
  Ticket run(Channel, Rank, std::function<void(Rank)>, Location) override { throw alone(); }

 private:
  static std::logic_error alone() { return std::logic_error("the serial backend of the tests has no peers"); }
  void release(Block& block) override {
    std::free(block.data);
    delete &block;
  }

  Device& device_;
  std::optional<Operation> last_;
};

/// One rank, and makers of slices. Inputs are rounded to the slice's type, and read back as what the device sees.
struct Bench {
  explicit Bench(int threads = 1, std::uint32_t seed = 1)
      : own_device(make_cpu_device(threads)), backend(*own_device), me(backend.rank()), generator(seed) {}
  explicit Bench(Device* shared) : backend(*shared), me(backend.rank()), generator(1) {}

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
  std::vector<std::int32_t> tokens(std::size_t n, std::size_t vocabulary, std::int32_t lowest = 0) {
    std::uniform_int_distribution<std::int32_t> draw(lowest, static_cast<std::int32_t>(vocabulary) - 1);
    std::vector<std::int32_t> values(n);
    for (std::int32_t& value : values) value = draw(generator);
    return values;
  }

  std::unique_ptr<Device> own_device;  // empty when shared
  SerialBackend backend;
  Rank me;
  std::mt19937 generator;
};

}  // namespace lockstep::testing
