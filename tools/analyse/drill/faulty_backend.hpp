// A rank whose hardware or library is at fault: the verbs of another rank, of which a few do something else.
#pragma once

#include <functional>

#include "common/runtime/backend.hpp"
#include "common/runtime/machine/operation.hpp"

namespace lockstep::drill {

/// Must outlive the run: queues may still unwind through it.
class FaultyBackend final : public Backend {
 public:
  /// Differences from a good backend; each may be empty.
  struct Differs {
    std::function<void(Operation& operation)> price;  ///< before an operation is priced and done
    std::function<bool(CommunicatorKey at, std::span<const Transfer> batch)> loses;  ///< whether it is never started
  };
  void differ(Differs how) { differs_ = std::move(how); }

  /// The same rank, with this object's faults: of one rank of the world.
  Rank wrap(const Rank& inner) {
    inner_ = &inner.backend();
    return as(inner);
  }

  Ticket start(CommunicatorKey at, std::span<const Transfer> batch, Location where) override;
  void wait(CommunicatorKey at, Ticket ticket, Location where) override;
  Rank split(CommunicatorKey at, int color, int key, Location where) override;
  Rank stream(CommunicatorKey at, std::string_view name, Location where) override;
  Ticket run(CommunicatorKey main, Rank queue, std::function<void(Rank)> f, Location where) override;
  Slice allocate(CommunicatorKey at, std::size_t count, DType dtype, Category category, Location where) override;
  void compute(CommunicatorKey at, const Operation& operation, Kernel kernel, Location where) override;
  bool fuses_gelu() const override { return inner_->fuses_gelu(); }
  bool fuses_pieces() const override { return inner_->fuses_pieces(); }
  void open_region(CommunicatorKey at, const char* name, std::size_t bytes, Location where) override;
  void close_region(int queue) override { inner_->close_region(queue); }
  void upload(CommunicatorKey at, const Slice& slice, const void* values, Location where) override;
  bool download(CommunicatorKey at, const Slice& slice, void* bytes, Location where) override;
  bool peek(CommunicatorKey at, const Slice& slice, void* bytes) override { return inner_->peek(at, slice, bytes); }
  RankLedger ledger() const override { return inner_->ledger(); }
  double now(int queue) const override { return inner_->now(queue); }
  int world_rank() const override { return inner_->world_rank(); }

 private:
  Rank as(const Rank& inner) { return {*this, inner.group(), inner.queue(), inner.rank(), inner.size()}; }

  Backend* inner_ = nullptr;
  Differs differs_;
};

}  // namespace lockstep::drill
