#!/bin/sh
# Starts a program's processes through Slurm, inside an allocation or by asking for one.
#
#   launch/srun.sh -n RANKS [--nodes N] [--timeout SECONDS] program arguments…
#
# Ranks are spread evenly over the nodes; each picks the GPU of its local rank. Slurm's own settings (SLURM_*) hold:
# partition, account, --gres. SRUN names another srun; SLURM_MPI_TYPE another way for MPI's start-up. Processes that know
# no MPI meet where LOCKSTEP_STORE says; inside an allocation that is by itself a port of the first host's, the job's own.
set -u

options='[--nodes N] [--timeout SECONDS]'
elsewhere='Slurm chooses the hosts: leave out --hostfile, or use --launcher mpirun'
# shellcheck source=launch/options.sh
. "$(dirname -- "$0")/options.sh"

srun=${SRUN:-srun}
command -v "$srun" > /dev/null 2>&1 ||
  refuse "srun is not installed: this is not a Slurm machine; use --launcher mpirun"

export OPENBLAS_NUM_THREADS="${OPENBLAS_NUM_THREADS:-1}" OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
export LOCKSTEP_MPI_RANKS="$ranks" # the program compares this with what it finds
if [ -z "${SLURM_MPI_TYPE:-}" ]; then
  case $("$srun" --mpi=list 2>&1) in *pmix*) export SLURM_MPI_TYPE=pmix ;; esac
fi

if [ -z "${LOCKSTEP_STORE:-}" ] && [ -n "${SLURM_JOB_ID:-}" ]; then
  case $(ldd "$1" 2> /dev/null) in
    *libmpi*) ;;
    *)
      first=$(scontrol show hostnames "${SLURM_JOB_NODELIST:-}" 2> /dev/null | head -n 1)
      [ -z "$first" ] || export LOCKSTEP_STORE="tcp://$first:$((20000 + SLURM_JOB_ID % 20000))"
      ;;
  esac
fi

# One rank that fails ends the job; --kill-on-bad-exit would else be the cluster's choice.
set -- "$srun" --ntasks="$ranks" --nodes="$nodes" --ntasks-per-node=$((ranks / nodes)) --kill-on-bad-exit=1 \
  --cpu-bind="${LOCKSTEP_CPU_BIND:-none}" "$@"
# Since Slurm 22.05 a step does not take this over from its job.
[ -z "${SLURM_CPUS_PER_TASK:-}" ] || export SRUN_CPUS_PER_TASK="${SRUN_CPUS_PER_TASK:-$SLURM_CPUS_PER_TASK}"
[ -z "$timeout" ] || set -- timeout --kill-after=10 "$timeout" "$@"
exec "$@"
