// Exercise 21.13: from a launcher to a job. Read labs/week21_data_parallel/launch.hpp first.
#include "labs/week21_data_parallel/launch.hpp"

#include <algorithm>

namespace lockstep::week21 {

int whole_number(const Variables& variables, const std::string& name, int least, int most) {
  const char* text = variables(name.c_str());
  if (!text) refuse(name + " is not set");
  const std::optional<int> value = digits(text);
  if (!value || *value < least || *value > most)
    refuse(name + "=" + text + " is no whole number from " + std::to_string(least) + " to " + std::to_string(most));
  return *value;
}

std::optional<Place> place_by(const Launcher& launcher, const Variables& variables) {
  // lab 21.13a begin: nothing where the launcher has set nothing; else its three numbers. Read the number of ranks
  // first: the others are below it.
  const bool says_ranks = launcher.name != kSlurm.name && variables(launcher.ranks);
  if (!variables(launcher.rank) && !says_ranks) return std::nullopt;
  Place place{.launcher = launcher.name};
  place.ranks = whole_number(variables, launcher.ranks, 1, 1'000'000);
  place.rank = whole_number(variables, launcher.rank, 0, place.ranks - 1);
  const bool elsewhere = !variables(launcher.local_rank) && variables(launcher.local_rank_else);
  place.local_rank =
      whole_number(variables, elsewhere ? launcher.local_rank_else : launcher.local_rank, 0, place.ranks - 1);
  return place;
  // lab end
}

Place place_of(const Variables& variables) {
  // lab 21.13a begin: the first of the four that has set something, or none. Open MPI and PMI must agree; torchrun
  // counts its restarts.
  if (std::optional<Place> place = place_by(kTorchrun, variables)) {
    const bool limited = variables("TORCHELASTIC_MAX_RESTARTS"), counted = variables("TORCHELASTIC_RESTART_COUNT");
    const int most = limited ? whole_number(variables, "TORCHELASTIC_MAX_RESTARTS", 0, 1'000'000) : 1'000'000;
    if (counted) place->restarts = whole_number(variables, "TORCHELASTIC_RESTART_COUNT", 0, most);
    return *place;
  }
  const std::optional<Place> open_mpi = place_by(kOpenMpi, variables), pmi = place_by(kPmi, variables);
  if (open_mpi && pmi && (open_mpi->rank != pmi->rank || open_mpi->ranks != pmi->ranks))
    refuse("OMPI_COMM_WORLD_RANK and _SIZE say another rank than PMI_RANK and PMI_SIZE: which launcher started this?");
  if (open_mpi || pmi) return open_mpi ? *open_mpi : *pmi;
  return place_by(kSlurm, variables).value_or(Place{});
  // lab end
}

std::vector<std::string> numbers_in(const std::string& list) {
  std::vector<std::string> all;
  // lab 21.13b begin: one range after the other, up to the next comma or the end. A single number is a range from
  // itself to itself.
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    const std::string range = list.substr(at, end - at);
    const std::size_t dash = std::min(range.find('-'), range.size());
    const std::optional<int> first = digits(range.substr(0, dash));
    const std::optional<int> last = dash < range.size() ? digits(range.substr(dash + 1)) : first;
    if (!first || !last || *last < *first) refuse("'" + range + "' in [" + list + "] is no number and no range");
    if (*last - *first >= 100'000 - static_cast<int>(all.size()))
      refuse("[" + list + "] has more than 100,000 numbers");
    for (int n = *first; n <= *last; ++n) {
      const std::string number = std::to_string(n);
      all.push_back(std::string(dash > number.size() ? dash - number.size() : 0, '0') + number);
    }
    at = end + 1;
  }
  // lab end
  return all;
}

std::vector<std::string> hosts_in(const std::string& list) {
  std::vector<std::string> all, names = {""};  // names: of the item that is being read
  // lab 21.13c begin: all names of the list, in its order. A character makes each name of its item longer, a bracket
  // multiplies them; only commas outside brackets are between items.
  for (std::size_t at = 0; at <= list.size(); ++at) {
    if (at == list.size() || list[at] == ',') {
      if (names.front().empty()) refuse("'" + list + "' has an empty name");
      all.insert(all.end(), names.begin(), names.end());
      names = {""};
      continue;
    }
    if (list[at] == ']') refuse("'" + list + "' has a ] without its [");
    std::vector<std::string> ends = {std::string(1, list[at])}, longer;
    if (list[at] == '[') {
      const std::size_t close = list.find(']', at);
      if (close == std::string::npos) refuse("'" + list + "' has a [ without its ]");
      ends = numbers_in(list.substr(at + 1, close - at - 1));
      at = close;
    }
    if (names.size() * ends.size() > 100'000) refuse("'" + list + "' has more than 100,000 names");
    for (const std::string& name : names)
      for (const std::string& end : ends) longer.push_back(name + end);
    names = longer;
  }
  // lab end
  return all;
}

Address meeting_point(const Variables& variables, const Place& place) {
  // lab 21.13d begin: MASTER_ADDR and MASTER_PORT, both or neither; a single rank; the first host that Slurm names
  const char *host = variables("MASTER_ADDR"), *port = variables("MASTER_PORT");
  if (!host != !port) refuse("MASTER_ADDR and MASTER_PORT go together, and one of them is not set");
  if (host && !*host) refuse("MASTER_ADDR is empty");
  if (host) return {host, whole_number(variables, "MASTER_PORT", 1, 65535)};
  if (place.ranks == 1) return {"127.0.0.1", 29500};
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"})
    if (const char* hosts = variables(name))
      return {hosts_in(hosts).front(), 20000 + whole_number(variables, "SLURM_JOB_ID", 0, 999'999'999) % 20000};
  refuse("MASTER_ADDR and MASTER_PORT are not set, and Slurm names no hosts: where does rank 0 listen?");
  // lab end
}

int gpu_of(const Place& place, int visible) {
  // lab 21.13d begin: no GPU visible, one, or one for each rank of the host
  if (visible <= 1) return visible - 1;
  if (place.local_rank >= visible)
    refuse("local rank " + std::to_string(place.local_rank) + " has no GPU: " + std::to_string(visible) +
           " are visible; start at most as many ranks a host");
  return place.local_rank;
  // lab end
}

}  // namespace lockstep::week21
