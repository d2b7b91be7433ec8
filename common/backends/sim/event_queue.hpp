// Events in order of virtual time, first in first out at equal times. A radix heap (Ahuja, Mehlhorn, Orlin, Tarjan
// 1990): events are never earlier than the last one taken, so each moves a few times between 65 buckets and is never
// compared with all others.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

namespace lockstep {

template <class T>
class EventQueue {
 public:
  void put(double time, T what) {
    const std::uint64_t key = std::bit_cast<std::uint64_t>(time);
    buckets_[index(key)].push_back({key, what});
    ++size_;
  }
  bool empty() const { return size_ == 0; }

  /// True if events are left at the time last advanced to.
  bool due() const { return taken_ < buckets_[0].size(); }
  /// Advances to the earliest event and returns its time; later puts must not be earlier. The queue must not be empty.
  double advance() {
    if (!due()) refill();
    return std::bit_cast<double>(last_);
  }
  /// Takes the next event that is due.
  T take() {
    T what = buckets_[0][taken_++].what;
    if (taken_ == buckets_[0].size()) {
      buckets_[0].clear();
      taken_ = 0;
    }
    --size_;
    return what;
  }

 private:
  struct Entry {
    std::uint64_t key;  // bits of a time ≥ 0, which have the same order as the times
    T what;
  };
  std::size_t index(std::uint64_t key) const {
    return key == last_ ? 0 : 64 - static_cast<std::size_t>(std::countl_zero(key ^ last_));
  }
  void refill() {
    std::size_t first = 1;
    while (buckets_[first].empty()) ++first;
    auto& bucket = buckets_[first];
    last_ = bucket[0].key;
    for (const Entry& entry : bucket) last_ = entry.key < last_ ? entry.key : last_;
    for (const Entry& entry : bucket) buckets_[index(entry.key)].push_back(entry);
    bucket.clear();
  }

  std::array<std::vector<Entry>, 65> buckets_;
  std::uint64_t last_ = 0;
  std::size_t taken_ = 0;  // number taken from bucket 0
  std::size_t size_ = 0;
};

}  // namespace lockstep
