// Who this process is among those started together: read once from what the launcher put into the environment.
#pragma once

#include <functional>
#include <string>

namespace lockstep::nccl {

struct Environment {
  int rank = 0;
  int ranks = 1;
  int local_rank = -1;          // among those of its host, where the launcher says so
  std::string launcher;         // the variable that said so, "LOCKSTEP_RANK"; empty: nobody did, one process alone
  bool mpi = false;             // an MPI launcher started this process
  std::string store;            // LOCKSTEP_STORE: where the processes meet without MPI; empty: nowhere
  double timeout_seconds = 60;  // LOCKSTEP_STORE_TIMEOUT: how long to wait there for the others
};

/// A variable's value, or null: std::getenv, or a test's own.
using Variables = std::function<const char*(const char*)>;

/// Understands LOCKSTEP_RANK and LOCKSTEP_RANKS, torchrun's RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT
/// (together; the processes meet at that address unless LOCKSTEP_STORE names another), Open MPI's OMPI_COMM_WORLD_*,
/// PMI_* (MPICH, Intel MPI, Slurm) and SLURM_PROCID. Throws Error(usage) where a number is none, or a rank is outside
/// its job.
Environment read_environment(const Variables& variables);

}  // namespace lockstep::nccl
