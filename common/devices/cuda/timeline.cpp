#include "common/devices/cuda/timeline.hpp"

#include <algorithm>

namespace lockstep::cuda {

void Timeline::add(Event begin, std::vector<Event> ends, Tell tell) {
  spans_.push_back({std::move(begin), std::move(ends), std::move(tell)});
}

void Timeline::tell(EventClock& clock) {
  while (!spans_.empty()) {
    const Span& span = spans_.front();
    if (!std::all_of(span.ends.begin(), span.ends.end(), [](const Event& end) { return end.done(); })) return;
    const double begin = clock.seconds(span.begin);
    double end = begin;
    for (const Event& each : span.ends) end = std::max(end, clock.seconds(each));
    span.tell(begin, end);
    spans_.pop_front();
  }
}

}  // namespace lockstep::cuda
