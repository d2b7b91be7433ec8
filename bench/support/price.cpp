#include "bench/support/price.hpp"

#include <memory>
#include <vector>

#include "common/backend.hpp"
#include "common/device/operation.hpp"

namespace lockstep::bench {
namespace {

/// One rank whose memory does not exist and whose clock is the sum of prices.
class PricingBackend final : public Backend, private BlockOwner {
 public:
  explicit PricingBackend(const Machine& machine) : machine_(machine) {}

  Rank rank() { return Rank(*this, 0, 0, 0, 1); }
  double seconds() const { return seconds_; }

  void compute(Channel, const Operation& operation, Kernel, Location) override {
    seconds_ += machine_.seconds(operation);
  }
  Slice allocate(Channel, std::size_t count, DType dtype, Category category, Location) override {
    blocks_.push_back(std::make_unique<Block>());
    Block& block = *blocks_.back();
    block.dtype = dtype;
    block.category = category;
    block.bytes = count * bytes_of(dtype);
    block.owner = this;
    return Slice(block);
  }
  void upload(Channel, const Slice&, const void*, Location) override {}
  bool download(Channel, const Slice&, void*, Location) override { return false; }
  bool peek(Channel, const Slice&, void*) override { return false; }
  void open_region(Channel, const char*, std::size_t, Location) override {}
  void close_region(int) override {}
  RankLedger ledger() const override { return {}; }
  double now(int) const override { return seconds_; }
  int world_rank() const override { return 0; }

  Ticket start(Channel, std::span<const Transfer>, Location where) override { alone(where); }
  void wait(Channel, Ticket, Location where) override { alone(where); }
  Rank split(Channel, int, int, Location where) override { alone(where); }
  Rank stream(Channel, std::string_view, Location where) override { alone(where); }
  Ticket run(Channel, Rank, std::function<void(Rank)>, Location where) override { alone(where); }

 private:
  [[noreturn]] static void alone(Location where) {
    usage_error("only a rank's own arithmetic has a price here", where);
  }
  void release(Block&) override {}  // they all go at the end

  const Machine& machine_;
  double seconds_ = 0;
  std::vector<std::unique_ptr<Block>> blocks_;
};

}  // namespace

double priced_seconds(const Machine& machine, const std::function<std::function<void()>(Rank)>& prepare) {
  PricingBackend backend(machine);
  const std::function<void()> work = prepare(backend.rank());
  const double before = backend.seconds();
  work();
  return backend.seconds() - before;
}

}  // namespace lockstep::bench
