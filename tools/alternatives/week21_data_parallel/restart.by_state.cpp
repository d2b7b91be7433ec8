// 21.14 with ranks that are waited for one after the other, and a state for each process.
#include "labs/week21_data_parallel/restart.hpp"

#include <algorithm>
#include <map>
#include <sstream>

namespace lockstep::week21 {
namespace {

/// A process's state at the end of the job.
enum class Standing { runs, told, killed, ended };

}  // namespace

std::string key_of(int restarts, int rank) {
  std::ostringstream key;
  key << "start-" << restarts << "/rank-" << rank;
  return key.str();
}

int newest_complete(const std::vector<std::string>& files) {
  std::vector<int> steps = {-1};
  for (const std::string& file : files) {
    const auto slash = file.find('/');
    if (slash == std::string::npos || file.substr(slash) != "/manifest" || file.substr(0, 5) != "step-") continue;
    const std::string number = file.substr(5, slash - 5);
    if (const auto step = digits(number)) steps.push_back(*step);
  }
  return *std::ranges::max_element(steps);
}

int come_together(Store& store, const Place& place, int newest, double timeout) {
  const double began = store.now();
  store.set(key_of(place.restarts, place.rank), std::to_string(newest));
  std::map<int, int> steps;
  const auto ask = [&](int rank) {
    const auto said = store.get(key_of(place.restarts, rank));
    if (said) steps[rank] = std::stoi(*said);
    return said.has_value();
  };
  int rank = 0;
  while (rank < place.ranks) {
    if (ask(rank)) {
      ++rank;
      continue;
    }
    const double left = timeout - (store.now() - began);
    if (left > 1e-6) {
      store.sleep(std::min(left, 0.5));
      continue;
    }
    std::string missing;
    for (int late = rank; late < place.ranks; ++late)
      if (!ask(late)) missing += (missing.empty() ? "" : ", ") + std::to_string(late);
    if (missing.empty()) break;
    throw Error(Verdict::timeout, "no word from rank " + missing);
  }
  int least = newest, without = 0;
  for (const auto& [of, step] : steps) least = std::min(least, step), without += step < 0 ? 1 : 0;
  if (without > 0 && without < place.ranks) refuse(std::to_string(without) + " ranks see no checkpoint, the others do");
  return least;
}

int supervise(Processes& processes, double grace) {
  std::vector<Standing> all(static_cast<std::size_t>(processes.count()), Standing::runs);
  int code = 0;
  double kill_at = 0;
  for (std::size_t left = all.size(); left > 0;) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i] == Standing::ended) continue;
      const auto ended = processes.exit_code(static_cast<int>(i));
      if (!ended) continue;
      all[i] = Standing::ended;
      --left;
      if (code == 0 && *ended != 0) code = *ended, kill_at = processes.now() + grace;
    }
    if (left == 0) break;
    for (std::size_t i = 0; code != 0 && i < all.size(); ++i) {
      if (all[i] == Standing::runs) {
        processes.terminate(static_cast<int>(i));
        all[i] = Standing::told;
      } else if (all[i] == Standing::told && processes.now() >= kill_at) {
        processes.kill(static_cast<int>(i));
        all[i] = Standing::killed;
      }
    }
    processes.sleep(0.5);
  }
  return code;
}

}  // namespace lockstep::week21
