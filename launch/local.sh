#!/bin/sh
# Starts the processes of a program for NCCL on this host where there is no MPI: they meet in a folder.
#
#   launch/local.sh -n RANKS [--timeout SECONDS] program arguments…
#
# The first process that fails ends the others, and gives the exit code; 124: the time was over.
set -u

usage() {
  echo "usage: $0 -n RANKS [--timeout SECONDS] program arguments…" >&2
  exit 2
}

ranks='' timeout=''
while [ $# -gt 0 ]; do
  case $1 in
    -n) [ $# -ge 2 ] || usage; ranks=$2; shift 2 ;;
    --timeout) [ $# -ge 2 ] || usage; timeout=$2; shift 2 ;;
    --nodes | --hostfile) echo "$0: several hosts need --launcher mpirun or srun" >&2; exit 2 ;;
    --) shift; break ;;
    -*) usage ;;
    *) break ;;
  esac
done
case $ranks in '' | 0* | *[!0-9]*) echo "$0: -n needs the number of ranks, at least 1" >&2; exit 2 ;; esac
case $timeout in *[!0-9]*) echo "$0: --timeout needs a whole number of seconds, not '$timeout'" >&2; exit 2 ;; esac
[ $# -gt 0 ] || usage

meeting=$(mktemp -d)
export LOCKSTEP_RANKS="$ranks" LOCKSTEP_STORE="file://$meeting/store"
export OPENBLAS_NUM_THREADS="${OPENBLAS_NUM_THREADS:-1}" OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"
[ -z "$timeout" ] || set -- timeout --kill-after=10 "$timeout" "$@"

processes=''
end_all() {
  # shellcheck disable=SC2086  # a list of numbers
  [ -z "$processes" ] || kill $processes 2> /dev/null
}
trap 'rm -rf "$meeting"' EXIT
trap 'end_all; exit 130' INT
trap 'end_all; exit 143' TERM

# Each process leaves its exit code in a file, which the loop below looks for: sh cannot wait for whoever ends first.
rank=0
while [ "$rank" -lt "$ranks" ]; do
  {
    LOCKSTEP_RANK=$rank "$@" < /dev/null &
    child=$!
    trap 'kill $child 2> /dev/null' TERM
    wait "$child"
    echo $? > "$meeting/$rank.part" && mv "$meeting/$rank.part" "$meeting/$rank.ended"
  } &
  processes="$processes $!"
  rank=$((rank + 1))
done

code=0
ended=0
while [ "$ended" -lt "$ranks" ]; do
  sleep 0.05
  ended=0
  for file in "$meeting"/*.ended; do
    [ -e "$file" ] || continue
    ended=$((ended + 1))
    of_rank=$(cat "$file")
    [ "$code" -ne 0 ] || [ "$of_rank" -eq 0 ] || { code=$of_rank; end_all; }
  done
done
exit "$code"
