// Exercise 21.13: from a launcher to a job. Which rank this process is, where it meets the others, and which GPU is its
// own.
//
// torchrun: PyTorch's documentation, "torchrun (Elastic Launch)". Open MPI: mpirun(1), "Environment variables". MPICH:
// the Hydra process manager. Slurm: srun(1), "OUTPUT ENVIRONMENT VARIABLES".
//
// Missing or contradictory variables are refused: Error(Verdict::usage) with a message that names the variable.
#pragma once

#include <charconv>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "common/error.hpp"

namespace lockstep::week21 {

/// A variable's value, or null where it is not set: std::getenv, or a test's.
using Variables = std::function<const char*(const char* name)>;

/// Given: throws Error(Verdict::usage).
[[noreturn]] inline void refuse(const std::string& words) { throw Error(Verdict::usage, words); }

/// Given: all of `text` as a whole number of at most 9 digits, or nothing.
inline std::optional<int> digits(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = !text.empty() && text.size() <= 9 && text.front() != '-' && end == text.data() + text.size();
  return whole && error == std::errc{} ? std::optional(value) : std::nullopt;
}

/// Given: the whole number from `least` to `most` that the variable `name` holds: digits and nothing else. Refuses
/// other values, and a variable that is not set.
int whole_number(const Variables& variables, const std::string& name, int least, int most);

// a. Who am I? --------------------------------------------------------------------------------------------------------

struct Place {
  std::string launcher;  ///< "torchrun", "Open MPI", "PMI" or "Slurm"; empty: no launcher, this process is alone
  int rank = 0;
  int ranks = 1;       ///< the world size
  int local_rank = 0;  ///< among the ranks of this host
  int restarts = 0;    ///< how often torchrun has restarted the job
};

/// The variables that a launcher sets. `local_rank_else`: where `local_rank` is not set (srun --mpi=pmi2).
struct Launcher {
  const char* name;
  const char* rank;
  const char* ranks;
  const char* local_rank;
  const char* local_rank_else;
};
/// Given. PMI is MPICH's and Intel's.
inline constexpr Launcher kTorchrun = {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_RANK"};
inline constexpr Launcher kOpenMpi = {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                      "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"};
inline constexpr Launcher kPmi = {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "SLURM_LOCALID"};
inline constexpr Launcher kSlurm = {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_LOCALID"};

/// Returns the place that one launcher has set. Nothing if neither its rank nor its number of ranks is set; for Slurm,
/// if its rank is not: salloc sets SLURM_NTASKS in a shell that is not a task. Otherwise all three must be set, and 0 ≤
/// rank < ranks, 0 ≤ local rank < ranks.
std::optional<Place> place_by(const Launcher& launcher, const Variables& variables);

/// The first launcher that has set something, in this order: torchrun, Open MPI, PMI, Slurm, since Slurm may have
/// started mpirun, and either may have started torchrun. Open MPI and PMI do not start each other: where both have set
/// something, rank and ranks must agree. For torchrun, `restarts` is TORCHELASTIC_RESTART_COUNT, 0 where it is not set;
/// it cannot be more than TORCHELASTIC_MAX_RESTARTS, where that is set.
Place place_of(const Variables& variables);

// b. Numbers of a list ------------------------------------------------------------------------------------------------

/// "01-03,07" is 01, 02, 03, 07: whole numbers and ranges of them, written with at least as many digits as the range's
/// first. Refuses anything that is not such a list, a range that runs backwards, and more than 100,000 numbers.
std::vector<std::string> numbers_in(const std::string& list);

// c. Slurm's host lists -----------------------------------------------------------------------------------------------

/// "gpu[01-03,07],login" is gpu01, gpu02, gpu03, gpu07, login. A name may have brackets anywhere, and several:
/// "r[1-2]n[0-1]-ib" is r1n0-ib, r1n1-ib, r2n0-ib, r2n1-ib. Refuses an empty name, brackets
/// that do not match, and an item of more than 100,000 names.
std::vector<std::string> hosts_in(const std::string& list);

// d. The rendezvous address, and the GPU of a rank --------------------------------------------------------------------

struct Address {
  std::string host;
  int port = 0;
};

/// MASTER_ADDR and MASTER_PORT (1 to 65535), of which both or neither must be set. Without them, a single rank uses
/// 127.0.0.1, port 29500; several ranks use the first host of the first of SLURM_STEP_NODELIST, SLURM_JOB_NODELIST and
/// SLURM_NODELIST that is set, and port 20000 + SLURM_JOB_ID mod 20000, so that two jobs on a host do not collide.
/// Refuses several ranks with neither.
Address meeting_point(const Variables& variables, const Place& place);

/// The GPU of this rank, of the `visible` ones: the local rank. −1 where none is visible: the CPU. 0 where one is,
/// whatever the local rank: srun --gpus-per-task=1 shows each process only its own. Otherwise refuses a local rank that
/// has no GPU.
int gpu_of(const Place& place, int visible);

}  // namespace lockstep::week21
