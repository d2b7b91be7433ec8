// 22.7 from the other end: when must each gather begin so that it is done in time, if all before it are? Then forward,
// no earlier than that and no fuller than the room.
#include "labs/week22_zero/open_gathers.hpp"

#include <algorithm>

namespace lockstep::week22 {
namespace {

/// By use: the latest moment at whose begin its gather can start, with the queue free for it alone.
std::vector<std::size_t> latest_moments(const ShardedStep& step) {
  std::vector<double> begins(step.moments());  // of moments, where nobody waits
  for (std::size_t t = 1; t < step.moments(); ++t)
    begins[t] = begins[t - 1] + step.forward_seconds[step.used_at(t - 1)] * (t > step.units() ? 2 : 1);
  std::vector<std::size_t> latest(step.moments());
  double must_begin = 0;
  for (std::size_t use = step.moments(); use-- > 0;) {
    const double seconds = step.gather_seconds[step.used_at(use)] * (use >= step.units() ? 2 : 1);  // and a reduction
    must_begin = std::min(use + 1 == step.moments() ? begins[use] : must_begin, begins[use]) - seconds;
    std::size_t moment = use;
    while (moment > 0 && begins[moment] > must_begin) --moment;
    latest[use] = moment;
  }
  return latest;
}

}  // namespace

std::vector<Moment> open_gathers(const ShardedStep& step) {
  const std::vector<std::size_t> latest = latest_moments(step);
  std::vector<Moment> plan(step.moments());
  std::vector<std::size_t> needed_until(step.units(),
                                        0);  // one more than the last use that a gathered unit is kept for
  std::size_t held = 0, next = 0;
  for (std::size_t now = 0; now < step.moments(); ++now) {
    while (next < step.moments() && (latest[next] <= now + 1 || next <= now)) {
      const std::size_t unit = step.used_at(next);
      if (needed_until[unit] == 0) {
        if (held + step.elements[unit] > step.most_elements) break;
        held += step.elements[unit];
        plan[now].gather.push_back(unit);
      }
      needed_until[unit] = ++next;
    }
    const std::size_t used = step.used_at(now);
    if (needed_until[used] > now + 1) continue;
    needed_until[used] = 0;
    held -= step.elements[used];
    plan[now].free.push_back(used);
  }
  return plan;
}

}  // namespace lockstep::week22
