#!/bin/sh
# Trains the same small model serially and on 2 MPI processes, as replicas and as stages, and a small Llama on ranks that
# share its layers, or its sequences: every step's loss must agree to rounding.
#   same_losses.sh TRAIN_SIM TRAIN_MPI MPIRUN_SH
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
run="--steps 30 --batch 9 --warmup 5 --sample 0"
same() { # MODEL MESH: serial.csv is MODEL's
  # shellcheck disable=SC2086  # words
  sh "$mpirun" -n 2 --timeout 60 "$mpi" $run --model "$1" $2 --csv "$folder/mpi.csv" >/dev/null
  paste -d, "$folder/serial.csv" "$folder/mpi.csv" | awk -F, '
    NR == 1 { half = NF / 2; next }
    { gap = $2 - $(half + 2); if (gap < 0) gap = -gap; if (gap > worst) worst = gap; steps++ }
    END { printf "%d steps, losses differ by at most %.2g\n", steps, worst; exit !(steps == 30 && worst < 5e-4) }'
}
sim=$1 mpi=$2 mpirun=$3
# shellcheck disable=SC2086  # words
"$sim" $run --model tiny --csv "$folder/serial.csv" >"$folder/said"
mean=$(awk -F, 'NR > 21 { sum += $2 } END { printf "%.4f", sum / 10 }' "$folder/serial.csv")
grep -q "^loss  *$mean (mean of the last 10 steps)" "$folder/said" || { echo "not $mean:"; grep '^loss' "$folder/said"; exit 1; }
for mesh in "--dp 2 --accumulate 2" "--pp 2 --microbatches 3"; do same tiny "$mesh"; done
# shellcheck disable=SC2086  # words
"$sim" $run --model tiny-llama --csv "$folder/serial.csv" >/dev/null
same tiny-llama "--tp 2 --sequence-parallel"
same tiny-llama "--cp 2"
run="$run --model tiny"
# Compares losses with and without an option that overlaps: they agree digit by digit on both backends, and so do the
# bytes of each step, though MPI's messages may be in flight when a step is reported.
overlapped() { # MESH OPTION
  # shellcheck disable=SC2086  # words
  {
    "$sim" $run $1 $2 --csv "$folder/sim.csv" >/dev/null
    "$sim" $run $1 --csv "$folder/before.csv" >/dev/null
    sh "$mpirun" -n 2 --timeout 60 "$mpi" $run $1 $2 --csv "$folder/mpi.csv" >/dev/null
  }
  for file in sim before mpi; do cut -d, -f1,2,4 "$folder/$file.csv" >"$folder/$file.losses"; done
  for file in sim mpi; do cut -d, -f1,7 "$folder/$file.csv" >"$folder/$file.bytes"; done
  head -n 1 "$folder/sim.bytes" | grep -qx step,bytes_sent && cmp "$folder/sim.bytes" "$folder/mpi.bytes" || exit 1
  cmp "$folder/sim.losses" "$folder/before.losses" && cmp "$folder/sim.losses" "$folder/mpi.losses" || exit 1
  echo "$1 $2: the losses of the run without it, on the simulator and on MPI, which send the same"
}
overlapped "--dp 2 --zero 1" --overlap-gather
overlapped "--dp 2 --zero 2" --overlap-gather
overlapped "--tp 2 --sequence-parallel" --overlap-scatter
overlapped "--dp 2" "--load-rate 1e5 --load-ahead 2"
# An option that would be ignored is an error, reported once by all processes together.
# shellcheck disable=SC2086  # words
if sh "$3" -n 2 --timeout 60 "$2" $run --machine dgx-h100 >"$folder/out" 2>&1; then
  echo "mpi accepted --machine without --emulate"; exit 1
fi
grep -c "^lab train: --machine is for the simulator" "$folder/out" | grep -qx 1 || { cat "$folder/out"; exit 1; }
