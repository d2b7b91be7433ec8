#!/bin/sh
# ddp.cpp learns the same on any number of ranks, goes on to the same bytes however it is ended, and never waits for ever;
# its twin in PyTorch has the same losses. Skipped (77) where what a part needs is not installed.
#   ddp_test.sh mpi SOURCE MPI_COMPILER          DDP_KILLS: how often a rank is killed (2)
#   ddp_test.sh torch SOURCE MPI_COMPILER
#   ddp_test.sh nccl SOURCE MPI_COMPILER NVCC NCCL_INCLUDE NCCL_LIBRARY
set -eu
kind=$1 source=$2 mpicxx=$3
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp "$source"/examples/ddp/*.* "$folder"
cd "$folder"
# shellcheck source=tools/probes.sh
. "$source/tools/probes.sh"
text=$source/data/austen.txt
fail() { echo "FAILED: $*"; exit 1; }

compile() { "$mpicxx" -std=c++20 -O3 -Wall -Werror "$1.cpp" -o "$1"; }
# 2050 samples: the last window of an epoch has 2, so that one of three ranks has none.
run() { # PROGRAM RANKS [OPTION…]
  program=$1 ranks=$2
  shift 2
  sh "$source/launch/mpirun.sh" -n "$ranks" --timeout 100 "$folder/$program" "$text" --epochs 2 --log-every 3 "$@"
}
losses() { sed -n 's/^step \([0-9]*\), .*, loss \([0-9.]*\), .*/\1 \2/p' "$1"; }
near() { # FILE FILE: the same steps, and losses within 0.001 %
  losses "$1" > first && losses "$2" > second
  [ -s first ] && paste -d' ' first second |
    awk '$1 != $3 || ($2 - $4)^2 > (1e-5 * $2)^2 { exit 1 } END { exit NR < 5 }'
}
wrong() { # NAME FROM TO: ddp.cpp with another line
  sed "s|$2|$3|" ddp.cpp > "$1.cpp"
  ! cmp -s ddp.cpp "$1.cpp" || fail "ddp.cpp has no '$2'"
  compile "$1"
}

case $kind in
  mpi)
    [ "$(wc -l < ddp.cpp)" -le 250 ] || fail "ddp.cpp has more than 250 lines"
    compile ddp
    for ranks in 1 2 3; do run ddp $ranks --samples 2050 > "out$ranks" || fail "$ranks ranks"; done
    for ranks in 2 3; do near out1 "out$ranks" || fail "$ranks ranks have other losses than one: $(losses "out$ranks")"; done
    wrong weight '1.0f / count' '1.0f / (ranks * samples.size())'
    run weight 3 --samples 2050 > out_weight 2>&1
    ! near out1 out_weight || fail "gradients of uneven microbatches may be averaged"

    long="--samples 5000 --save-every 4 --checkpoint"
    # shellcheck disable=SC2086  # words
    run ddp 2 $long whole > /dev/null
    kills=0 tries=0
    while [ $kills -lt "${DDP_KILLS:-2}" ]; do
      [ $((tries += 1)) -le $((3 * ${DDP_KILLS:-2})) ] || fail "only $kills of $tries runs were killed before they ended"
      rm -f killed
      # shellcheck disable=SC2086
      run ddp 2 $long killed > log 2>&1 &
      job=$!
      until [ -e killed ]; do sleep 0.05; done
      sleep "0.$((tries * 7 % 10))"
      pgrep -f "^$folder/ddp " | awk -v n=$((tries % 2)) 'NR == n + 1' | xargs -r kill -KILL || true
      wait $job && cmp -s whole killed && continue # it had ended
      kills=$((kills + 1))
      # shellcheck disable=SC2086
      run ddp 2 $long killed > log 2>&1 || fail "after a kill: $(cat log)"
      grep -q '^resumed at step' log || fail "it began anew after a kill"
      cmp whole killed || fail "a killed run ends with other bytes"
    done

    wrong forgetful 'copy(state.momentum, host.data() + kParameters, kParameters)' ''
    for program in ddp forgetful; do
      rm -f stopped
      # shellcheck disable=SC2086
      run $program 2 $long stopped --log-every 1 > log 2>&1 &
      job=$!
      until grep -q '^step 3,' log; do sleep 0.05; done
      pkill -USR1 -o -f "^$folder/$program "
      code=0
      wait $job || code=$?
      [ $code -eq 75 ] || fail "a signal ends it with $code: $(cat log)"
      # shellcheck disable=SC2086
      run $program 3 $long stopped > log 2>&1 || fail "after a signal, on 3 ranks: $(cat log)"
      losses log > "losses_$program"
    done
    # shellcheck disable=SC2086
    run ddp 3 --samples 5000 > undisturbed
    losses undisturbed | tail -n "$(wc -l < losses_ddp)" > first
    paste -d' ' first losses_ddp | awk '($2 - $4)^2 > (1e-4 * $2)^2 { exit 1 } END { exit NR < 5 }' || fail "other losses after a signal"
    ! paste -d' ' first losses_forgetful | awk '($2 - $4)^2 > (1e-4 * $2)^2 { exit 1 } END { exit NR < 5 }' || fail "the momentum may be forgotten"

    run ddp 2 --epochs 1000 --timeout 2 > log 2>&1 &
    job=$!
    until grep -q '^step 3,' log; do sleep 0.05; done
    pkill -STOP -n -f "^$folder/ddp "
    wait $job && fail "a job whose rank stands still ends with 0"
    grep -q 'no step has ended for --timeout seconds' log || fail "a rank that stands still: $(cat log)"
    run ddp 2 --rats 1 > log 2>&1 && fail "an unknown option is taken"
    echo "PASS: ddp.cpp on 1, 2 and 3 ranks, $kills kills, a signal, a rank that stands still"
    ;;
  torch)
    python=$(find_pytorch 'import torch.distributed as d; assert d.is_gloo_available()') || exit 77
    compile ddp
    run ddp 2 --samples 2050 > out_mpi
    port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    for rank in 1 0; do
      RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank MASTER_ADDR=127.0.0.1 MASTER_PORT=$port timeout 200 \
        "$python" ddp.py "$text" --epochs 2 --log-every 3 --samples 2050 > "out_torch$rank" 2>&1 &
    done
    wait $! || fail "ddp.py: $(cat out_torch0)"
    near out_mpi out_torch0 || fail "PyTorch's losses are others: $(losses out_torch0)"
    echo "PASS: ddp.py has the losses of ddp.cpp"
    ;;
  nccl)
    # shellcheck disable=SC2046  # words
    "$4" -std=c++20 -O2 --extended-lambda -Wno-deprecated-gpu-targets -arch=sm_80 -I"$5" -x cu ddp.cpp -o ddp_nccl \
      $("$mpicxx" -showme:incdirs | sed 's/[^ ]*/-I&/g') $("$mpicxx" -showme:libdirs | sed 's/[^ ]*/-L&/g') -lmpi \
      -Xlinker "$6" -Xlinker -rpath -Xlinker "${6%/*}"
    has_gpu || { echo "compiled; no CUDA device to run it on"; exit 77; }
    compile ddp
    run ddp 1 --samples 2050 > out_mpi
    run ddp_nccl "$(nvidia-smi -L | grep -c '^GPU')" --samples 2050 > out_nccl || fail "$(cat out_nccl)"
    near out_mpi out_nccl || fail "other losses on GPUs: $(losses out_nccl)"
    echo "PASS: ddp.cpp has the same losses on GPUs"
    ;;
esac
