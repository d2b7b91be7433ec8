// Two uses of the same bytes of one rank, one of them a write, with nothing in the rank's own program to order them.
//
// Memory belongs to one rank, so vector clocks over that rank's queues suffice (happens-before, Lamport 1978; the
// epoch form of FastTrack, Flanagan and Freund 2009). Each queue is a component, and so is each (group, queue) pair,
// because a started batch is concurrent with its own queue until it is waited for. An order that exists only through
// another rank does not count: that rank may be late another time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/runtime/trace/trace.hpp"
#include "common/slice.hpp"

namespace lockstep {

/// How much of each component has happened before.
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

/// Of one rank. Components are small numbers given out by the caller: queues and channels.
class RaceDetector {
 public:
  /// Before `queue` does anything.
  int add_component();

  /// Where a queue is, for the trace alone: its place in its program, and its clock.
  struct Moment {
    std::uint32_t position = 0;
    double time = 0;
  };

  /// `queue` reads or writes a slice itself. Throws Error(race) naming both lines.
  void access(int queue, const Slice& slice, bool write, Location where, const char* what, Moment moment);

  /// `queue` starts a batch on `endpoint`: the batch's uses, and its clock from then on.
  struct Use {
    const Slice* slice;
    bool write;
    const char* what;
  };
  VectorClock start(int queue, int endpoint, const std::vector<Use>& uses, Location where, Moment moment);

  void wait(int queue, const VectorClock& finished) { clock(queue).join(finished); }

  /// Main runs a closure: the clock it begins with.
  VectorClock fork(int queue);
  void begin(int queue, const VectorClock& from) { clock(queue).join(from); }
  /// A closure's end: what waiting for it brings.
  VectorClock end(int queue);

  static void forget(Block& block);  ///< its memory is going

  /// What Error(race) was thrown for; the rank is left out, and in place of queues stand components.
  const std::optional<TraceRace>& found() const { return found_; }

 private:
  struct Touch {
    int component = -1;
    std::uint32_t tick = 0;
    bool batch = false;  // transfers of one batch go at once, so equal ticks are unordered
    std::uint32_t position = 0;
    double time = 0;
    Location where{};
    const char* what = "";
  };
  struct Segment {  // of bytes that were last used alike
    std::size_t end = 0;
    Touch write;
    std::vector<Touch> reads;  // one a component
  };
  using History = std::map<std::size_t, Segment>;

  VectorClock& clock(int component) { return clocks_[component]; }
  /// Bytes of a block from `begin` to `end`, used once more.
  struct Again {
    const Slice& slice;
    std::size_t begin, end;
    const Touch& now;
    bool write;
  };
  void touch(const VectorClock& clock, const Slice& slice, bool write, const Touch& now);
  void check(const VectorClock& clock, const Touch& before, bool wrote, const Again& again);
  static History::iterator split(History& history, std::size_t at);

  std::vector<VectorClock> clocks_;
  std::optional<TraceRace> found_;
};

}  // namespace lockstep
