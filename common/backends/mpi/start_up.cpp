#include "common/backends/mpi/start_up.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::mpi {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

std::string text_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

int number(const char* text, int otherwise) { return text ? std::atoi(text) : otherwise; }

/// Value of NAME in an environment as the kernel shows it; −1 if absent.
int value_in(const std::string& environment, const std::string& name) {
  const std::string begin = '\0' + name + '=';
  const auto at = ('\0' + environment).find(begin);
  return at == environment.npos ? -1 : std::atoi(environment.c_str() + at + begin.size() - 1);
}

/// Ranks (in MPI_COMM_WORLD) on this host whose processes have not ended. Open MPI's launcher starts all of them itself
/// and tells each its number; empty with other launchers.
std::optional<std::vector<int>> living_ranks() {
  const std::string parent = std::to_string(getppid()), launcher = text_of("/proc/" + parent + "/comm");
  const auto is = [&](const char* name) { return launcher.starts_with(name); };
  if (!std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE") || !(is("mpirun") || is("orte") || is("prte"))) return std::nullopt;
  std::vector<int> ranks;
  std::error_code none;
  for (const auto& thread : fs::directory_iterator("/proc/" + parent + "/task", none)) {
    std::ifstream children(thread.path() / "children");
    for (std::string child; children >> child;) {
      const int rank = value_in(text_of("/proc/" + child + "/environ"), "OMPI_COMM_WORLD_RANK");
      if (rank >= 0) ranks.push_back(rank);
    }
  }
  if (ranks.empty()) return std::nullopt;  // this kernel lists no children
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

/// Describes the processes that are gone; `here` of the job's `ranks` should be on this host.
std::string who_ended(const std::vector<int>& living, std::size_t here, int ranks) {
  std::string who = fmt::format("{} of {} processes on this host", here - living.size(), here);
  if (here == static_cast<std::size_t>(ranks))  // all are here, so the missing ranks are known
    for (int rank = 0; rank < ranks; ++rank)
      if (!std::binary_search(living.begin(), living.end(), rank)) who = fmt::format("rank {}", rank);
  return who + " ended before MPI had started: killed, or out of memory?";
}

[[noreturn]] void end(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  // On a busy computer, Open MPI would otherwise end the job before it has read this.
  std::this_thread::sleep_for(std::chrono::seconds(1));
  std::_Exit(1);
}

}  // namespace

StartUpWatch::StartUpWatch() : thread_([this] { watch(); }) {}

StartUpWatch::~StartUpWatch() {
  if (const char* file = std::getenv("LOCKSTEP_MPI_STARTED")) std::ofstream{file};  // read by launch/watched.sh
  {
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void StartUpWatch::watch() {
  using namespace std::chrono_literals;
  const int ranks = number(std::getenv("OMPI_COMM_WORLD_SIZE"), number(std::getenv("LOCKSTEP_MPI_RANKS"), 1));
  const int rank = number(std::getenv("OMPI_COMM_WORLD_RANK"), number(std::getenv("PMI_RANK"), 0));
  const auto here = static_cast<std::size_t>(number(std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE"), 1));
  const auto limit = std::chrono::seconds(std::max(60, ranks));
  const auto begin = Clock::now();
  auto complete = begin;                 // last time no process was missing
  std::optional<std::vector<int>> left;  // ranks alive when one was first missing: the others end soon after
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, 500ms, [this] { return over_; })) {
    const auto now = Clock::now();
    const auto living = living_ranks();
    if (!living || living->size() >= here)
      complete = now, left.reset();
    else if (!left)
      left = living;
    // The first one reports, and its end ends all. The others wait: an earlier silent end would hide the report.
    const auto behind = [&](int first) { return rank == first ? 0s : 3s; };
    if (left && now - complete > 5s + behind(left->front())) end(who_ended(*left, here, ranks));
    if (now - begin > limit + behind(0))
      end(fmt::format("MPI did not start within {} s: does every host have all processes of the job?", limit.count()));
  }
}

}  // namespace lockstep::mpi
