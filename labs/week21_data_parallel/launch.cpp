// Exercise 21.13: from a launcher to a job. Read labs/week21_data_parallel/launch.hpp first.
#include "labs/week21_data_parallel/launch.hpp"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace lockstep::week21 {
namespace {

/// All of `text` as a whole number of at most 9 digits, or nothing.
std::optional<int> digits(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = !text.empty() && text.size() <= 9 && text.front() != '-' && end == text.data() + text.size();
  return whole && error == std::errc{} ? std::optional(value) : std::nullopt;
}

}  // namespace

void refuse(const std::string& words) { throw Error(Verdict::usage, words); }

int whole_number(const Variables& variables, const std::string& name, int least, int most) {
  const char* text = variables(name.c_str());
  if (!text) refuse(name + " is not set");
  const std::optional<int> value = digits(text);
  if (!value || *value < least || *value > most)
    refuse(name + "=" + text + " is no whole number from " + std::to_string(least) + " to " + std::to_string(most));
  return *value;
}

std::string key_of(int restarts, int rank) {
  return "start-" + std::to_string(restarts) + "/rank-" + std::to_string(rank);
}

std::optional<Place> place_by(const Launcher& launcher, const Variables& variables) {
  todo("21.13a",
       "nothing where the launcher has set nothing; else its three numbers. Read the number of ranks first: the "
       "others are below it.");
}

Place place_of(const Variables& variables) {
  todo("21.13a",
       "the first of the four that has set something, or none. Open MPI and PMI must agree; torchrun counts its "
       "restarts.");
}

std::vector<std::string> numbers_in(const std::string& list) {
  std::vector<std::string> all;
  todo("21.13b",
       "one range after the other, up to the next comma or the end. A single number is a range from itself to "
       "itself.");
  return all;
}

std::vector<std::string> hosts_in(const std::string& list) {
  std::vector<std::string> all;
  todo("21.13b",
       "all names of the list, in its order. A character makes each name of its item longer, a bracket multiplies "
       "them; only commas outside brackets are between items.");
  return all;
}

Address meeting_point(const Variables& variables, const Place& place) {
  todo("21.13c", "MASTER_ADDR and MASTER_PORT, both or neither; a single rank; the first host that Slurm names");
}

int gpu_of(const Place& place, int visible) {
  todo("21.13c", "no GPU visible, one, or one for each rank of the host");
}

int newest_complete(const std::vector<std::string>& files) {
  int newest = -1;
  todo("21.13d", "N of each file \"step-N/manifest\"; return the largest as a number");
  return newest;
}

int come_together(Store& store, const Place& place, int newest, double timeout) {
  todo("21.13d",
       "the smallest newest step of all ranks, each of which, you too, has set its key to its own. When the time is "
       "up, an error names the missing ranks; another one says that only some have a checkpoint.");
}

int supervise(Processes& processes, double grace) {
  todo("21.13e",
       "on return none is running. The first that fails sets the exit code and begins the grace period: those still "
       "running get one signal to terminate and, after it, one to kill.");
}

}  // namespace lockstep::week21
