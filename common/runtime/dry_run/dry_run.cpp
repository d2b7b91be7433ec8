#include "common/runtime/dry_run/dry_run.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <string>

#include "common/runtime/backend.hpp"
#include "common/runtime/ledger/recorder.hpp"
#include "common/runtime/new_block.hpp"

namespace lockstep {

class DryRun::World final : public Backend, private BlockOwner {
 public:
  explicit World(const Machine& machine) : machine_(machine), queues_(1) { recorder_.add_queue("main"); }

  Rank join(DryRunGroup group, std::optional<DryRunGroup> part) {
    const int index = static_cast<int>(groups_.size());
    groups_.push_back({group, part ? index + 1 : -1});
    if (part) groups_.push_back({*part, -1});
    return handle(index, 0);
  }
  Rank handle(int group, int queue) {
    const DryRunGroup& in = groups_[static_cast<std::size_t>(group)].group;
    return Rank(*this, group, queue, in.rank, in.ranks);
  }
  double seconds() const { return queues_[0].clock; }
  double arithmetic() const { return arithmetic_; }
  std::size_t live() const { return live_; }
  std::size_t peak() const { return peak_; }
  void forget_peak() { peak_ = live_; }

  void compute(CommunicatorKey at, const Operation& operation, Kernel, Location) override {
    Queue& queue = queues_[static_cast<std::size_t>(at.queue)];
    if (machine_.by_library && queue.collective.depth > 0) {
      if (!operation.matmul) return;  // the library's time includes the additions
      queue.collective.computes = true;
    }
    const double seconds = machine_.seconds(operation, static_cast<double>(live_));
    const double begin = queue.clock;
    queue.clock += seconds;
    if (at.queue != 0) {
      beside_.push_back({begin, seconds});
      return;
    }
    arithmetic_ += seconds;
    queue.clock = slowed_end(begin, end_of(begin, queue.clock) - begin);
  }

  /// Each port serves one message at a time; sending and receiving overlap.
  Ticket start(CommunicatorKey at, std::span<const Transfer> batch, Location) override {
    double sent = 0, received = 0;
    for (const Transfer& transfer : batch)
      (transfer.kind == Transfer::Kind::send ? sent : received) += static_cast<double>(transfer.slice.bytes());
    const DryRunGroup& group = groups_[static_cast<std::size_t>(at.group)].group;
    Line& line = batches_[{at.group, at.queue}];
    queues_[static_cast<std::size_t>(at.queue)].collective.sent += sent;
    const double begin = std::max(queues_[static_cast<std::size_t>(at.queue)].clock, line.end);
    line.end = begin + group.alpha + std::max(sent, received) * group.beta;
    line.held.push_back({line.end, {batch.begin(), batch.end()}, {}});
    return {Ticket::Kind::batch, at.group, at.queue, line.waited + line.held.size()};
  }
  /// Releases the slices held by the ticket's work and by the work before it.
  void wait(CommunicatorKey at, Ticket ticket, Location) override {
    double& clock = queues_[static_cast<std::size_t>(at.queue)].clock;
    Line& line = ticket.kind == Ticket::Kind::batch ? batches_[{ticket.group, ticket.queue}]
                                                    : queues_[static_cast<std::size_t>(ticket.queue)].closures;
    for (; line.waited < ticket.number; ++line.waited, line.held.pop_front())
      clock = std::max(clock, line.held.front().end);
  }
  Ticket run(CommunicatorKey main, Rank queue, std::function<void(Rank)> f, Location) override {
    const auto index = static_cast<std::size_t>(queue.queue());
    queues_[index].clock = std::max(queues_[index].clock, queues_[0].clock);
    f(queue);
    Line& line = queues_[index].closures;
    line.held.push_back({queues_[index].clock, {}, std::move(f)});
    return {Ticket::Kind::closure, main.group, queue.queue(), line.waited + line.held.size()};
  }
  Rank stream(CommunicatorKey at, std::string_view name, Location) override {
    const auto known = std::find(names_.begin(), names_.end(), name);
    const auto index = static_cast<int>(known - names_.begin());
    if (known == names_.end()) {
      recorder_.add_queue(names_.emplace_back(name));
      queues_.emplace_back();
    }
    return handle(at.group, index + 1);
  }
  Rank split(CommunicatorKey at, int color, int, Location where) override {
    if (color < 0) return Rank(*this, -1, 0, -1, 0);
    const int part = groups_[static_cast<std::size_t>(at.group)].part;
    if (part < 0) usage_error("a dry run has a single rank, which cannot form groups", where);
    return handle(part, 0);
  }

  Slice allocate(CommunicatorKey at, std::size_t count, DType dtype, Category category, Location where) override {
    auto block = new_block(at, count, dtype, category, *this, 0, where);
    recorder_.allocated(at.queue, category, block->bytes);
    live_ += block->bytes;
    peak_ = std::max(peak_, live_);
    return Slice(*block.release());
  }
  void upload(CommunicatorKey, const Slice&, const void*, Location) override {}
  bool download(CommunicatorKey, const Slice&, void*, Location) override { return false; }
  bool peek(CommunicatorKey, const Slice&, void*) override { return false; }
  void open_region(CommunicatorKey at, const char*, std::size_t bytes, Location) override {
    Queue& queue = queues_[static_cast<std::size_t>(at.queue)];
    queue.phases.push_back(bytes == kPhase);
    if (bytes == kPhase || queue.collective.depth++ > 0) return;
    queue.collective = {1, at.group, static_cast<double>(bytes), 0, queue.clock, false};
  }
  /// On a machine with its vendor's libraries, the library sends all of an outermost collective's messages.
  void close_region(int index) override {
    Queue& queue = queues_[static_cast<std::size_t>(index)];
    const bool phase = queue.phases.back();
    queue.phases.pop_back();
    if (phase) return;
    Collective& collective = queue.collective;
    if (--collective.depth > 0 || !machine_.by_library || collective.sent == 0 || collective.computes) return;
    const int p = groups_[static_cast<std::size_t>(collective.group)].group.ranks;
    queue.clock = collective.begin + library_collective_seconds(machine_, p, collective.bytes, collective.sent);
    batches_[{collective.group, index}].end = queue.clock;
    if (index != 0)
      held_.push_back({collective.begin, queue.clock, library_share(machine_, machine_.level_between(0, p - 1))});
  }
  RankLedger ledger() const override { return recorder_.ledger(); }
  double now(int queue) const override { return queues_[static_cast<std::size_t>(queue)].clock; }
  int world_rank() const override { return 0; }

 private:
  /// Unfinished work: batches of one (group, queue), which run one at a time, or closures of a queue.
  struct Line {
    struct Held {
      double end;
      std::vector<Transfer> batch;
      std::function<void(Rank)> closure;
    };
    std::deque<Held> held;
    std::uint64_t waited = 0;  // number of those released already
    double end = 0;            // end of the last batch
  };
  /// The outermost open region that is a collective, and what was sent in it.
  struct Collective {
    int depth = 0, group = 0;
    double bytes = 0, sent = 0, begin = 0;
    bool computes = false;  // products between its messages (ring attention): not a library's collective
  };
  struct Queue {
    double clock = 0;
    Line closures;
    std::vector<bool> phases;  // for each open region: true if it is a phase, not a collective
    Collective collective;
  };
  struct Member {
    DryRunGroup group;
    int part;  // index of the group that a split returns; −1: none
  };
  struct Work {
    double begin = 0, seconds = 0;
  };
  /// A collective on a queue other than main, and its share of the multiprocessors.
  struct Held {
    double begin = 0, end = 0, share = 0;
  };

  /// End of an operation of main, extended by arithmetic of other queues that begins during it, as in the simulator.
  double end_of(double begin, double end) {
    std::sort(beside_.begin(), beside_.end(), [](const Work& a, const Work& b) { return a.begin < b.begin; });
    std::size_t past = 0;
    for (; past < beside_.size() && beside_[past].begin < end; ++past)
      if (beside_[past].begin >= begin) end += beside_[past].seconds;
    beside_.erase(beside_.begin(), beside_.begin() + static_cast<std::ptrdiff_t>(past));
    return end;
  }
  /// End of `seconds` of main's work from `begin`, slowed by library collectives of other queues.
  double slowed_end(double begin, double seconds) {
    std::erase_if(held_, [begin](const Held& held) { return held.end <= begin; });
    std::sort(held_.begin(), held_.end(), [](const Held& a, const Held& b) { return a.begin < b.begin; });
    double at = begin;
    for (const Held& held : held_) {
      const double alone = std::clamp(held.begin - at, 0.0, seconds);
      at += alone, seconds -= alone;
      const double beside = std::min(seconds / (1 - held.share), std::max(0.0, held.end - at));
      at += beside, seconds -= beside * (1 - held.share);
    }
    return at + seconds;
  }
  void release(Block& block) override {
    recorder_.released(block.queue, block.category, block.bytes);
    live_ -= block.bytes;
    delete &block;
  }

  const Machine machine_;
  Recorder recorder_{/*rank=*/0, /*trace=*/false, /*machine=*/nullptr};  // counts memory only
  std::vector<Work> beside_;  // arithmetic of other queues that main's clock has not reached yet
  std::vector<Held> held_;    // collectives that main's clock has not passed yet
  double arithmetic_ = 0;
  std::size_t live_ = 0, peak_ = 0;
  std::vector<Member> groups_;
  std::vector<std::string> names_;
  std::deque<Queue> queues_;  // [0] is main; the others, and batches, may hold slices, which are counted above
  std::map<std::pair<int, int>, Line> batches_;  // by group and queue
};

DryRun::DryRun(const Machine& machine, DryRunGroup group) : world_(std::make_unique<World>(machine)) {
  world_->join(group, {});
}
DryRun::~DryRun() = default;
Rank DryRun::rank() { return world_->handle(0, 0); }
Rank DryRun::rank(DryRunGroup group, std::optional<DryRunGroup> part) { return world_->join(group, part); }
double DryRun::seconds() const { return world_->seconds(); }
double DryRun::arithmetic() const { return world_->arithmetic(); }
std::size_t DryRun::live_bytes() const { return world_->live(); }
std::size_t DryRun::peak_bytes() const { return world_->peak(); }
void DryRun::forget_peak() { world_->forget_peak(); }

}  // namespace lockstep
