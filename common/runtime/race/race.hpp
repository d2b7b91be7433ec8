// Detects two unordered uses of the same bytes of one rank, at least one of them a write.
//
// Memory belongs to one rank, so vector clocks over that rank's queues suffice (happens-before, Lamport 1978; the epoch
// form of FastTrack, Flanagan and Freund 2009). Each queue is a component, and so is each (group, queue) pair, because
// a started batch is concurrent with its own queue until it is waited for. An order that exists only through another
// rank does not count: that rank may be late in another run.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "common/rank.hpp"
#include "common/runtime/trace/trace.hpp"

namespace lockstep {

/// For each component, how much of it has happened before.
class VectorClock {
 public:
  std::uint32_t of(int component) const {
    return static_cast<std::size_t>(component) < ticks_.size() ? ticks_[component] : 0;
  }
  void tick(int component);
  void join(const VectorClock& other);

 private:
  std::vector<std::uint32_t> ticks_;
};

/// Race detector of one rank. Components are small numbers that the caller assigns to queues and channels.
class RaceDetector {
 public:
  /// Adds a component; call it before `queue` does anything.
  int add_component();

  /// Position of a queue in its program, and its time; used only in the trace.
  struct Moment {
    std::uint32_t position = 0;
    double time = 0;
  };

  /// `queue` itself reads or writes a slice. Throws Error(race), naming both lines.
  void access(int queue, const Slice& slice, bool write, Location where, const char* what, Moment moment);

  /// `queue` starts a batch of transfers on `endpoint`. Returns the batch's clock, which the next one's will replace.
  const VectorClock& start(int queue, int endpoint, std::span<const Transfer> transfers, Location where, Moment moment);

  void wait(int queue, const VectorClock& finished) { clock(queue).join(finished); }

  /// Clock with which a closure begins, when main runs it.
  VectorClock fork(int queue);
  void begin(int queue, const VectorClock& from) { clock(queue).join(from); }
  /// Clock at a closure's end, which a wait for it joins.
  VectorClock end(int queue);

  static void forget(Block& block);  ///< call it when the block is released

  /// The race that Error(race) was thrown for, without the rank; components are given in place of queues.
  const std::optional<TraceRace>& found() const { return found_; }

 private:
  struct Touch {
    int component = -1;
    std::uint32_t tick = 0;
    bool batch = false;  // transfers of one batch run concurrently, so equal ticks are unordered
    std::uint32_t position = 0;
    double time = 0;
    Location where{};
    const char* what = "";
    std::size_t begin = 0, end = 0;  // of the slice of a batch, in bytes
  };
  struct Segment {  // bytes whose last uses are the same
    std::size_t end = 0;
    Touch write;
    std::vector<Touch> reads;  // one per component
  };
  /// A block's segments. Their order is apart from them, because a search then reads few cache lines.
  struct History {
    struct Place {
      std::size_t begin;
      Segment* segment;
    };
    std::vector<Place> places;  // by begin
    std::deque<Segment> segments;
    void insert(std::size_t index, std::size_t begin, Segment segment);
  };

  VectorClock& clock(int component) { return clocks_[component]; }
  /// A further use of the bytes from `begin` to `end` of a block.
  struct Again {
    const Slice& slice;
    std::size_t begin, end;
    const Touch& now;
    bool write;
  };
  void touch(const VectorClock& clock, const Slice& slice, bool write, const Touch& now);
  void check(const VectorClock& clock, const Touch& before, bool wrote, const Again& again);
  /// Index of the first place from `at` on, where a segment that reaches across it is cut.
  static std::size_t split(History& history, std::size_t at);

  std::vector<VectorClock> clocks_;
  std::optional<TraceRace> found_;
};

}  // namespace lockstep
