// Exercise 21.14: when a process dies. Read labs/week21_data_parallel/restart.hpp first.
#include "labs/week21_data_parallel/restart.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

namespace lockstep::week21 {

std::string key_of(int restarts, int rank) {
  return "start-" + std::to_string(restarts) + "/rank-" + std::to_string(rank);
}

int newest_complete(const std::vector<std::string>& files) {
  int newest = -1;
  // lab 21.14a begin: N of each file "step-N/manifest"; return the largest as a number
  for (const std::string& file : files) {
    const std::string_view name = file, before = "step-", after = "/manifest";
    if (!name.starts_with(before) || !name.ends_with(after) || name.size() < before.size() + after.size()) continue;
    const auto step = digits(name.substr(before.size(), name.size() - before.size() - after.size()));
    newest = std::max(newest, step.value_or(-1));
  }
  // lab end
  return newest;
}

int come_together(Store& store, const Place& place, int newest, double timeout) {
  // lab 21.14b begin: the smallest newest step of all ranks, each of which, you too, has set its key to its own. When
  // the time is up, an error names the missing ranks; another one says that only some have a checkpoint.
  const double end = store.now() + timeout;
  store.set(key_of(place.restarts, place.rank), std::to_string(newest));
  while (true) {
    const bool over = store.now() >= end;
    std::string missing;
    std::vector<int> steps = {newest};
    for (int rank = 0; rank < place.ranks; ++rank)
      if (const std::optional<std::string> step = store.get(key_of(place.restarts, rank)))
        steps.push_back(std::stoi(*step));
      else
        missing += " " + std::to_string(rank);
    const auto [smallest, largest] = std::ranges::minmax(steps);
    if (missing.empty() && smallest == -1 && largest != -1)
      refuse("some ranks found a checkpoint and others none: do all see the same folder?");
    if (missing.empty()) return smallest;
    if (over)
      throw Error(Verdict::timeout, "of " + std::to_string(place.ranks) + " ranks these did not come:" + missing);
    store.sleep(0.1);
  }
  // lab end
}

int supervise(Processes& processes, double grace) {
  // lab 21.14c begin: on return none is running. The first that fails sets the exit code and begins the grace period:
  // those still running get one signal to terminate and, after it, one to kill.
  int code = 0;
  double kill_at = INFINITY;
  while (true) {
    std::vector<int> running;
    const int before = code;
    for (int i = 0; i < processes.count(); ++i) {
      const std::optional<int> ended = processes.exit_code(i);
      if (!ended) running.push_back(i);
      if (code == 0) code = ended.value_or(0);
    }
    if (running.empty()) return code;
    if (before == 0 && code != 0) {
      kill_at = processes.now() + grace;
      for (int i : running) processes.terminate(i);
    } else if (processes.now() >= kill_at) {
      kill_at = INFINITY;
      for (int i : running) processes.kill(i);
    }
    processes.sleep(0.05);
  }
  // lab end
}

}  // namespace lockstep::week21
