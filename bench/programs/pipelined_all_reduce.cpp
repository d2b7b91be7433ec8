#include "bench/programs/pipelined_all_reduce.hpp"

#include <algorithm>
#include <vector>

#include "common/arithmetic.hpp"
#include "common/chunk.hpp"

namespace lockstep::bench {
namespace {

/// Schedule of the reduce-scatter. Every rank's chunk is split into one segment per block, and the segments of one
/// block travel around the ring together. Batch k contains step t of block k − 2t: a block's steps are two batches
/// apart, so that a segment is added while the next one is in flight.
struct Schedule {
  int ranks;
  int blocks;
  int steps() const { return ranks - 1; }
  int batches() const { return blocks + 2 * (steps() - 1); }
  int block_of(int batch, int step) const { return batch - 2 * step; }
  /// A batch contains the steps whose block exists: first_step … end_step − 1.
  int first_step(int batch) const { return std::max(0, (batch - blocks + 2) / 2); }
  int end_step(int batch) const { return std::min(steps(), batch / 2 + 1); }
};

Schedule schedule(int ranks, double bytes, std::size_t segment_bytes) {
  const int blocks = static_cast<int>(bytes / static_cast<double>(segment_bytes) / ranks);
  return {ranks, blocks < kFewestBlocks ? 1 : blocks};
}

/// One rank's part of the reduce-scatter.
class ReduceScatter {
 public:
  ReduceScatter(Rank me, Slice data, Schedule schedule) : me_(me), data_(std::move(data)), schedule_(schedule) {
    longest_ = chunk(chunk(data_, 0, schedule_.ranks), 0, schedule_.blocks).size();
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
    return chunk(chunk(data_, index, schedule_.ranks), schedule_.block_of(batch, step), schedule_.blocks);
  }
  Slice outgoing(int batch, int step) const { return segment(batch, step, me_.rank() - step - 1); }
  Slice incoming(int batch, int step) const { return segment(batch, step, me_.rank() - step - 2); }
  /// Scratch, in segments: one per step, for this batch and the next. A single block has only one step at a time.
  int places() const { return schedule_.blocks == 1 ? 1 : 2 * schedule_.steps(); }
  /// Buffer in which `incoming` waits to be added.
  Slice received(int batch, int step) const {
    const int place = (batch % 2 * schedule_.steps() + step) % places();
    return scratch_.cut(place * longest_, incoming(batch, step).size());
  }

  Ticket start(int batch) {
    const int p = schedule_.ranks, next = (me_.rank() + 1) % p, previous = (me_.rank() + p - 1) % p;
    transfers_.clear();
    for (int step = schedule_.first_step(batch); step < schedule_.end_step(batch); ++step) {
      transfers_.push_back(send(next, outgoing(batch, step)));
      transfers_.push_back(receive(previous, received(batch, step)));
    }
    return transfers_.empty() ? Ticket{} : me_.start(transfers_);
  }

  void add_received(int batch) {
    for (int step = schedule_.first_step(batch); step < schedule_.end_step(batch); ++step)
      add(me_, incoming(batch, step), received(batch, step));
  }

  Rank me_;
  Slice data_, scratch_;
  Schedule schedule_;
  std::size_t longest_ = 0;  // elements of the longest segment
  std::vector<Transfer> transfers_;
};

/// Starts with each rank holding the sum of its own chunk. Whole chunks travel, since there is no work to hide them
/// behind.
void all_gather(Rank me, const Slice& data) {
  const int p = me.size(), next = (me.rank() + 1) % p, previous = (me.rank() + p - 1) % p;
  for (int step = 0; step < p - 1; ++step)
    me.exchange(
        {send(next, chunk(data, me.rank() - step, p)), receive(previous, chunk(data, me.rank() - step - 1, p))});
}

}  // namespace

void pipelined_all_reduce(Rank me, Slice data, std::size_t segment_bytes) {
  if (me.size() == 1) return;  // no other rank
  Scope scope = me.region("pipelined_all_reduce", data.bytes());
  ReduceScatter(me, data, schedule(me.size(), static_cast<double>(data.bytes()), segment_bytes)).run();
  all_gather(me, data);
}

double pipelined_segment_bytes(int ranks, double bytes, std::size_t segment_bytes) {
  return bytes / schedule(ranks, bytes, segment_bytes).blocks / ranks;
}

double pipelined_all_reduce_seconds(week21::CostModel cost, int ranks, double bytes, std::size_t segment_bytes) {
  if (ranks == 1) return 0;
  const Schedule plan = schedule(ranks, bytes, segment_bytes);
  const double segment = bytes / plan.blocks / ranks;
  double before = 0, arrived = 0, added = 0;  // end times of the additions two batches before, of messages, of
                                              // additions
  for (int batch = 0; batch < plan.batches(); ++batch) {
    const int messages = std::max(0, plan.end_step(batch) - plan.first_step(batch));  // and as many additions
    if (messages > 0) arrived = std::max(arrived, before) + cost.alpha + messages * segment * cost.beta;
    before = added;
    added = std::max(added, arrived) + messages * (cost.launch + segment * cost.gamma);
  }
  return added + plan.steps() * (cost.alpha + bytes / ranks * cost.beta);
}

}  // namespace lockstep::bench
