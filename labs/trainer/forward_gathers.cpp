#include "labs/trainer/forward_gathers.hpp"

#include <algorithm>
#include <limits>

#include "labs/week21_data_parallel/ring_all_reduce.hpp"

namespace lockstep::week25 {

namespace {

constexpr std::size_t kNoPiece = std::numeric_limits<std::size_t>::max();

std::size_t first_piece_of(const Unit& unit, const UsageOrder& usage_order) {
  for (std::size_t piece = 0; piece < usage_order.size(); ++piece)
    for (const std::size_t tensor : usage_order[piece])
      if (unit.holds(tensor)) return piece;
  return kNoPiece;
}

}  // namespace

void ForwardGathers::add_engine(const Slice& values, const std::vector<Unit>& units, const UsageOrder& usage_order) {
  ++engines_;
  for (const Unit& unit : units)
    gathers_.push_back({values.cut(unit.offset, unit.size), first_piece_of(unit, usage_order), {}});
  std::stable_sort(gathers_.begin(), gathers_.end(),
                   [](const Gather& a, const Gather& b) { return a.first_piece < b.first_piece; });
  waited_ = gathers_.size();
}

void ForwardGathers::updated() {
  if (++updated_ < engines_) return;
  updated_ = 0;
  for (Gather& gather : gathers_)
    gather.done = dp_.run(comm_, [values = gather.values](Rank queue) {
      Scope scope = queue.region("all_gather", values.bytes());
      week21::ring_all_gather(queue, values);
    });
  waited_ = 0;
}

void ForwardGathers::before_forward(std::size_t piece) {
  for (; waited_ < gathers_.size() && gathers_[waited_].first_piece <= piece; ++waited_)
    dp_.wait(gathers_[waited_].done);
}

void ForwardGathers::finish() { before_forward(kNoPiece); }

}  // namespace lockstep::week25
