#!/bin/sh
# Starts the processes of a program for NCCL on this host where there is no MPI: they meet at a TCP port of it.
#
#   launch/local.sh -n RANKS [--timeout SECONDS] program arguments…
#
# The first process that fails gives the exit code; the others explain what they saw of it and end, or are ended 3 s
# later. The whole job ends, too, when this script is interrupted or killed, or when the time is over (exit code 124).
# On several hosts without MPI, start each rank with LOCKSTEP_RANK, LOCKSTEP_RANKS and LOCKSTEP_STORE=tcp://HOST:PORT,
# where rank 0 runs on HOST.
set -u

options='[--timeout SECONDS]'
elsewhere='several hosts need --launcher mpirun or srun'
# shellcheck source=launch/options.sh
. "$(dirname -- "$0")/options.sh"

# A port that nobody uses: two jobs that start together begin to look at different ones.
port=$((20000 + $$ % 12000))
while grep -qi "^ *[0-9]*: [0-9A-F]*:$(printf %04X "$port") " /proc/net/tcp /proc/net/tcp6 2> /dev/null; do port=$((port + 1)); done
export LOCKSTEP_RANKS="$ranks" LOCKSTEP_STORE="tcp://127.0.0.1:$port"
export OPENBLAS_NUM_THREADS="${OPENBLAS_NUM_THREADS:-1}" OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"

running=''
end_all() {
  # shellcheck disable=SC2086  # a list of numbers
  [ -z "$running" ] || kill -KILL $running 2> /dev/null
}
trap 'end_all; exit 130' INT
trap 'end_all; exit 143' TERM
trap 'end_all; exit 129' HUP

# Children of this shell itself: each asks the kernel to end it when its parent is gone.
rank=0
while [ "$rank" -lt "$ranks" ]; do
  LOCKSTEP_RANK=$rank "$@" < /dev/null &
  running="$running $!"
  rank=$((rank + 1))
done

# A process that has ended is a zombie until it is waited for; sh cannot wait for the first one that ends.
ended() {
  read -r line 2> /dev/null < "/proc/$1/stat" || return 0
  set -- ${line##*)}
  [ "$1" = Z ]
}

began=$(date +%s)
code=0 failed_at=''
while [ -n "$running" ]; do
  sleep 0.05
  now=$(date +%s)
  left=''
  for process in $running; do
    if ! ended "$process"; then
      left="$left $process"
      continue
    fi
    wait "$process"
    status=$?
    if [ "$code" -eq 0 ] && [ "$status" -ne 0 ]; then
      code=$status
      failed_at=$now
    fi
  done
  running=$left
  [ -z "$failed_at" ] || [ $((now - failed_at)) -lt 3 ] || end_all
  if [ -n "$timeout" ] && [ -n "$running" ] && [ $((now - began)) -ge "$timeout" ]; then
    echo "$0: the job did not end within $timeout s; it is stopped" >&2
    end_all
    exit 124
  fi
done
exit "$code"
