#!/bin/sh
# The rings of this folder compile, and leave the right sum on every rank; one that forgets to add is found by its own
# check. Skipped (77) where what a ring needs is not installed.
#   ring_test.sh mpi SOURCE MPI_COMPILER
#   ring_test.sh torch SOURCE
#   ring_test.sh nccl SOURCE NVCC NCCL_INCLUDE NCCL_LIBRARY
set -eu
kind=$1 source=$2
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp "$source"/examples/ring/ring_* "$folder"
cd "$folder"
# shellcheck source=tools/probes.sh
. "$source/tools/probes.sh"

forget() { # FILE FROM TO: the same program with another line
  sed "s/$2/$3/" "ring_$1" > "wrong_$1"
  ! cmp -s "ring_$1" "wrong_$1" || { echo "ring_$1 has no '$2'"; exit 1; }
}
run_mpi() { sh "$source/launch/mpirun.sh" -n "$ranks" --timeout 100 "./$program" "$numbers"; }
run_torch() { # as torchrun would start them
  port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  rank=0 processes=
  while [ "$rank" -lt "$ranks" ]; do
    RANK=$rank WORLD_SIZE=$ranks LOCAL_RANK=$rank MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
      timeout 200 "$python" "$program.py" "$numbers" &
    processes="$processes $!" rank=$((rank + 1))
  done
  failed=0
  for process in $processes; do wait "$process" || failed=1; done
  return $failed
}
run_nccl() { "./$program" "$numbers"; }

right() { # of 4 bytes each
  said=$("run_$kind") || { echo "$program on $ranks ranks, $numbers numbers: $said"; exit 1; }
  echo "$said"
  echo "$said" | grep -q ": $ranks ranks, $((4 * numbers)) bytes, right; median .* busbw"
}
wrong() {
  if said=$("run_$kind") || ! echo "$said" | grep -q 'WRONG'; then
    echo "a ring that does not add passed its check: $said"
    exit 1
  fi
}
all() {
  for numbers in 2 100003; do program=ring_$kind right; done
  program=wrong_$kind wrong
}

case $kind in
  mpi)
    forget mpi.cpp 'data\[i\] += ' 'data[i] = '
    for program in ring_mpi wrong_mpi; do "$1" -O2 -Wall -Werror "$program.cpp" -o "$program"; done
    for ranks in 2 3; do all; done
    ;;
  torch)
    python=$(find_pytorch 'import torch.distributed as d; assert d.is_gloo_available()') || exit 77
    forget torch.py 'incoming += received' 'incoming.copy_(received)'
    for ranks in 2 3; do all; done
    ;;
  nccl)
    forget nccl.cu 'to\[i\] += ' 'to[i] = '
    for program in ring_nccl wrong_nccl; do
      "$1" -O2 -Wno-deprecated-gpu-targets -arch=sm_80 -I"$2" "$program.cu" -o "$program" -Xlinker "$3" -Xlinker -rpath -Xlinker "${3%/*}"
    done
    has_gpu || { echo "compiled; no CUDA device to run it on"; exit 77; }
    ranks=$(nvidia-smi -L | grep -c '^GPU')
    [ "$ranks" -gt 1 ] || { echo "compiled; a ring needs two GPUs"; exit 77; }
    all
    ;;
esac
