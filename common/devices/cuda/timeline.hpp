// Timing that is known only after the GPU has passed: spans between events, reported to the ledgers in the order added.
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
  /// Adds a span that ends with the last of `ends`.
  void add(Event begin, std::vector<Event> ends, Tell tell);

  /// Reports the oldest spans, as long as the GPU has passed them.
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
