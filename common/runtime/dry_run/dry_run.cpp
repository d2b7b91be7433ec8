#include "common/runtime/dry_run/dry_run.hpp"

#include <algorithm>
#include <string>

#include "common/runtime/backend.hpp"

namespace lockstep {

class DryRun::Stage final : public Backend, private BlockOwner {
 public:
  Stage(const Machine& machine, DryRunGroup group) : machine_(machine), group_(group), queues_(1) {}

  Rank rank() { return Rank(*this, 0, 0, 0, group_.ranks); }
  double seconds() const { return queues_[0].clock; }
  double arithmetic() const { return arithmetic_; }
  std::size_t live() const { return live_; }
  std::size_t peak() const { return peak_; }
  void forget_peak() { peak_ = live_; }

  void compute(CommunicatorKey at, const Operation& operation, Kernel, Location) override {
    const double seconds = machine_.seconds(operation);
    Queue& queue = queues_[static_cast<std::size_t>(at.queue)];
    const double begin = queue.clock;
    queue.clock += seconds;
    if (at.queue != 0) {
      beside_.push_back({begin, seconds});
      return;
    }
    arithmetic_ += seconds;
    queue.clock = end_of(begin, queue.clock);
  }

  bool fuses_gelu() const override { return false; }  // as the simulator

  /// Each port serves one message at a time; what is sent and what is received go at once.
  Ticket start(CommunicatorKey at, std::span<const Transfer> batch, Location) override {
    double sent = 0, received = 0;
    for (const Transfer& transfer : batch)
      (transfer.kind == Transfer::Kind::send ? sent : received) += static_cast<double>(transfer.slice.bytes());
    Queue& queue = queues_[static_cast<std::size_t>(at.queue)];
    const double begin = std::max(queue.clock, queue.last_batch);
    queue.last_batch = begin + group_.alpha + std::max(sent, received) * group_.beta;
    queue.ends.push_back(queue.last_batch);
    return {Ticket::Kind::batch, at.group, at.queue, queue.ends.size()};
  }
  void wait(CommunicatorKey at, Ticket ticket, Location) override {
    Queue& waits = queues_[static_cast<std::size_t>(at.queue)];
    const Queue& works = queues_[static_cast<std::size_t>(ticket.queue)];
    const std::vector<double>& ends = ticket.kind == Ticket::Kind::batch ? works.ends : works.closures;
    waits.clock = std::max(waits.clock, ends[ticket.number - 1]);
  }
  Ticket run(CommunicatorKey main, Rank queue, std::function<void(Rank)> f, Location) override {
    const auto index = static_cast<std::size_t>(queue.queue());
    queues_[index].clock = std::max(queues_[index].clock, queues_[0].clock);
    f(queue);
    queues_[index].closures.push_back(queues_[index].clock);
    return {Ticket::Kind::closure, main.group, queue.queue(), queues_[index].closures.size()};
  }
  Rank stream(CommunicatorKey at, std::string_view name, Location) override {
    const auto known = std::find(names_.begin(), names_.end(), name);
    const auto index = static_cast<int>(known - names_.begin());
    if (known == names_.end()) {
      names_.emplace_back(name);
      queues_.emplace_back();
    }
    return Rank(*this, at.group, index + 1, 0, group_.ranks);
  }
  Rank split(CommunicatorKey, int color, int, Location where) override {
    if (color >= 0) usage_error("a rank that runs dry, alone, has no sub-groups", where);
    return Rank(*this, -1, 0, -1, 0);
  }

  Slice allocate(CommunicatorKey at, std::size_t count, DType dtype, Category category, Location) override {
    auto* block = new Block;
    block->dtype = dtype;
    block->category = category;
    block->queue = at.queue;
    block->bytes = count * bytes_of(dtype);
    block->owner = this;
    live_ += block->bytes;
    peak_ = std::max(peak_, live_);
    return Slice(*block);
  }
  void upload(CommunicatorKey, const Slice&, const void*, Location) override {}
  bool download(CommunicatorKey, const Slice&, void*, Location) override { return false; }
  bool peek(CommunicatorKey, const Slice&, void*) override { return false; }
  void open_region(CommunicatorKey, const char*, std::size_t, Location) override {}
  void close_region(int) override {}
  RankLedger ledger() const override { return {}; }
  double now(int queue) const override { return queues_[static_cast<std::size_t>(queue)].clock; }
  int world_rank() const override { return 0; }

 private:
  struct Queue {
    double clock = 0;
    double last_batch = 0;         // batches go one at a time
    std::vector<double> ends;      // of batches, by number
    std::vector<double> closures;  // likewise
  };
  struct Work {
    double begin = 0, seconds = 0;
  };

  /// Arithmetic of other queues that begins while an operation of main lasts lengthens it, as in the simulator.
  double end_of(double begin, double end) {
    std::sort(beside_.begin(), beside_.end(), [](const Work& a, const Work& b) { return a.begin < b.begin; });
    std::size_t past = 0;
    for (; past < beside_.size() && beside_[past].begin < end; ++past)
      if (beside_[past].begin >= begin) end += beside_[past].seconds;
    beside_.erase(beside_.begin(), beside_.begin() + static_cast<std::ptrdiff_t>(past));
    return end;
  }
  void release(Block& block) override {
    live_ -= block.bytes;
    delete &block;
  }

  const Machine machine_;
  DryRunGroup group_;
  std::vector<Queue> queues_;  // [0] is main
  std::vector<std::string> names_;
  std::vector<Work> beside_;  // arithmetic of other queues that main has not come to yet
  double arithmetic_ = 0;
  std::size_t live_ = 0, peak_ = 0;
};

DryRun::DryRun(const Machine& machine, DryRunGroup group) : stage_(std::make_unique<Stage>(machine, group)) {}
DryRun::~DryRun() = default;
Rank DryRun::rank() { return stage_->rank(); }
double DryRun::seconds() const { return stage_->seconds(); }
double DryRun::arithmetic() const { return stage_->arithmetic(); }
std::size_t DryRun::live_bytes() const { return stage_->live(); }
std::size_t DryRun::peak_bytes() const { return stage_->peak(); }
void DryRun::forget_peak() { stage_->forget_peak(); }

}  // namespace lockstep
