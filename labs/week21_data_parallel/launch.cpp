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
  std::vector<std::string> all, names = {""};  // names: of the item that is being read
  todo("21.13c",
       "all names of the list, in its order. A character makes each name of its item longer, a bracket multiplies "
       "them; only commas outside brackets are between items.");
  return all;
}

Address meeting_point(const Variables& variables, const Place& place) {
  todo("21.13d", "MASTER_ADDR and MASTER_PORT, both or neither; a single rank; the first host that Slurm names");
}

int gpu_of(const Place& place, int visible) {
  todo("21.13d", "no GPU visible, one, or one for each rank of the host");
}

}  // namespace lockstep::week21
