// Two uses of the same bytes of one rank, one of them a write, with nothing in the rank's own program to order them.
//
// Memory belongs to one rank, so vector clocks over that rank's queues suffice (happens-before, Lamport 1978; the
// epoch form of FastTrack, Flanagan and Freund 2009). Each queue is a component, and so is each (group, queue) pair,
// because a started batch is concurrent with its own queue until it is waited for. An order that exists only through
// another rank does not count: that rank may be late another time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

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

  /// `queue` reads or writes a slice itself. Throws Error(race) naming both lines.
  void access(int queue, const Slice& slice, bool write, Location where, const char* what);

  /// `queue` starts a batch on `endpoint`: the batch's uses, and its clock from then on.
  struct Use {
    const Slice* slice;
    bool write;
    const char* what;
  };
  VectorClock start(int queue, int endpoint, const std::vector<Use>& uses, Location where);

  void wait(int queue, const VectorClock& finished) { clock(queue).join(finished); }

  /// Main runs a closure: the clock it begins with.
  VectorClock fork(int queue);
  void begin(int queue, const VectorClock& from) { clock(queue).join(from); }
  /// A closure's end: what waiting for it brings.
  VectorClock end(int queue);

  static void forget(Block& block);  ///< its memory is going

 private:
  struct Touch {
    int component = -1;
    std::uint32_t tick = 0;
    bool batch = false;  // transfers of one batch go at once, so equal ticks are unordered
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
  void touch(const VectorClock& clock, const Slice& slice, bool write, Touch now);
  static void check(const VectorClock& clock, const Touch& before, bool wrote, const Touch& now, bool write,
                    const Slice& slice);
  static History::iterator split(History& history, std::size_t at);

  std::vector<VectorClock> clocks_;
};

}  // namespace lockstep
