// Identity of this process among those started together, read once from the launcher's environment variables.
#pragma once

#include <functional>
#include <string>

namespace lockstep::nccl {

struct Environment {
  int rank = 0;
  int ranks = 1;
  int local_rank = -1;          // rank among those of its host, if the launcher gives it
  std::string launcher;         // the variable that gave the rank, "LOCKSTEP_RANK"; empty: single process
  bool mpi = false;             // an MPI launcher started this process
  std::string store;            // LOCKSTEP_STORE: meeting place without MPI; empty: none
  double timeout_seconds = 60;  // LOCKSTEP_STORE_TIMEOUT: how long to wait there for the others
};

/// Returns a variable's value, or null: std::getenv, or a test's own function.
using Variables = std::function<const char*(const char*)>;

/// Reads LOCKSTEP_RANK and LOCKSTEP_RANKS, torchrun's RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT
/// (together; the processes meet at that address unless LOCKSTEP_STORE names another), Open MPI's OMPI_COMM_WORLD_*,
/// PMI_* (MPICH, Intel MPI, Slurm) and SLURM_PROCID. Throws Error(usage) for a malformed number, or a rank outside its
/// job.
Environment read_environment(const Variables& variables);

}  // namespace lockstep::nccl
