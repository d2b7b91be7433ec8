#!/bin/sh
# Starts a program's processes through Slurm, inside an allocation or by asking for one.
#
#   launch/srun.sh -n RANKS [--nodes N] [--timeout SECONDS] program arguments…
#
# Ranks are spread evenly over the nodes; each picks the GPU of its local rank. Slurm's own settings (SLURM_*) hold:
# partition, account, --gres. SRUN names another srun; SLURM_MPI_TYPE another way for MPI's start-up.
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
    --hostfile) echo "$0: hosts are Slurm's to choose: leave out --hostfile, or take --launcher mpirun" >&2; exit 2 ;;
    --) shift; break ;;
    -*) usage ;;
    *) break ;;
  esac
done
case $ranks in '' | 0* | *[!0-9]*) echo "$0: -n needs the number of ranks, at least 1" >&2; exit 2 ;; esac
case $nodes in '' | 0* | *[!0-9]*) echo "$0: --nodes needs a number of hosts, at least 1" >&2; exit 2 ;; esac
case $timeout in *[!0-9]*) echo "$0: --timeout needs a whole number of seconds, not '$timeout'" >&2; exit 2 ;; esac
[ $# -gt 0 ] || usage
[ $((ranks % nodes)) -eq 0 ] || { echo "$0: $ranks ranks cannot be spread evenly over $nodes nodes" >&2; exit 2; }

srun=${SRUN:-srun}
if ! command -v "$srun" > /dev/null 2>&1; then
  echo "$0: srun is not here: this is no Slurm machine; take --launcher mpirun" >&2
  exit 2
fi

export OPENBLAS_NUM_THREADS="${OPENBLAS_NUM_THREADS:-1}" OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
export LOCKSTEP_MPI_RANKS="$ranks" # the program compares this with what it finds
if [ -z "${SLURM_MPI_TYPE:-}" ]; then
  case $("$srun" --mpi=list 2>&1) in *pmix*) export SLURM_MPI_TYPE=pmix ;; esac
fi

# One rank that fails ends the job; --kill-on-bad-exit would else be the cluster's choice.
set -- "$srun" --ntasks="$ranks" --nodes="$nodes" --ntasks-per-node=$((ranks / nodes)) --kill-on-bad-exit=1 \
  --cpu-bind="${LOCKSTEP_CPU_BIND:-none}" "$@"
[ -z "$timeout" ] || set -- timeout --kill-after=10 "$timeout" "$@"
exec "$@"
