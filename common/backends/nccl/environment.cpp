#include "common/backends/nccl/environment.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "common/error.hpp"
#include "common/support/text/parse_number.hpp"

namespace lockstep::nccl {

namespace {

/// Launchers and their variables, the most explicit first. srun alone sets SLURM_STEP_NUM_TASKS; SLURM_NTASKS is also
/// set in a batch script, which is not a rank.
struct Launcher {
  const char* rank;
  const char* ranks;
  bool mpi;
};
constexpr const char* kTorchrun[] = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"};
constexpr Launcher kLaunchers[] = {
    {"LOCKSTEP_RANK", "LOCKSTEP_RANKS", false},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", true},
    {"PMI_RANK", "PMI_SIZE", true},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", false},
};

int whole_number(const char* name, std::string_view text) {
  const std::optional<int> value = parse_number<int>(text);
  if (!value) throw Error(Verdict::usage, fmt::format("{}={}: must be a whole number", name, text));
  return *value;
}

/// True if torchrun started this process. Its variables have common names, so all must be set. They take precedence
/// over those of MPI and Slurm, which torchrun's processes inherit if one torchrun per host was started by these.
bool from_torchrun(const Variables& variables) {
  return !variables("LOCKSTEP_RANK") &&
         std::ranges::all_of(kTorchrun, [&](const char* name) { return variables(name); });
}

Environment read_torchrun(const Variables& variables) {
  const auto number = [&](const char* name) { return whole_number(name, variables(name)); };
  Environment found{.rank = number("RANK"), .ranks = number("WORLD_SIZE"), .local_rank = number("LOCAL_RANK")};
  found.launcher = "RANK";
  // torchrun may itself listen at MASTER_PORT, with a store for PyTorch processes. Rank 0 then takes the next port.
  const char* taken = variables("TORCHELASTIC_USE_AGENT_STORE");
  int port = number("MASTER_PORT");
  if (taken && std::string_view(taken) == "True") port += port < 65535 ? 1 : -1;
  found.store = fmt::format("tcp://{}:{}", variables("MASTER_ADDR"), port);
  return found;
}

Environment read_launcher(const Variables& variables) {
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
  return found;
}

}  // namespace

Environment read_environment(const Variables& variables) {
  Environment found = from_torchrun(variables) ? read_torchrun(variables) : read_launcher(variables);
  if (found.ranks < 1 || found.rank < 0 || found.rank >= found.ranks)
    throw Error(Verdict::usage, fmt::format("{}={} is not one of {} ranks", found.launcher, found.rank, found.ranks));
  if (const char* store = variables("LOCKSTEP_STORE")) found.store = store;
  if (const char* seconds = variables("LOCKSTEP_STORE_TIMEOUT"))
    found.timeout_seconds = whole_number("LOCKSTEP_STORE_TIMEOUT", seconds);
  return found;
}

}  // namespace lockstep::nccl
