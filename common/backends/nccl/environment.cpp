#include "common/backends/nccl/environment.hpp"

#include <fmt/format.h>

#include <charconv>
#include <string_view>

#include "common/error.hpp"

namespace lockstep::nccl {

namespace {

/// Launchers by their variables, the most explicit first. SLURM_STEP_NUM_TASKS is set by srun alone, SLURM_NTASKS also
/// in a batch script, which is no rank.
struct Launcher {
  const char* rank;
  const char* ranks;
  bool mpi;
};
constexpr Launcher kLaunchers[] = {
    {"LOCKSTEP_RANK", "LOCKSTEP_RANKS", false},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", true},
    {"PMI_RANK", "PMI_SIZE", true},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", false},
};

int whole_number(const char* name, std::string_view text) {
  int value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    throw Error(Verdict::usage, fmt::format("{}={}: a whole number, please", name, text));
  return value;
}

}  // namespace

Environment read_environment(const Variables& variables) {
  Environment found;
  for (const Launcher& launcher : kLaunchers) {
    const char *rank = variables(launcher.rank), *ranks = variables(launcher.ranks);
    if (!rank || !ranks) continue;
    found.rank = whole_number(launcher.rank, rank);
    found.ranks = whole_number(launcher.ranks, ranks);
    found.launcher = launcher.rank;
    found.mpi = launcher.mpi || variables("PMIX_RANK");
    break;
  }
  if (found.ranks < 1 || found.rank < 0 || found.rank >= found.ranks)
    throw Error(Verdict::usage, fmt::format("{}={} is no rank of {}", found.launcher, found.rank, found.ranks));
  if (const char* store = variables("LOCKSTEP_STORE")) found.store = store;
  if (const char* seconds = variables("LOCKSTEP_STORE_TIMEOUT"))
    found.timeout_seconds = whole_number("LOCKSTEP_STORE_TIMEOUT", seconds);
  return found;
}

}  // namespace lockstep::nccl
