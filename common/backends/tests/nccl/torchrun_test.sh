#!/bin/sh
# Starts a program for NCCL as torchrun starts processes: only with RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and
# MASTER_PORT. Each rank takes the GPU of its LOCAL_RANK; if torchrun's own store holds the port, the ranks meet at the
# next one.
#   torchrun_test.sh PROGRAM ARGUMENTS…      the program runs on 4 ranks and ends with 0
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Two consecutive ports that are unused on this host.
port=$((32100 + $$ % 600))
in_use() { grep -qi "^ *[0-9]*: [0-9A-F]*:$(printf %04X "$1") " /proc/net/tcp /proc/net/tcp6 2> /dev/null; }
while in_use "$port" || in_use $((port + 1)); do port=$((port + 1)); done

start() { # AGENT_STORE PROGRAM ARGUMENTS…
  store=$1 rank=0 processes=
  shift
  while [ $rank -lt 4 ]; do
    env RANK=$rank WORLD_SIZE=4 LOCAL_RANK=$((3 - rank)) MASTER_ADDR=127.0.0.1 MASTER_PORT=$port LOCKSTEP_BINDING=1 \
      LOCKSTEP_FAKE_DEVICES=4 TORCHELASTIC_USE_AGENT_STORE="$store" timeout 60 "$@" > "$folder/$rank" 2>&1 &
    processes="$processes $!" rank=$((rank + 1))
  done
  for process in $processes; do wait "$process" || { cat "$folder"/*; exit 1; }; done
  for rank in 0 1 2 3; do
    grep -q "^rank $rank: .*, GPU $((3 - rank)) of 4" "$folder/0" || { echo "rank $rank has another GPU:"; cat "$folder/0"; exit 1; }
  done
}
start False "$@"
start True "$@"
echo "4 ranks met at ports $port and $((port + 1))"
