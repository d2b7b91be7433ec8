// 21.13 with a struct of what each launcher left unset, and host lists by recursion over the first bracket.
#include "labs/week21_data_parallel/launch.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>

namespace lockstep::week21 {
namespace {

constexpr int kMany = 100'000;

bool all_digits(const std::string& text) {
  return !text.empty() && text.size() < 10 &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

struct Asked {
  const Launcher& by;
  const Variables& variables;
  int number(const char* name, int least, int most) const {
    const char* text = variables(name);
    if (!text) refuse(std::string(by.name) + " set other variables, and not " + name);
    if (!all_digits(text) || std::stoi(text) < least || std::stoi(text) > most)
      refuse(std::string(name) + " is '" + text + "'");
    return std::stoi(text);
  }
};

/// "a", "b" of "a,b": commas inside brackets do not count.
std::vector<std::string> items_of(const std::string& list) {
  std::vector<std::string> items = {""};
  bool inside = false;
  for (const char c : list) {
    if (c == '[' && inside) refuse(list + ": a [ within brackets");
    if (c == ']' && !inside) refuse(list + ": a ] too many");
    if (c == '[' || c == ']') inside = !inside;
    if (c == ',' && !inside)
      items.emplace_back();
    else
      items.back() += c;
  }
  if (inside) refuse(list + ": a [ that is not closed");
  return items;
}

std::vector<std::string> names_of(const std::string& item) {
  const std::size_t open = item.find('[');
  if (open == std::string::npos) return {item};
  const std::size_t close = item.find(']', open);
  const std::vector<std::string> rests = names_of(item.substr(close + 1));
  const std::vector<std::string> numbers = numbers_in(item.substr(open + 1, close - open - 1));
  if (numbers.size() * rests.size() > kMany) refuse(item + ": too many names");
  std::vector<std::string> all;
  for (const std::string& number : numbers)
    for (const std::string& rest : rests) all.push_back(item.substr(0, open) + number + rest);
  return all;
}

}  // namespace

int whole_number(const Variables& variables, const std::string& name, int least, int most) {
  return Asked{kTorchrun, variables}.number(name.c_str(), least, most);
}

std::optional<Place> place_by(const Launcher& launcher, const Variables& variables) {
  const bool has_rank = variables(launcher.rank) != nullptr, has_ranks = variables(launcher.ranks) != nullptr;
  const bool slurm = std::string(launcher.rank) == "SLURM_PROCID";
  if (!has_rank && (slurm || !has_ranks)) return {};
  const Asked asked{launcher, variables};
  const int rank = asked.number(launcher.rank, 0, 999'999'999), ranks = asked.number(launcher.ranks, 1, 999'999'999);
  const char* name = launcher.local_rank;
  if (!variables(name) && variables(launcher.local_rank_else)) name = launcher.local_rank_else;
  const int local = asked.number(name, 0, 999'999'999);
  if (rank >= ranks) refuse(std::string(launcher.rank) + " is outside the job");
  if (local >= ranks) refuse(std::string(name) + " is outside the job");
  return Place{launcher.name, rank, ranks, local, 0};
}

Place place_of(const Variables& variables) {
  if (auto place = place_by(kTorchrun, variables)) {
    const Asked asked{kTorchrun, variables};
    if (variables("TORCHELASTIC_RESTART_COUNT"))
      place->restarts = asked.number("TORCHELASTIC_RESTART_COUNT", 0, 999'999'999);
    if (variables("TORCHELASTIC_MAX_RESTARTS") &&
        asked.number("TORCHELASTIC_MAX_RESTARTS", 0, 999'999'999) < place->restarts)
      refuse("TORCHELASTIC_RESTART_COUNT is above TORCHELASTIC_MAX_RESTARTS");
    return *place;
  }
  std::vector<Place> said;
  for (const Launcher* launcher : {&kOpenMpi, &kPmi})
    if (auto place = place_by(*launcher, variables)) said.push_back(*place);
  if (said.size() == 2 && (said[0].rank != said[1].rank || said[0].ranks != said[1].ranks))
    refuse("two launchers, two places: compare OMPI_COMM_WORLD_RANK with PMI_RANK, and the sizes");
  if (!said.empty()) return said.front();
  const auto slurm = place_by(kSlurm, variables);
  return slurm ? *slurm : Place{};
}

std::vector<std::string> numbers_in(const std::string& list) {
  std::vector<std::string> all;
  std::istringstream ranges(list + ",");
  for (std::string range; std::getline(ranges, range, ',');) {
    const auto dash = range.find('-');
    std::string first = range.substr(0, dash);
    const std::string last = dash == std::string::npos ? first : range.substr(dash + 1);
    if (!all_digits(first) || !all_digits(last) || std::stoi(first) > std::stoi(last)) refuse(range + " is no range");
    if (std::stoi(last) - std::stoi(first) + 1 > kMany - static_cast<int>(all.size())) refuse(list + ": too many");
    for (int left = std::stoi(last) - std::stoi(first) + 1; left > 0; --left) {
      all.push_back(first);
      auto digit = first.rbegin();  // one more, as with a pencil
      while (digit != first.rend() && *digit == '9') *digit++ = '0';
      if (digit == first.rend())
        first.insert(0, "1");
      else
        ++*digit;
    }
  }
  return all;
}

std::vector<std::string> hosts_in(const std::string& list) {
  std::vector<std::string> all;
  for (const std::string& item : items_of(list)) {
    if (item.empty()) refuse("'" + list + "': a name without letters");
    for (const std::string& name : names_of(item)) all.push_back(name);
  }
  return all;
}

Address meeting_point(const Variables& variables, const Place& place) {
  const auto text = [&](const char* name) {
    const char* value = variables(name);
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
  const auto host = text("MASTER_ADDR"), port = text("MASTER_PORT");
  if (host.has_value() != port.has_value()) refuse(host ? "MASTER_PORT is not set" : "MASTER_ADDR is not set");
  if (host && host->empty()) refuse("MASTER_ADDR is ''");
  if (host) return {*host, whole_number(variables, "MASTER_PORT", 1, 65535)};
  if (place.ranks < 2) return {"127.0.0.1", 29500};
  auto hosts = text("SLURM_STEP_NODELIST");
  if (!hosts) hosts = text("SLURM_JOB_NODELIST");
  if (!hosts) hosts = text("SLURM_NODELIST");
  if (!hosts) refuse("nobody says where to meet: set MASTER_ADDR and MASTER_PORT");
  const int job = whole_number(variables, "SLURM_JOB_ID", 0, 999'999'999);
  return {hosts_in(*hosts)[0], 20000 + job % 20000};
}

int gpu_of(const Place& place, int visible) {
  switch (visible) {
    case 0: return -1;
    case 1: return 0;
    default:
      if (place.local_rank < visible) return place.local_rank;
      refuse("more ranks on this host than its " + std::to_string(visible) + " GPUs");
  }
}

}  // namespace lockstep::week21
