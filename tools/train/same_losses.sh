#!/bin/sh
# Trains the same small model serially and on 2 MPI processes: every step's loss must agree to rounding.
#   same_losses.sh TRAIN_SIM TRAIN_MPI MPIRUN_SH
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
run="--model tiny --steps 30 --batch 9 --warmup 5 --sample 0"
"$1" $run --csv "$folder/serial.csv" >/dev/null
sh "$3" -n 2 --timeout 60 "$2" $run --accumulate 2 --csv "$folder/mpi.csv" >/dev/null
paste -d, "$folder/serial.csv" "$folder/mpi.csv" | awk -F, '
  NR == 1 { half = NF / 2; next }
  { gap = $2 - $(half + 2); if (gap < 0) gap = -gap; if (gap > worst) worst = gap; steps++ }
  END { printf "%d steps, losses differ by at most %.2g\n", steps, worst; exit !(steps == 30 && worst < 5e-4) }'
