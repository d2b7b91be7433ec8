#!/bin/sh
# Starts a program's processes through Slurm, inside an allocation or by asking for one.
#
#   launch/srun.sh -n RANKS [--nodes N] [--timeout SECONDS] program arguments…
#
# Ranks are spread evenly over the nodes; each picks the GPU of its local rank. Slurm's own settings (SLURM_*) hold:
# partition, account, --gres. SRUN names another srun; SLURM_MPI_TYPE another way for MPI's start-up. Processes that know
# no MPI meet where LOCKSTEP_STORE says; inside an allocation that is by itself a port of the first host's, the job's own.
set -u

usage() {
  echo "usage: $0 -n RANKS [--nodes N] [--timeout SECONDS] program arguments…" >&2
  exit 2
}

ranks='' nodes=1 timeout=''
while [ $# -gt 0 ]; do
  case $1 in
    -n) [ $# -ge 2 ] || usage; ranks=$2; shift 2 ;;
    --nodes) [ $# -ge 2 ] || usage; nodes=$2; shift 2 ;;
    --timeout) [ $# -ge 2 ] || usage; timeout=$2; shift 2 ;;
    --hostfile) echo "$0: Slurm chooses the hosts: leave out --hostfile, or use --launcher mpirun" >&2; exit 2 ;;
    --) shift; break ;;
    -*) usage ;;
    *) break ;;
  esac
done
case $ranks in '' | 0* | *[!0-9]*) echo "$0: -n needs the number of ranks, at least 1" >&2; exit 2 ;; esac
case $nodes in '' | 0* | *[!0-9]*) echo "$0: --nodes needs a number of hosts, at least 1" >&2; exit 2 ;; esac
case $timeout in 0* | *[!0-9]*) echo "$0: --timeout needs a whole number of seconds, not '$timeout'" >&2; exit 2 ;; esac
[ $# -gt 0 ] || usage
[ $((ranks % nodes)) -eq 0 ] || { echo "$0: $ranks ranks cannot be distributed evenly over $nodes nodes" >&2; exit 2; }

srun=${SRUN:-srun}
if ! command -v "$srun" > /dev/null 2>&1; then
  echo "$0: srun is not installed: this is not a Slurm machine; use --launcher mpirun" >&2
  exit 2
fi

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
