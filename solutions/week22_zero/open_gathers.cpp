// Exercise 22.7, an open task: when FSDP gathers. Read labs/week22_zero/open_gathers.hpp first.
#include "labs/week22_zero/open_gathers.hpp"

#include "common/error.hpp"

namespace lockstep::week22 {

std::vector<Moment> open_gathers(const ShardedStep& step) {
  // lab 22.7 begin: as you like
  std::vector<Moment> plan(step.moments());
  std::vector<int> coming(step.units());  // uses that what is gathered is meant for
  std::size_t held = 0, next = 0;         // elements; the first use that nothing is gathered for
  for (std::size_t now = 0; now < step.moments(); ++now) {
    for (; next < step.moments(); ++next) {
      const std::size_t unit = step.used_at(next);
      if (coming[unit] == 0) {
        if (held + step.elements[unit] > step.most_elements) break;
        held += step.elements[unit];
        plan[now].gather.push_back(unit);
      }
      ++coming[unit];
    }
    const std::size_t used = step.used_at(now);
    if (--coming[used] > 0) continue;
    plan[now].free.push_back(used);
    held -= step.elements[used];
  }
  return plan;
  // lab end
}

}  // namespace lockstep::week22
