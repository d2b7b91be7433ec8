#include "common/backends/nccl/session.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "common/backends/nccl/rank.hpp"
#include "common/backends/nccl/status.hpp"

namespace lockstep::nccl {

namespace {

bool is_set(const char* name, const char* value) {
  const char* text = std::getenv(name);
  return text && std::strcmp(text, value) == 0;
}

/// Places of all processes, after all have agreed that the job can run there.
std::vector<Placement> checked_placements(Bootstrap& bootstrap, int local_rank) {
  std::vector<Placement> places = gather_placements(bootstrap, local_rank);
  const Objection no = objection(places, library_version(), is_set("NCCL_MULTI_RANK_GPU_ENABLE", "1"));
  if (no.no_device) throw NoDevice(no.text);
  if (!no.text.empty()) throw Error(Verdict::usage, no.text);
  if (bootstrap.rank() == 0 && (is_set("LOCKSTEP_BINDING", "1") || is_set("NCCL_DEBUG", "INFO")))
    std::fputs(format_binding(places).c_str(), stderr);
  return places;
}

/// Prints in a single write, since several processes share the terminal.
void say(const std::string& text) { (void)!write(STDERR_FILENO, text.data(), text.size()); }

}  // namespace

Processes::Processes(const Environment& environment)
    : bootstrap_(make_bootstrap(environment)),
      places_(checked_placements(*bootstrap_, environment.local_rank)),
      control_(*bootstrap_, environment.timeout_seconds,
               {.lost = [this](int rank) { lost(rank); }, .ended = [](const std::string&) { std::_Exit(1); }}),
      memory_(gpu()),
      staging_(events_),
      supplies_(NcclRank::kQueues),
      communicators_(control_, events_) {
  staging_.prepare();
}

void Processes::end_job(const std::string& message) {
  std::fflush(stdout);
  say(message + "\n");
  control_.end_job(message);
  std::_Exit(1);
}

/// Called when a process has died. The lowest living rank reports it; others that notice wait a moment for that, then
/// end too.
void Processes::lost(int rank) {
  int lowest = 0;
  while (lowest == rank || control_.has_left(lowest)) ++lowest;
  if (control_.rank() != lowest) std::this_thread::sleep_for(std::chrono::milliseconds(500));
  end_job(
      fmt::format("CRASH: rank {} on {} died, as {} on {} reports. The job is terminated.", rank, places_[rank].host,
                  control_.rank() == lowest ? fmt::format("rank {}", lowest) : fmt::format("rank {}", control_.rank()),
                  host_name()));
}

}  // namespace lockstep::nccl
