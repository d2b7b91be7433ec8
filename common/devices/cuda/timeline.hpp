// What happened when, known only after the GPU has passed: spans between events, told to the ledgers in the order
// added.
#pragma once

#include <deque>
#include <functional>
#include <vector>

#include "common/devices/cuda/event.hpp"

namespace lockstep::cuda {

class Timeline {
 public:
  using Tell = std::function<void(double begin, double end)>;  // seconds since the run began

  void add(Event begin, Event end, Tell tell) {
    add(std::move(begin), std::vector<Event>{std::move(end)}, std::move(tell));
  }
  /// Ends with the last of `ends`.
  void add(Event begin, std::vector<Event> ends, Tell tell);

  /// Tells of the spans that the GPU has passed, as far as they are the oldest.
  void tell(EventClock& clock);
  std::size_t size() const { return spans_.size(); }

 private:
  struct Span {
    Event begin;
    std::vector<Event> ends;
    Tell tell;
  };
  std::deque<Span> spans_;
};

}  // namespace lockstep::cuda
