#include "bench/pipelined_all_reduce.hpp"

#include <algorithm>
#include <vector>

#include "common/arithmetic.hpp"
#include "common/chunk.hpp"

namespace lockstep::bench {
namespace {

/// The array is cut into blocks of p segments, and each block goes round a ring of its own. Batch k holds step t of
/// block k − 2t: a block's steps are two batches apart, so that what one brings is added while the next is on its way.
struct Schedule {
  int ranks;
  int blocks;
  int additions() const { return ranks - 1; }  ///< steps 0 … p − 2 add, the rest pass on
  int steps() const { return 2 * (ranks - 1); }
  int batches() const { return blocks + 2 * (steps() - 1); }
  int block_of(int batch, int step) const { return batch - 2 * step; }
  bool has(int batch, int step) const { return block_of(batch, step) >= 0 && block_of(batch, step) < blocks; }
};

Schedule schedule(int ranks, double bytes, std::size_t segment_bytes) {
  const int blocks = static_cast<int>(bytes / static_cast<double>(segment_bytes) / ranks);
  return {ranks, blocks < kFewestBlocks ? 1 : blocks};
}

/// One rank's part of it.
class Pipeline {
 public:
  Pipeline(Rank me, Slice data, Schedule schedule) : me_(me), data_(std::move(data)), schedule_(schedule) {
    longest_ = chunk(chunk(data_, 0, schedule_.blocks), 0, schedule_.ranks).size();
    scratch_ = me_.allocate(places() * longest_, data_.dtype(), Category::buffer);
  }

  void run() {
    Ticket ticket = start(0);
    for (int batch = 0; batch < schedule_.batches(); ++batch) {
      const Ticket next = batch + 1 < schedule_.batches() ? start(batch + 1) : Ticket{};
      me_.wait(ticket);
      add_received(batch);
      ticket = next;
    }
  }

 private:
  Slice segment(int batch, int step, int index) const {
    return chunk(chunk(data_, schedule_.block_of(batch, step), schedule_.blocks), index, schedule_.ranks);
  }
  Slice outgoing(int batch, int step) const { return segment(batch, step, me_.rank() - step - 1); }
  Slice incoming(int batch, int step) const { return segment(batch, step, me_.rank() - step - 2); }
  /// Segments of scratch: for every step that adds, of this batch and of the next. One block has a step at a time.
  int places() const { return schedule_.blocks == 1 ? 1 : 2 * schedule_.additions(); }
  /// Where `incoming` waits to be added.
  Slice received(int batch, int step) const {
    const int place = (batch % 2 * schedule_.additions() + step) % places();
    return scratch_.cut(place * longest_, incoming(batch, step).size());
  }

  Ticket start(int batch) {
    const int p = schedule_.ranks, next = (me_.rank() + 1) % p, previous = (me_.rank() + p - 1) % p;
    transfers_.clear();
    for (int step = 0; step < schedule_.steps(); ++step) {
      if (!schedule_.has(batch, step)) continue;
      transfers_.push_back(send(next, outgoing(batch, step)));
      transfers_.push_back(
          receive(previous, step < schedule_.additions() ? received(batch, step) : incoming(batch, step)));
    }
    return transfers_.empty() ? Ticket{} : me_.start(transfers_);
  }

  void add_received(int batch) {
    for (int step = 0; step < schedule_.additions(); ++step)
      if (schedule_.has(batch, step)) add(me_, incoming(batch, step), received(batch, step));
  }

  Rank me_;
  Slice data_, scratch_;
  Schedule schedule_;
  std::size_t longest_ = 0;  // elements of a segment
  std::vector<Transfer> transfers_;
};

}  // namespace

void pipelined_all_reduce(Rank me, Slice data, std::size_t segment_bytes) {
  if (me.size() == 1) return;  // nobody to add
  Scope scope = me.region("pipelined_all_reduce", data.bytes());
  Pipeline(me, data, schedule(me.size(), static_cast<double>(data.bytes()), segment_bytes)).run();
}

double pipelined_all_reduce_seconds(week21::CostModel cost, int ranks, double bytes, std::size_t segment_bytes) {
  if (ranks == 1) return 0;
  const Schedule plan = schedule(ranks, bytes, segment_bytes);
  const double segment = bytes / plan.blocks / ranks;
  double before = 0, arrived = 0, added = 0;  // ends: of the additions two batches back, of messages, of additions
  for (int batch = 0; batch < plan.batches(); ++batch) {
    int messages = 0, additions = 0;
    for (int step = 0; step < plan.steps(); ++step) {
      messages += plan.has(batch, step);
      additions += step < plan.additions() && plan.has(batch, step);
    }
    if (messages > 0) arrived = std::max(arrived, before) + cost.alpha + messages * segment * cost.beta;
    before = added;
    added = std::max(added, arrived) + additions * (cost.launch + segment * cost.gamma);
  }
  return added;
}

}  // namespace lockstep::bench
